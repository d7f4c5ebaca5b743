//! Rows in a file: each is a name, or a table with options.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::RowSpec;
use crate::strategy::Strategy;

/// Writes rows, each as short as it can be.
pub(super) fn serialize<S: Serializer>(rows: &[RowSpec], to: S) -> Result<S::Ok, S::Error> {
    // A case is serialized as [[case]].
    let rows = rows.iter().filter(|row| row.case.is_none());
    let rows = rows.map(|row| match row.strategy {
        strategy if *row == RowSpec::from(strategy) => NameOrTable::Name(strategy),
        _ => NameOrTable::Table(row),
    });
    rows.collect::<Vec<_>>().serialize(to)
}

/// Reads rows.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<RowSpec>, D::Error> {
    let rows = Vec::<Written>::deserialize(from)?;
    Ok(rows.into_iter().map(|Written(row)| row).collect())
}

/// A row as it is written.
#[derive(Serialize)]
#[serde(untagged)]
enum NameOrTable<'a> {
    Name(Strategy),
    Table(&'a RowSpec),
}

/// A row as it is read.
#[derive(Deserialize)]
#[serde(transparent)]
struct Written(#[serde(deserialize_with = "name_or_table")] RowSpec);

fn name_or_table<'de, D: Deserializer<'de>>(from: D) -> Result<RowSpec, D::Error> {
    from.deserialize_any(NameOrTableVisitor)
}

/// Deserializes by hand instead of untagged, so that a misspelt name keeps its error with a
/// suggestion.
struct NameOrTableVisitor;

impl<'de> Visitor<'de> for NameOrTableVisitor {
    type Value = RowSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a strategy's name, or a table with `strategy` and options")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<RowSpec, E> {
        Strategy::deserialize(StrDeserializer::new(name)).map(RowSpec::from)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RowSpec, A::Error> {
        RowSpec::deserialize(MapAccessDeserializer::new(map))
    }
}
