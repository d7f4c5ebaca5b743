//! Merges the latencies of all generators, value by value.

use std::collections::BTreeMap;

use super::{GeneratorResult, MergeError};
use crate::latency::Latencies;
use crate::result::histogram_log::TaggedHistogram;
use crate::result::{Case, Quantiles};

/// The merged histograms of all generators, one for each measure.
#[derive(Debug)]
pub(super) struct Histograms(Vec<TaggedHistogram>);

impl Histograms {
    /// Adds up the histograms of the only case of each part.
    ///
    /// # Errors
    /// [`MergeError::Times`] where a part has more or fewer values than its report counts,
    /// [`MergeError::Histogram`] where two histograms cannot be added.
    pub(super) fn added(parts: &[GeneratorResult]) -> Result<Self, MergeError> {
        let mut all: Vec<TaggedHistogram> = Vec::new();
        for part in parts {
            check(part)?;
            for one in &part.result.histograms {
                let known = all.iter_mut().find(|known| known.measure == one.measure);
                let Some(known) = known else {
                    all.push(one.clone());
                    continue;
                };
                let added = known.histogram.added(&one.histogram);
                known.histogram = added.map_err(|reason| MergeError::Histogram {
                    name: part.name.clone(),
                    measure: one.measure.clone(),
                    reason,
                })?;
                known.start = known.start.min(one.start);
                known.duration = known.duration.max(one.duration);
            }
        }
        Ok(Self(all))
    }

    /// Returns the distribution of a measure; `None` where there is no histogram of it. `each` are
    /// the distributions of the generators, which contain the numbers of clamped values. If values
    /// come in groups, as the events of one write do, `groups` is the number of groups that limits
    /// the quantiles.
    pub(super) fn quantiles<'a>(
        &self,
        measure: &str,
        each: impl Iterator<Item = Option<&'a Quantiles>>,
        groups: Option<u64>,
    ) -> Option<Quantiles> {
        let one = self.0.iter().find(|one| one.measure == measure)?;
        let clamped = each.flatten().map(|quantiles| quantiles.clamped).sum();
        let histogram = one.histogram.histogram_ns().clone();
        let times = Latencies::new(histogram, clamped);
        Some(times.quantiles_of_ms(groups.unwrap_or(times.n())))
    }

    /// Returns all histograms, labelled with this case.
    pub(super) fn tagged(self, case: &str) -> Vec<TaggedHistogram> {
        let all = self.0.into_iter();
        all.map(|one| TaggedHistogram {
            case: case.to_owned(),
            ..one
        })
        .collect()
    }
}

/// Checks that a part has every value that its report counts. A truncated log parses without error.
fn check(part: &GeneratorResult) -> Result<(), MergeError> {
    let mut found: BTreeMap<&str, u64> = BTreeMap::new();
    for one in &part.result.histograms {
        *found.entry(&one.measure).or_default() += one.histogram.n();
    }
    for (measure, expected) in part.result.report.cases.iter().flat_map(counted) {
        let found = found.get(measure.as_str()).copied().unwrap_or(0);
        if found != expected {
            return Err(MergeError::Times {
                name: part.name.clone(),
                measure,
                found,
                expected,
            });
        }
    }
    Ok(())
}

/// Returns the number of values that a report counts for each measure, by the name of its
/// histogram.
fn counted(case: &Case) -> Vec<(String, u64)> {
    let mut all: Vec<(String, Option<&Quantiles>)> =
        vec![("latency".to_owned(), case.latency_ms.as_ref())];
    if case.loads.is_empty() {
        all.push(("service".to_owned(), case.service_ms.as_ref()));
        let lag = case.client.as_ref().and_then(|c| c.lag_ms.as_ref());
        all.push(("lag".to_owned(), lag));
    }
    for load in &case.loads {
        let of = |measure: &str| format!("{}.{measure}", load.name);
        all.push((of("latency"), load.latency_ms.as_ref()));
        all.push((of("service"), load.service_ms.as_ref()));
        all.push((of("lag"), load.lag_ms.as_ref()));
        all.push((of("first_object"), load.first_object_ms.as_ref()));
        all.push((of("longest_gap"), load.longest_gap_ms.as_ref()));
        all.push((of("cuts"), load.cut_ms.as_ref()));
        for kind in &load.kinds {
            let measure = format!("latency.{}", kind.operation);
            all.push((of(&measure), kind.latency_ms.as_ref()));
        }
    }
    let all = all.into_iter();
    all.map(|(measure, quantiles)| (measure, quantiles.map_or(0, |q| q.n)))
        .collect()
}
