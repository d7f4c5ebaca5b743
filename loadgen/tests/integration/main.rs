//! Tests of the program `loadgen` and of its library against servers: bench-server, etcd, and
//! servers that a test defines. One program, since each would link all of loadgen. `cargo test -p
//! loadgen --test integration -- foreign::` runs the tests of one file.

mod ab;
mod bad_input;
mod bad_results;
mod capture;
mod cases;
mod cluster;
mod cluster_faults;
mod cluster_kube;
mod compaction;
mod compare;
mod connection_faults;
mod foreign;
mod generators;
mod go_clients;
mod https;
mod isolation;
mod kube;
mod kube_loads;
mod kubeconfig;
mod loads;
mod own_namespaces;
mod probe;
mod probe_kube;
mod profile;
mod program;
mod resources;
mod servers;
mod shards;
mod soak;
mod suite;
mod support;
mod watch_faults;
