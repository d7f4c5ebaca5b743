//! The query of a LIST or WATCH: read, then checked by the rules that an apiserver checks first.

use std::num::{IntErrorKind, ParseIntError};
use std::time::Duration;

use form_urlencoded::parse;

use crate::duration::parse_duration;
use crate::status::{Cause, Status};

/// `resourceVersionMatch`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// The list at exactly that revision.
    Exact,
    /// The list at that revision or a later one.
    NotOlderThan,
    /// Anything else, which validation refuses.
    Other(String),
}

/// The query parameters, first values of repeated ones; unknown parameters are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// `resourceVersion` as sent; absent and empty are the same.
    pub resource_version: String,
    /// `resourceVersionMatch`; absent and empty are the same.
    pub resource_version_match: Option<Match>,
    /// `limit`; 0 is none.
    pub limit: u64,
    /// `continue`; empty on a first page.
    pub continue_token: String,
    /// `labelSelector`.
    pub label_selector: String,
    /// `fieldSelector`.
    pub field_selector: String,
    /// `shardSelector`, as [`crate::ShardSelector`] reads it.
    pub shard_selector: String,
    /// `watch`: turns the list's URL into a watch.
    pub watch: bool,
    /// `sendInitialEvents`; absent differs from false.
    pub send_initial_events: Option<bool>,
    /// `allowWatchBookmarks`: a watcher understands bookmarks.
    pub allow_watch_bookmarks: bool,
    /// `timeoutSeconds` of a watch; 0 leaves it to the server, and a negative one is over at once.
    pub timeout_seconds: i64,
    /// `timeout` as sent; [`Self::timeout()`] reads it, for requests that are no watch.
    pub timeout: String,
}

/// The parameters that are read.
const NAMES: [&str; 12] = [
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeout",
    "timeoutSeconds",
    "watch",
];

impl ListOptions {
    /// Reads the query of a URL (what stands behind `?`).
    ///
    /// # Errors
    /// 400 when `limit` or `timeoutSeconds` is no integer.
    pub fn parse(query: &str) -> Result<Self, Status> {
        Self::read(query, &NAMES)
    }

    /// Reads the query of a request for one object: `resourceVersion` and `timeout`. Others are ignored,
    /// whatever they say.
    pub fn of_one(query: &str) -> Self {
        Self::read(query, &["resourceVersion", "timeout"]).unwrap_or_default()
    }

    /// The first values of these parameters. Costs no more than a look at each pair of the query.
    fn read(query: &str, names: &[&str]) -> Result<Self, Status> {
        let mut options = Self::default();
        let mut seen = 0_u32;
        for (name, value) in parse(query.as_bytes()) {
            let Some(at) = names.iter().position(|known| *known == name) else {
                continue;
            };
            if seen & 1 << at != 0 {
                continue;
            }
            seen |= 1 << at;
            match &*name {
                "resourceVersion" => options.resource_version = value.into_owned(),
                "resourceVersionMatch" => {
                    options.resource_version_match = match &*value {
                        "" => None,
                        "Exact" => Some(Match::Exact),
                        "NotOlderThan" => Some(Match::NotOlderThan),
                        other => Some(Match::Other(other.to_owned())),
                    }
                }
                // Negative ones mean none.
                "limit" => options.limit = u64::try_from(integer(&value)?).unwrap_or(0),
                "timeoutSeconds" => options.timeout_seconds = integer(&value)?,
                "allowWatchBookmarks" => options.allow_watch_bookmarks = boolean(&value),
                "continue" => options.continue_token = value.into_owned(),
                "labelSelector" => options.label_selector = value.into_owned(),
                "fieldSelector" => options.field_selector = value.into_owned(),
                "shardSelector" => options.shard_selector = value.into_owned(),
                "watch" => options.watch = boolean(&value),
                "timeout" => options.timeout = value.into_owned(),
                "sendInitialEvents" => options.send_initial_events = Some(boolean(&value)),
                _ => unreachable!("each of the names has a field"),
            }
        }
        Ok(options)
    }

    /// Refuses what a LIST may not combine.
    ///
    /// # Errors
    /// 422 with one cause for each rule that is broken; 400 for a continue token beside a revision.
    pub fn validate_list(&self) -> Result<(), Status> {
        let mut causes = Vec::new();
        if let Some(matching) = &self.resource_version_match {
            if self.resource_version.is_empty() {
                causes.push(forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            if !self.continue_token.is_empty() {
                causes.push(forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
            if let Match::Other(other) = matching {
                causes.push(Cause {
                    reason: "FieldValueNotSupported",
                    message: format!("Unsupported value: {other:?}: supported values: \"Exact\", \"NotOlderThan\", \"\""),
                    field: "resourceVersionMatch",
                });
            }
            if *matching == Match::Exact && self.resource_version == "0" {
                causes.push(forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
        }
        if self.send_initial_events.is_some() {
            causes.push(forbidden(
                "sendInitialEvents",
                "sendInitialEvents is forbidden for list",
            ));
        }
        if !causes.is_empty() {
            return Err(Status::invalid_list_options(causes));
        }
        if !self.continue_token.is_empty() && !matches!(&*self.resource_version, "" | "0") {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        Ok(())
    }

    /// Refuses what a WATCH may not combine; `watch_list` is the feature gate of `sendInitialEvents`.
    ///
    /// # Errors
    /// 422 with one cause for each rule that is broken.
    pub fn validate_watch(&self, watch_list: bool) -> Result<(), Status> {
        let mut causes = Vec::new();
        let matching = self.resource_version_match.as_ref();
        if self.send_initial_events.is_some() {
            if matching != Some(&Match::NotOlderThan) {
                causes.push(forbidden(
                    "resourceVersionMatch",
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                ));
            }
            if !watch_list {
                causes.push(forbidden(
                    "sendInitialEvents",
                    "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
                ));
            }
        }
        if let Some(matching) = matching {
            if self.send_initial_events.is_none() {
                causes.push(forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ));
            }
            let unsupported = match matching {
                Match::NotOlderThan => None,
                Match::Exact => Some("Exact"),
                Match::Other(text) => Some(text.as_str()),
            };
            if let Some(value) = unsupported {
                causes.push(Cause {
                    reason: "FieldValueNotSupported",
                    message: format!(
                        "Unsupported value: {value:?}: supported values: \"NotOlderThan\""
                    ),
                    field: "resourceVersionMatch",
                });
            }
            if !self.continue_token.is_empty() {
                causes.push(forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
        }
        match causes.is_empty() {
            true => Ok(()),
            false => Err(Status::invalid_list_options(causes)),
        }
    }

    /// How long the client waits; `None` where it says nothing. A watch has no such limit, and what stands
    /// there is not looked at.
    ///
    /// # Errors
    /// 400 when it is no duration.
    pub fn timeout(&self) -> Result<Option<Duration>, Status> {
        if self.timeout.is_empty() {
            return Ok(None);
        }
        let duration = parse_duration(&self.timeout).map_err(|error| {
            Status::bad_request(format!(
                "invalid timeout specified in the request URL - {error}"
            ))
        })?;
        Ok((!duration.is_zero()).then_some(duration))
    }

    /// The revision asked for: `None` when unset. One that storage cannot count up to is the last one that
    /// it can: it is not reached either.
    ///
    /// # Errors
    /// 400 when it is no unsigned number of 64 bits.
    pub fn revision(&self) -> Result<Option<u64>, Status> {
        match &*self.resource_version {
            "" => Ok(None),
            text => match text.parse::<u64>() {
                Ok(revision) if !text.starts_with('+') => Ok(Some(revision.min(i64::MAX as u64))),
                parsed => Err(Status::bad_request(format!(
                    "invalid resource version: resourceVersion: Invalid value: {text:?}: \
                     strconv.ParseUint: parsing {text:?}: {}",
                    not_parsed(parsed.err())
                ))),
            },
        }
    }
}

/// Why a field may not be set in this request.
fn forbidden(field: &'static str, why: &str) -> Cause {
    Cause {
        reason: "FieldValueForbidden",
        message: format!("Forbidden: {why}"),
        field,
    }
}

/// An integer of a query.
///
/// # Errors
/// 400 with the text of the parser that an apiserver uses.
pub fn integer(value: &str) -> Result<i64, Status> {
    value.parse().map_err(|error| {
        let why = not_parsed(Some(error));
        Status::bad_request(format!("strconv.ParseInt: parsing {value:?}: {why}"))
    })
}

/// What an apiserver's parser of integers says of a text that is none.
fn not_parsed(error: Option<ParseIntError>) -> &'static str {
    match error.map(|error| *error.kind()) {
        Some(IntErrorKind::PosOverflow | IntErrorKind::NegOverflow) => "value out of range",
        _ => "invalid syntax",
    }
}

/// Booleans of a query: `0` and `false` are false, everything else that is there is true, empty included.
pub fn boolean(value: &str) -> bool {
    !(value == "0" || value.eq_ignore_ascii_case("false"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(query: &str) -> ListOptions {
        ListOptions::parse(query).expect("a query")
    }

    fn refusal(query: &str) -> Status {
        options(query).validate_list().expect_err("refused")
    }

    #[test]
    fn odd_queries_of_real_clients_are_read() {
        assert_eq!(
            options("&limit=2"),
            ListOptions {
                limit: 2,
                ..ListOptions::default()
            }
        );
        assert_eq!(
            options("limit=-5&limit=7&unknown=1").limit,
            0,
            "the first value wins, and it means none"
        );
        assert_eq!(
            options("labelSelector=app%3Dx%2Cb&fieldSelector=a%3db").label_selector,
            "app=x,b"
        );
        let half = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
        let encoded: String = form_urlencoded::byte_serialize(half.as_bytes()).collect();
        let sharded = options(&format!("shardSelector={encoded}&shardSelector=x"));
        assert_eq!(sharded.shard_selector, half);
        for (query, watch) in [
            ("watch=0", false),
            ("watch=False", false),
            ("", false),
            ("watch", true),
            ("watch=", true),
            ("watch=1", true),
        ] {
            assert_eq!(options(query).watch, watch, "{query}");
        }
        assert_eq!(
            options("sendInitialEvents=false").send_initial_events,
            Some(false)
        );
        assert_eq!(
            options("timeout=1m30s&timeoutSeconds=300&allowWatchBookmarks=true"),
            ListOptions {
                timeout: "1m30s".to_owned(),
                timeout_seconds: 300,
                allow_watch_bookmarks: true,
                ..ListOptions::default()
            }
        );
        let minute_and_half = Some(Duration::from_secs(90));
        assert_eq!(options("timeout=1m30s").timeout(), Ok(minute_and_half));
        for none in ["timeout=0s", "timeout=", ""] {
            assert_eq!(options(none).timeout(), Ok(None), "{none}");
        }
        for bad in ["timeout=5", "timeout=x"] {
            assert_eq!(options(bad).timeout().expect_err(bad).code, 400, "{bad}");
        }
        assert_eq!(
            ListOptions::of_one("limit=x&watch=1&resourceVersion=5&resourceVersion=6"),
            ListOptions {
                resource_version: "5".to_owned(),
                ..ListOptions::default()
            }
        );
        for bad in ["limit=x", "timeoutSeconds=1.5"] {
            assert_eq!(ListOptions::parse(bad).expect_err(bad).code, 400, "{bad}");
        }
    }

    #[test]
    fn combinations_of_a_watch_are_refused_as_an_apiserver_does() {
        for query in [
            "resourceVersionMatch=NotOlderThan&resourceVersion=5",
            "sendInitialEvents=true",
            "sendInitialEvents=false&resourceVersionMatch=Exact",
            "sendInitialEvents=true&resourceVersionMatch=newest",
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x",
        ] {
            let status = options(query).validate_watch(true).expect_err(query);
            assert_eq!((status.code, status.reason), (422, "Invalid"), "{query}");
        }
        let watch_list = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        assert_eq!(options(watch_list).validate_watch(true), Ok(()));
        let off = options(watch_list).validate_watch(false);
        assert_eq!(off.expect_err("the gate is off").code, 422);
        let plain = options("watch=1&resourceVersion=5&limit=3&timeoutSeconds=-1");
        assert_eq!(plain.validate_watch(false), Ok(()));
        assert_eq!(plain.timeout_seconds, -1);
        let bad = ListOptions::parse("timeoutSeconds=soon");
        assert_eq!(bad.expect_err("no integer").code, 400);
    }

    #[test]
    fn combinations_are_refused_as_an_apiserver_does() {
        for query in [
            "resourceVersionMatch=Exact",
            "resourceVersionMatch=NotOlderThan&resourceVersion=0&continue=x",
            "resourceVersionMatch=exact&resourceVersion=5",
            "resourceVersionMatch=Exact&resourceVersion=0",
            "sendInitialEvents=true",
            "sendInitialEvents=false",
        ] {
            let status = refusal(query);
            assert_eq!((status.code, status.reason), (422, "Invalid"), "{query}");
            assert_eq!(
                status.details.as_ref().expect("details").kind,
                "ListOptions"
            );
            assert!(
                status
                    .message
                    .starts_with("ListOptions.meta.k8s.io \"\" is invalid: "),
                "{}",
                status.message
            );
        }
        assert_eq!(refusal("continue=x&resourceVersion=5").code, 400);
        for query in [
            "",
            "resourceVersion=0",
            "continue=x&resourceVersion=0",
            "resourceVersion=5&resourceVersionMatch=Exact&limit=3",
        ] {
            assert_eq!(options(query).validate_list(), Ok(()), "{query}");
        }
        assert_eq!(
            options("resourceVersion=abc")
                .revision()
                .expect_err("no number")
                .code,
            400
        );
        assert_eq!(
            options("resourceVersion=9007199254740993").revision(),
            Ok(Some(9_007_199_254_740_993))
        );
        assert_eq!(
            options("resourceVersion=18446744073709551615").revision(),
            Ok(Some(i64::MAX as u64))
        );
        let too_long = options("resourceVersion=18446744073709551616").revision();
        assert_eq!(too_long.expect_err("no 64 bits").code, 400);
    }
}
