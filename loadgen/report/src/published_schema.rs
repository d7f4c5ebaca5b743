//! Checks the published JSON schemas, in `schema/` of this crate, against the structs.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

/// Set to write the file anew after a field was added.
const UPDATE: &str = "LOADGEN_UPDATE_SCHEMA";

/// Checks that `schema/FILE` is the schema of `T` as it is serialized.
#[track_caller]
pub(crate) fn assert_current<T: JsonSchema>(file: &str) {
    let schema = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<T>();
    let generated = serde_json::to_string_pretty(&schema).expect("plain data") + "\n";
    let path = format!("{}/schema/{file}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &generated).expect("a writable source tree");
    }
    let published = std::fs::read_to_string(&path).expect("the published schema");
    assert!(
        published == generated,
        "the structs have changed: run this test with {UPDATE}=1 and look at the difference"
    );
}
