//! `schema/report.schema.json` of this crate is what these structs say, field for field, with their
//! docs.

use super::report::Report;
use crate::published_schema;

#[test]
fn the_published_schema_is_that_of_the_structs() {
    published_schema::assert_current::<Report>("report.schema.json");
}
