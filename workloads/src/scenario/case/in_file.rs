//! Serializes cases of scenario files: each is a name, or a table with options.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::CaseSpec;
use crate::strategy::Strategy;

/// Serializes cases: a case without options as its strategy's name, any other as a table.
pub(super) fn serialize<S: Serializer>(cases: &[CaseSpec], to: S) -> Result<S::Ok, S::Error> {
    // A case of several loads is serialized as a `[[case]]`.
    let cases = cases.iter().filter(|case| case.loads.is_none());
    let cases = cases.map(|case| match case.strategy {
        strategy if *case == CaseSpec::from(strategy) => NameOrTable::Name(strategy),
        _ => NameOrTable::Table(case),
    });
    cases.collect::<Vec<_>>().serialize(to)
}

/// Deserializes cases.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<CaseSpec>, D::Error> {
    let cases = Vec::<Written>::deserialize(from)?;
    Ok(cases.into_iter().map(|Written(case)| case).collect())
}

/// The serialized form of a case.
#[derive(Serialize)]
#[serde(untagged)]
enum NameOrTable<'a> {
    Name(Strategy),
    Table(&'a CaseSpec),
}

/// The deserialized form of a case.
#[derive(Deserialize)]
#[serde(transparent)]
struct Written(#[serde(deserialize_with = "name_or_table")] CaseSpec);

fn name_or_table<'de, D: Deserializer<'de>>(from: D) -> Result<CaseSpec, D::Error> {
    from.deserialize_any(NameOrTableVisitor)
}

/// A hand-written visitor instead of an untagged enum, so that a misspelt name keeps its error with
/// a suggestion.
struct NameOrTableVisitor;

impl<'de> Visitor<'de> for NameOrTableVisitor {
    type Value = CaseSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a strategy's name, or a table with `strategy` and options")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<CaseSpec, E> {
        Strategy::deserialize(StrDeserializer::new(name)).map(CaseSpec::from)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CaseSpec, A::Error> {
        CaseSpec::deserialize(MapAccessDeserializer::new(map))
    }
}
