//! `series.csv.gz`: memory and CPU of a process over time, one line per sample.

use std::io::{Read, Write};

use serde::{Deserialize, Serialize};

/// One sample of a process. Sizes are in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the series began.
    pub elapsed_s: f64,
    /// Resident size.
    pub rss: u64,
    /// The anonymous part of the resident size.
    pub anon: u64,
    /// The file-mapped part of the resident size.
    pub file: u64,
    /// CPU time that the process has used since it started.
    pub cpu_s: f64,
    /// Allocated bytes as the process's allocator last reported them; null when they are not
    /// reported.
    pub allocated: Option<u64>,
}

/// The samples of one process during one case.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// [`crate::result::Case::id`].
    pub case: String,
    /// The process: `etcd` or `kube` for the server's tiers, `loadgen` for the generator.
    pub process: String,
    /// In order of time.
    pub samples: Vec<Sample>,
}

/// Why a series could not be written or read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SeriesError(#[from] csv::Error);

#[derive(Serialize, Deserialize)]
struct SeriesRecord {
    case: String,
    process: String,
    elapsed_s: f64,
    rss: u64,
    anon: u64,
    file: u64,
    cpu_s: f64,
    allocated: Option<u64>,
}

/// Writes all series as CSV with a header line.
///
/// # Errors
/// When `to` cannot be written.
pub fn write_series(to: impl Write, all: &[Series]) -> Result<(), SeriesError> {
    let mut csv = csv::Writer::from_writer(to);
    for series in all {
        for &Sample {
            elapsed_s,
            rss,
            anon,
            file,
            cpu_s,
            allocated,
        } in &series.samples
        {
            csv.serialize(SeriesRecord {
                case: series.case.clone(),
                process: series.process.clone(),
                elapsed_s,
                rss,
                anon,
                file,
                cpu_s,
                allocated,
            })?;
        }
    }
    csv.flush().map_err(csv::Error::from)?;
    Ok(())
}

/// Reads what [`write_series`] wrote. Adjacent lines of the same case and process form one series.
///
/// # Errors
/// When a line does not have these columns.
pub fn read_series(from: impl Read) -> Result<Vec<Series>, SeriesError> {
    let mut all: Vec<Series> = Vec::new();
    for row in csv::Reader::from_reader(from).deserialize() {
        let SeriesRecord {
            case,
            process,
            elapsed_s,
            rss,
            anon,
            file,
            cpu_s,
            allocated,
        } = row?;
        let sample = Sample {
            elapsed_s,
            rss,
            anon,
            file,
            cpu_s,
            allocated,
        };
        match all.last_mut() {
            Some(last) if last.case == case && last.process == process => last.samples.push(sample),
            _ => all.push(Series {
                case,
                process,
                samples: vec![sample],
            }),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_survive_the_file() {
        let sample = |elapsed_s, allocated| Sample {
            elapsed_s,
            rss: 10,
            anon: 7,
            file: 3,
            cpu_s: 0.25,
            allocated,
        };
        let all = vec![
            Series {
                case: "a,b/stream".into(),
                process: "etcd".into(),
                samples: vec![sample(0.0, None), sample(0.02, Some(5))],
            },
            Series {
                case: "a,b/stream".into(),
                process: "loadgen".into(),
                samples: vec![sample(0.0, Some(4))],
            },
        ];
        let mut csv = Vec::new();
        write_series(&mut csv, &all).expect("a vector takes everything");
        assert_eq!(
            read_series(csv.as_slice()).expect("the file that was just written"),
            all
        );
    }
}
