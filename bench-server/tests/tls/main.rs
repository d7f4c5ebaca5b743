//! Both tiers over TLS: which clients are served, by which version of HTTP, and what happens when
//! the files change.

mod client;
mod etcd;
mod identity;
mod kube;
mod reload;
