//! `load_intervals.csv.gz`: the rate and the latency of each load over time, one line per load and
//! interval.

use std::io::{Read, Write};

use serde::{Deserialize, Serialize};

use super::series::SeriesError;

/// What a load did in one interval of its case, usually a second. Latencies are upper bounds of
/// buckets that are 12 % apart.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadInterval {
    /// [`crate::result::Case::id`].
    pub case: String,
    /// [`crate::result::Load::name`], or the strategy in a case of one load.
    pub load: String,
    /// The end of the interval, in seconds since the measured phase began.
    pub elapsed_s: f64,
    /// The length of the interval in seconds.
    pub seconds: f64,
    /// Requests whose intended start lies in the interval, on average over random arrivals; null
    /// in a closed loop.
    pub due: Option<f64>,
    /// Requests that ended in the interval with a right response.
    pub answered: u64,
    /// Requests that ended in the interval in another way.
    pub errors: u64,
    /// Events that reached watchers in the interval.
    pub events: u64,
    /// The median of the latencies of the answered requests, in ms; null for fewer than 3.
    pub p50_ms: Option<f64>,
    /// The 99 % quantile of them, in ms; null for fewer than 1,000.
    pub p99_ms: Option<f64>,
    /// The longest of them, in ms; null for none.
    pub max_ms: Option<f64>,
}

/// Writes intervals as CSV with a header line.
///
/// # Errors
/// When `to` cannot be written.
pub fn write_load_intervals(to: impl Write, all: &[LoadInterval]) -> Result<(), SeriesError> {
    let mut csv = csv::Writer::from_writer(to);
    for interval in all {
        csv.serialize(interval)?;
    }
    csv.flush().map_err(csv::Error::from)?;
    Ok(())
}

/// Reads what [`write_load_intervals`] wrote.
///
/// # Errors
/// When a line does not have these columns.
pub fn read_load_intervals(from: impl Read) -> Result<Vec<LoadInterval>, SeriesError> {
    let mut csv = csv::Reader::from_reader(from);
    let all: Result<_, csv::Error> = csv.deserialize().collect();
    Ok(all?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_survive_the_file() {
        let all = vec![
            LoadInterval {
                case: "a,b/loads".to_owned(),
                load: "gets".to_owned(),
                elapsed_s: 1.0,
                seconds: 1.0,
                due: Some(1_000.5),
                answered: 990,
                errors: 3,
                p50_ms: Some(0.2),
                max_ms: Some(12.5),
                ..LoadInterval::default()
            },
            LoadInterval {
                load: "watch".to_owned(),
                events: 7,
                ..LoadInterval::default()
            },
        ];
        let mut csv = Vec::new();
        write_load_intervals(&mut csv, &all).expect("a vector takes everything");
        let read = read_load_intervals(csv.as_slice()).expect("the file that was just written");
        assert_eq!(read, all);
        csv.truncate(csv.len() - 20);
        assert!(read_load_intervals(csv.as_slice()).is_err(), "a cut line");
    }
}
