//! Timestamps as RFC 3339 text in UTC: seconds for `metav1.Time`, microseconds for
//! `metav1.MicroTime`.

/// Appends `seconds` since 1970 as `2026-01-31T09:05:00Z`. Years outside 0–9999 are clamped.
pub fn put_rfc3339(out: &mut Vec<u8>, seconds: i64) {
    out.extend_from_slice(&digits(seconds));
}

/// Appends a timestamp with microseconds: `2026-01-31T09:05:00.000123Z`. `micros` are clamped to
/// 0–999,999.
pub fn put_rfc3339_micros(out: &mut Vec<u8>, seconds: i64, micros: i64) {
    let text = digits(seconds);
    let micros = micros.clamp(0, 999_999);
    out.extend_from_slice(&text[..19]);
    out.extend_from_slice(format!(".{micros:06}Z").as_bytes());
}

fn digits(seconds: i64) -> [u8; TIMESTAMP] {
    timestamp(date(day(seconds)), seconds)
}

/// Lengths of a date and of a timestamp, bytes.
pub(crate) const DATE: usize = 10;
pub(crate) const TIMESTAMP: usize = 20;

const FIRST: i64 = -62_167_219_200;
const LAST: i64 = 253_402_300_799;
const DAY: i64 = 86_400;

/// Returns the day of a timestamp, in days since 1970.
pub(crate) fn day(seconds: i64) -> i64 {
    seconds.clamp(FIRST, LAST).div_euclid(DAY)
}

/// Returns a day as `2026-01-31`.
pub(crate) fn date(day: i64) -> [u8; DATE] {
    let (year, month, day) = civil(day);
    let mut text = *b"0000-00-00";
    put_two(&mut text, 0, year / 100);
    put_two(&mut text, 2, year % 100);
    put_two(&mut text, 5, month);
    put_two(&mut text, 8, day);
    text
}

/// Returns a timestamp, given its date and its seconds since 1970.
pub(crate) fn timestamp(date: [u8; DATE], seconds: i64) -> [u8; TIMESTAMP] {
    let of_day = seconds.clamp(FIRST, LAST).rem_euclid(DAY);
    let mut text = *b"0000-00-00T00:00:00Z";
    text[..DATE].copy_from_slice(&date);
    put_two(&mut text, 11, of_day / 3600);
    put_two(&mut text, 14, of_day / 60 % 60);
    put_two(&mut text, 17, of_day % 60);
    text
}

/// Writes two digits at an offset.
fn put_two(text: &mut [u8], at: usize, value: i64) {
    text[at] = b'0' + (value / 10) as u8;
    text[at + 1] = b'0' + (value % 10) as u8;
}

/// Parses RFC 3339 text with or without a fraction, in UTC (`Z`) or with an offset (`+02:00`).
/// Returns the seconds since 1970 and the nanoseconds within the second, or `None` for any other
/// text.
pub fn parse_rfc3339(text: &str) -> Option<(i64, i64)> {
    let (whole, rest) = text.split_at_checked(19)?;
    let template = b"0000-00-00T00:00:00";
    let fits = whole.bytes().zip(template).all(|(byte, expected)| {
        if *expected == b'0' {
            byte.is_ascii_digit()
        } else {
            byte == *expected
        }
    });
    if !fits {
        return None;
    }
    let number = |start: usize, end: usize| whole[start..end].parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let days = days_from_civil(year, month, day);
    if civil(days) != (year, month, day) {
        return None;
    }
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let of_day = clock(hour, minute)? + second;
    let (nanos, zone) = fraction(rest)?;
    (second < 60).then_some((days * 86_400 + of_day - offset(zone)?, nanos))
}

/// Returns the second of the day at this hour and minute.
fn clock(hour: i64, minute: i64) -> Option<i64> {
    (hour < 24 && minute < 60).then_some(hour * 3600 + minute * 60)
}

/// Parses a leading `.123…`; returns nanoseconds (ignoring digits after the ninth) and the rest.
fn fraction(text: &str) -> Option<(i64, &str)> {
    let Some(rest) = text.strip_prefix('.') else {
        return Some((0, text));
    };
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    let (digits, zone) = rest.split_at(end);
    let kept = &digits[..digits.len().min(9)];
    let nanos = kept.parse::<i64>().ok()? * 10_i64.pow(9 - kept.len() as u32);
    Some((nanos, zone))
}

/// Returns the offset of a zone from UTC, in seconds.
fn offset(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let two = |text: &str| {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<i64>().ok()).flatten()
    };
    Some(sign * clock(two(hours)?, two(minutes)?)?)
}

/// Converts days since 1970 to a Gregorian date, counting in 400-year eras that start on 1 March.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(seconds: i64) -> String {
        let mut out = Vec::new();
        put_rfc3339(&mut out, seconds);
        String::from_utf8(out).expect("digits")
    }

    #[test]
    fn known_timestamps() {
        assert_eq!(text(0), "1970-01-01T00:00:00Z");
        assert_eq!(text(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(text(1_767_225_599), "2025-12-31T23:59:59Z");
        assert_eq!(text(-1), "1969-12-31T23:59:59Z");
        assert_eq!(text(i64::MAX), "9999-12-31T23:59:59Z");
        assert_eq!(text(i64::MIN), "0000-01-01T00:00:00Z");
    }

    #[test]
    fn every_day_of_four_centuries_is_read_back() {
        for day in 0..146_097 {
            let seconds = (day - 10_000) * 86_400 + 12_345;
            assert_eq!(parse_rfc3339(&text(seconds)), Some((seconds, 0)));
        }
    }

    #[test]
    fn fractions_and_offsets_are_parsed() {
        let noon = parse_rfc3339("2026-01-31T12:00:00Z");
        assert_eq!(parse_rfc3339("2026-01-31T14:30:00+02:30"), noon);
        assert_eq!(parse_rfc3339("2026-01-31T08:00:00-04:00"), noon);
        assert_eq!(
            parse_rfc3339("1970-01-01T00:00:01.000123Z"),
            Some((1, 123_000))
        );
        assert_eq!(
            parse_rfc3339("1970-01-01T00:00:01.1234567899Z"),
            Some((1, 123_456_789))
        );
        let mut out = Vec::new();
        put_rfc3339_micros(&mut out, 1, 123);
        assert_eq!(out, b"1970-01-01T00:00:01.000123Z");
    }

    #[test]
    fn invalid_timestamps_are_rejected() {
        for bad in [
            "",
            "2026-02-30T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00",
            "2026-01-01 00:00:00Z",
            "+026-01-01T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00.5",
            "2026-01-01T00:00:00+2:00",
            "2026-01-01T00:00:00+0200",
            "2026-01-01T00:00:00+25:00",
            "2026-01-01T00:00:0éZ",
        ] {
            assert_eq!(parse_rfc3339(bad), None, "{bad}");
        }
    }
}
