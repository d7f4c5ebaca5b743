//! Generated from `proto/`: messages, clients and server traits.
#![allow(missing_docs, unreachable_pub, clippy::all)]

/// `etcdserverpb`: every etcd service and its messages.
pub mod etcdserverpb {
    tonic::include_proto!("etcdserverpb");
}

/// `mvccpb`: stored keys and watch events.
pub mod mvccpb {
    tonic::include_proto!("mvccpb");
}

/// `authpb`: permissions and user options.
pub mod authpb {
    tonic::include_proto!("authpb");
}

/// `grpc.health.v1`: the gRPC health checking protocol.
pub mod health {
    tonic::include_proto!("grpc.health.v1");
}
