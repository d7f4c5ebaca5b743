//! `schema/report.schema.json` of this crate is what these structs say, field for field, with their
//! docs.

use schemars::generate::SchemaSettings;

use super::report::Report;

/// Set to write the file anew after a field was added.
const UPDATE: &str = "LOADGEN_UPDATE_SCHEMA";

#[test]
fn the_published_schema_is_that_of_the_structs() {
    let schema = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<Report>();
    let generated = serde_json::to_string_pretty(&schema).expect("plain data") + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schema/report.schema.json");
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(path, &generated).expect("a writable source tree");
    }
    let published = std::fs::read_to_string(path).expect("the published schema");
    assert!(
        published == generated,
        "the structs have changed: run this test with {UPDATE}=1 and look at the difference"
    );
}
