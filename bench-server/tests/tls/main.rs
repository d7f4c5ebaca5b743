//! Both tiers over TLS: the clients that are served, their version of HTTP, and changes of the
//! files.

mod client;
mod etcd;
mod kube;
mod reload;
