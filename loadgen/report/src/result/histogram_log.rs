//! `histograms.hlog`: every histogram of a run in HdrHistogram's interval log (V2, base64),
//! readable by any HDR tool.

use std::io::Write;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, V2Serializer};

use crate::latency::{DIGITS, Latencies};

/// The first bytes of an uncompressed histogram (V2).
const PLAIN: u32 = 0x1c84_9313;
/// Bytes of a histogram's header, which precedes the counts.
const HEADER_BYTES: usize = 40;

/// One line of the log: a histogram, what was timed, and when.
#[derive(Debug, Clone)]
pub struct TaggedHistogram {
    /// What was timed: `latency`, `service`, `lag`, `null_sink`, `first_chunk`, `longest_gap` or
    /// `synced`. For a load, its name comes first: `puts.latency`.
    pub measure: String,
    /// [`crate::result::Case::id`].
    pub case: String,
    /// When the first value was recorded, from the start of the run.
    pub start: Duration,
    /// The time during which values were recorded.
    pub duration: Duration,
    /// The values.
    pub histogram: Latencies,
}

impl TaggedHistogram {
    /// Returns the tag in the log: measure and case. The format forbids commas and white space.
    fn tag(&self) -> String {
        format!("{}/{}", self.measure, log_name(&self.case))
    }
}

/// Returns a case's id as it is written in a tag.
pub(crate) fn log_name(case: &str) -> String {
    case.replace(|c: char| c == ',' || c.is_whitespace(), "_")
}

/// Why a log could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file could not be written.
    #[error("cannot write the histogram log: {0}")]
    Write(String),
    /// The bytes are not an interval log.
    #[error("the histogram log is damaged at byte {0}")]
    Syntax(usize),
    /// A line whose histogram does not decode.
    #[error("the histogram log's entry `{tag}` is damaged: {reason}")]
    Histogram {
        /// Tag of the entry.
        tag: String,
        /// The decoder's error.
        reason: String,
    },
}

/// Writes all histograms, with values in nanoseconds. The maximum in each line is in milliseconds.
///
/// # Errors
/// When `to` cannot be written.
pub fn write_log(
    to: &mut impl Write,
    base: SystemTime,
    histograms: &[TaggedHistogram],
) -> Result<(), LogError> {
    let failed = |error: &dyn std::fmt::Display| LogError::Write(error.to_string());
    let mut serializer = V2Serializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("values are nanoseconds; the tag is what was timed, target and strategy")
        .with_base_time(base)
        .with_max_value_divisor(1e6)
        .begin_log_with(to, &mut serializer)
        .map_err(|error| failed(&error))?;
    for entry in histograms {
        let tag = entry.tag();
        log.write_histogram(
            entry.histogram.histogram_ns(),
            entry.start,
            entry.duration,
            Tag::new(&tag),
        )
        .map_err(|error| failed(&error))?;
    }
    Ok(())
}

/// Reads a log. `case` of each entry is the id with commas and white space replaced by `_`.
///
/// # Errors
/// When the bytes are not an interval log, or a histogram in it does not decode.
pub fn read_log(log: &[u8]) -> Result<Vec<TaggedHistogram>, LogError> {
    let mut histograms = Vec::new();
    for entry in IntervalLogIterator::new(log) {
        let interval = match entry {
            Ok(LogEntry::Interval(interval)) => interval,
            Ok(_) => continue,
            Err(hdrhistogram::serialization::interval_log::LogIteratorError::ParseError {
                offset,
            }) => return Err(LogError::Syntax(offset)),
        };
        let tag = interval
            .tag()
            .map_or_else(String::new, |tag| tag.as_str().to_owned());
        let damaged = |reason: String| LogError::Histogram {
            tag: tag.clone(),
            reason,
        };
        let bytes = STANDARD
            .decode(interval.encoded_histogram())
            .map_err(|error| damaged(error.to_string()))?;
        check_size(&bytes).map_err(damaged)?;
        let histogram = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| damaged(error.to_string()))?;
        let (measure, case) = tag
            .split_once('/')
            .ok_or_else(|| damaged("the tag names no case".to_owned()))?;
        histograms.push(TaggedHistogram {
            measure: measure.to_owned(),
            case: case.to_owned(),
            start: interval.start_timestamp(),
            duration: interval.duration(),
            histogram: Latencies::new(histogram, 0),
        });
    }
    Ok(histograms)
}

/// Checks that a histogram has the length that its header states and no more significant digits
/// than are written. The decoder allocates what the header asks for, up to 4 GiB.
fn check_size(bytes: &[u8]) -> Result<(), String> {
    let word = |at: usize| {
        let word = bytes.get(at..)?.first_chunk()?;
        Some(u32::from_be_bytes(*word))
    };
    if word(0) != Some(PLAIN) {
        return Err("it is no uncompressed histogram of version 2".to_owned());
    }
    let (says, has) = (word(4), bytes.len().checked_sub(HEADER_BYTES));
    if says.map(|bytes| bytes as usize) != has {
        return Err("it is not as long as it says".to_owned());
    }
    if word(12) > Some(DIGITS.into()) {
        return Err(format!("it has more than {DIGITS} significant digits"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Serializer as _;

    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let histogram: Latencies = [3, 40, 41].map(Duration::from_millis).into_iter().collect();
        let entry = TaggedHistogram {
            measure: "latency".into(),
            case: "http://a:1,http://b:2/paged:500".into(),
            start: Duration::from_secs(2),
            duration: Duration::from_millis(84),
            histogram,
        };
        let mut log = Vec::new();
        write_log(
            &mut log,
            SystemTime::UNIX_EPOCH,
            std::slice::from_ref(&entry),
        )
        .expect("a vector takes everything");
        let read = read_log(&log).expect("the log that was just written");
        assert_eq!(read.len(), 1);
        assert_eq!(
            (read[0].measure.as_str(), read[0].case.as_str()),
            ("latency", "http://a:1_http://b:2/paged:500")
        );
        assert_eq!(
            (read[0].start, read[0].duration),
            (entry.start, entry.duration)
        );
        assert_eq!(
            read[0].histogram.quantiles_ms(),
            entry.histogram.quantiles_ms()
        );
    }

    #[test]
    fn a_histogram_takes_no_more_memory_than_it_has_bytes() {
        let histogram: Latencies = [Duration::from_millis(3)].into_iter().collect();
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(histogram.histogram_ns(), &mut bytes)
            .expect("a vector takes everything");
        let read = |bytes: &[u8]| {
            let line = format!("Tag=latency/a,0.1,1.0,2.0,{}\n", STANDARD.encode(bytes));
            read_log(line.as_bytes()).map_err(|error| error.to_string())
        };
        read(&bytes).expect("as it was written");
        for (at, byte, says) in [
            (4, 0xf0, "not as long as it says"),
            (15, 5, "more than 3 significant digits"),
            (3, 0x14, "no uncompressed histogram"),
        ] {
            let mut changed = bytes.clone();
            changed[at] = byte;
            let refused = read(&changed).expect_err(says);
            assert!(refused.contains(says), "{refused}");
        }
        let refused = read(&bytes[..20]).expect_err("it is cut");
        assert!(refused.contains("not as long"), "{refused}");
    }

    #[test]
    fn a_damaged_entry_is_named() {
        let error = read_log(b"Tag=latency/a/b,0.1,1.0,2.0,bm90IGEgaGlzdG9ncmFt\n")
            .expect_err("that is no histogram");
        assert!(error.to_string().contains("`latency/a/b`"), "{error}");
    }
}
