//! Checks that results are the parts of one run, each present once and complete.

use super::{GeneratorResult, MergeError};
use crate::result::{Outcome, Report};

/// Returns the parts in the order of their generators.
///
/// # Errors
/// [`MergeError`] about the first part that does not fit.
pub(super) fn in_order(
    mut parts: Vec<GeneratorResult>,
) -> Result<Vec<GeneratorResult>, MergeError> {
    for part in &parts {
        is_whole(part)?;
    }
    parts.sort_by_key(index);
    let (Some(first), rest) = (parts.first(), parts.get(1..).unwrap_or_default()) else {
        return Err(MergeError::Nothing);
    };
    for other in rest {
        agree(first, other)?;
    }
    for pair in parts.windows(2) {
        if index(&pair[0]) == index(&pair[1]) {
            return Err(MergeError::Twice {
                index: index(&pair[0]),
                one: pair[0].name.clone(),
                other: pair[1].name.clone(),
            });
        }
    }
    let count = first.result.report.shard.as_ref().map_or(0, |s| s.count);
    let absent = u64::from(count).saturating_sub(parts.len() as u64);
    if absent == 0 {
        return Ok(parts);
    }
    let missing = (0..count).filter(|number| !parts.iter().any(|part| index(part) == *number));
    let named: Vec<_> = missing.take(10).map(|number| number.to_string()).collect();
    let mut missing = named.join(", ");
    if absent > named.len() as u64 {
        missing += &format!(" and {} more", absent - named.len() as u64);
    }
    Err(MergeError::Missing { missing, count })
}

pub(super) fn index(part: &GeneratorResult) -> u32 {
    let shard = part.result.report.shard.as_ref();
    shard.map_or(0, |shard| shard.index)
}

/// Checks that a result belongs to one generator of several, and that its share of the load was
/// measured to the end.
fn is_whole(part: &GeneratorResult) -> Result<(), MergeError> {
    let GeneratorResult { name, result } = part;
    let report = &result.report;
    let Some(shard) = &report.shard else {
        return Err(MergeError::NoShard(name.clone()));
    };
    let not_whole = |reason: String| {
        Err(MergeError::NotWhole {
            name: name.clone(),
            reason,
        })
    };
    if shard.index >= shard.count {
        return not_whole(format!(
            "it says that it is generator {} of {}",
            shard.index, shard.count
        ));
    }
    if report.interrupted {
        return not_whole("it was interrupted".to_owned());
    }
    let [case] = &report.cases[..] else {
        return not_whole(format!("it has {} cases, not one", report.cases.len()));
    };
    match &case.outcome {
        Outcome::Measured | Outcome::Invalid { .. } | Outcome::Failed { .. } => Ok(()),
        other => not_whole(other.reason().unwrap_or("not measured").to_owned()),
    }
}

/// Checks that two results belong to one run.
fn agree(one: &GeneratorResult, other: &GeneratorResult) -> Result<(), MergeError> {
    let differ = |what, value: String, other_value: String| {
        Err(MergeError::Differ {
            what,
            one: one.name.clone(),
            other: other.name.clone(),
            value,
            other_value,
        })
    };
    for (what, of) in SAME {
        let [value, other_value] = [one, other].map(|part| of(&part.result.report));
        if value != other_value {
            return differ(what, value, other_value);
        }
    }
    let [toml, other_toml] = [one, other].map(|part| &part.result.scenario_toml);
    match toml == other_toml {
        true => Ok(()),
        false => {
            let (line, other_line) = difference(toml, other_toml);
            differ("scenario", line, other_line)
        }
    }
}

/// A property that must be equal in all parts of a run: its name and its value.
type Same = (&'static str, fn(&Report) -> String);

const SAME: [Same; 9] = [
    ("number of generators", |report| {
        let shard = report.shard.as_ref();
        shard.map_or_else(String::new, |shard| shard.count.to_string())
    }),
    ("scenario", |report| report.scenario.clone()),
    ("beginning (--start-at)", |report| {
        let shard = report.shard.as_ref();
        let at = shard.and_then(|shard| shard.start_at.clone());
        at.unwrap_or_else(|| "not given".to_owned())
    }),
    ("seed", |report| {
        let seeds = report.data_sets.iter().map(|data| data.seed);
        let seeds = seeds.map(|seed| seed.map_or_else(|| "none".to_owned(), |n| n.to_string()));
        seeds.collect::<Vec<_>>().join(", ")
    }),
    ("fingerprint", |report| {
        let prints = report.data_sets.iter().map(|data| &data.fingerprint);
        let prints = prints.map(|print| print.as_deref().unwrap_or("none"));
        prints.collect::<Vec<_>>().join(", ")
    }),
    ("target", |report| {
        let cases = report.cases.iter().map(|case| case.target.as_str());
        cases.collect::<Vec<_>>().join(", ")
    }),
    ("case", |report| {
        let cases = report.cases.iter();
        let rows = cases.map(|case| format!("{}/{}/{}", case.data_set, case.tier, case.row));
        rows.collect::<Vec<_>>().join(", ")
    }),
    ("version of loadgen", |report| report.environment.program()),
    ("build of loadgen", |report| {
        report.environment.profile.clone()
    }),
];

/// Returns the first line of each text in which they differ.
fn difference(one: &str, other: &str) -> (String, String) {
    let (mut lines, mut other_lines) = (one.lines(), other.lines());
    loop {
        match (lines.next(), other_lines.next()) {
            (Some(line), Some(other_line)) if line == other_line => {}
            (line, other_line) => {
                let shown = |line: Option<&str>| format!("`{}`", line.unwrap_or("(its end)"));
                return (shown(line), shown(other_line));
            }
        }
    }
}
