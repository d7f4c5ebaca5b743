//! Compiles the trimmed etcd protos without protoc: protox parses them, tonic-prost-build
//! generates.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["rpc.proto", "health.proto"];
    for file in ["mvcc.proto", "auth.proto", "rpc.proto", "health.proto"] {
        println!("cargo::rerun-if-changed=proto/{file}");
    }
    let descriptors = protox::compile(files, ["proto"])?;
    tonic_prost_build::configure()
        .bytes(".")
        .compile_fds(descriptors)?;
    Ok(())
}
