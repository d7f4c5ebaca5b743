//! Checks that `schema/report.schema.json` of this crate matches these structs and their docs.

use super::report::Report;
use crate::published_schema;

#[test]
fn the_published_schema_is_that_of_the_structs() {
    published_schema::assert_current::<Report>("report.schema.json");
}
