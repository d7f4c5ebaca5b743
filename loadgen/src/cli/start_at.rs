//! The argument of `--start-at`: RFC 3339 in UTC, or seconds since 1970.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The value of `--start-at`, to the millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartAt(pub SystemTime);

/// A moment that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no moment like 2026-11-24T12:00:00Z (RFC 3339, in UTC) or 1795521600 (seconds since 1970)"
)]
pub struct StartAtError(String);

impl FromStr for StartAt {
    type Err = StartAtError;

    fn from_str(text: &str) -> Result<Self, StartAtError> {
        let error = || StartAtError(text.to_owned());
        let number = text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
        let since = match number {
            true => {
                let seconds = text.parse::<f64>().map_err(|_| error())?;
                Duration::try_from_secs_f64(seconds).map_err(|_| error())?
            }
            false => {
                let at = humantime::parse_rfc3339(text).map_err(|_| error())?;
                at.duration_since(UNIX_EPOCH).map_err(|_| error())?
            }
        };
        // Generators that start together name their rendezvous by this moment, so it is kept to the
        // millisecond only.
        let ms = u64::try_from(since.as_millis()).map_err(|_| error())?;
        let at = UNIX_EPOCH.checked_add(Duration::from_millis(ms));
        let at = at.filter(|at| humantime_can_say(*at));
        at.map(Self).ok_or_else(error)
    }
}

/// Returns whether `at` is before the year 10,000, which RFC 3339 cannot express.
fn humantime_can_say(at: SystemTime) -> bool {
    at.duration_since(UNIX_EPOCH)
        .is_ok_and(|since| since.as_secs() < 253_402_300_800)
}

/// Formats the moment in RFC 3339, with milliseconds.
impl fmt::Display for StartAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_rfc3339_millis(self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_name_the_same_moment() {
        let read = |text: &str| text.parse::<StartAt>().expect(text).to_string();
        assert_eq!(read("2026-11-24T12:00:00Z"), "2026-11-24T12:00:00.000Z");
        assert_eq!(read("1795521600"), "2026-11-24T12:00:00.000Z");
        assert_eq!(read("1795521600.25"), "2026-11-24T12:00:00.250Z");
        let finer = "2026-11-24T12:00:00.2509Z".parse::<StartAt>();
        assert_eq!(finer, "1795521600.25".parse(), "to the millisecond");
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            ".",
            "1.2.3",
            "-5",
            "tomorrow",
            "12:00",
            "2026-11-24",
            "2026-11-24T12:00:00+01:00",
            "1969-11-24T12:00:00Z",
            "99999999999999999999999",
        ] {
            let error = text.parse::<StartAt>().expect_err(text).to_string();
            assert!(error.contains(&format!("`{text}` is no moment")), "{error}");
        }
    }
}
