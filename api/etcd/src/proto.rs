//! Messages, clients and server traits, as tonic generates them from `proto/`.
//!
//! The generated code is stored beside this file, so that a build needs neither a protobuf compiler
//! nor the time to build one. `UPDATE_PROTO=1 cargo test -p etcd-api --lib proto` regenerates it.
//! Without the variable, that test fails if the stored code differs from the generated code.
#![allow(missing_docs, unreachable_pub, clippy::all)]

/// `etcdserverpb`: every etcd service and its messages.
pub mod etcdserverpb {
    include!("proto/etcdserverpb.rs");
}

/// `mvccpb`: stored keys and watch events.
pub mod mvccpb {
    include!("proto/mvccpb.rs");
}

/// `authpb`: permissions and user options.
pub mod authpb {
    include!("proto/authpb.rs");
}

/// `grpc.health.v1`: the gRPC health checking protocol.
pub mod health {
    include!("proto/grpc.health.v1.rs");
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// The packages, after which the generated files are named.
    const PACKAGES: [&str; 4] = ["authpb", "etcdserverpb", "grpc.health.v1", "mvccpb"];
    /// The environment variable that makes the test write the files.
    const UPDATE: &str = "UPDATE_PROTO";

    #[test]
    fn the_generated_code_is_what_the_protos_say() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let protos = package.join("proto");
        let generated = tempfile::tempdir().expect("a folder");
        let files = ["rpc.proto", "health.proto"].map(|file| protos.join(file));
        let descriptors = protox::compile(files, [&protos]).expect("protos");
        tonic_prost_build::configure()
            .bytes(".")
            .out_dir(generated.path())
            .compile_fds(descriptors)
            .expect("code");
        let file_count = fs::read_dir(generated.path()).expect("a folder").count();
        assert_eq!(file_count, PACKAGES.len(), "a package without a module");
        for name in PACKAGES {
            let file = format!("{name}.rs");
            let code = fs::read_to_string(generated.path().join(&file)).expect("code");
            let kept = package.join("src/proto").join(&file);
            test_support::assert_kept(&kept, &code, UPDATE);
        }
    }
}
