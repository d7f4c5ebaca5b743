//! Checks the published JSON schemas, in `schema/` of this crate, against the structs.

use std::path::Path;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

/// The environment variable that makes the check write the file instead, after a field was added.
const UPDATE: &str = "LOADGEN_UPDATE_SCHEMA";

/// Checks that `schema/FILE` is the schema of the serialized form of `T`.
#[track_caller]
pub(crate) fn assert_current<T: JsonSchema>(file: &str) {
    let schema = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<T>();
    let generated = serde_json::to_string_pretty(&schema).expect("plain data") + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("schema")
        .join(file);
    test_support::assert_kept(&path, &generated, UPDATE);
}
