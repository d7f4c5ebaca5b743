//! Parses the query of a LIST or WATCH, and applies the validation rules that an apiserver applies
//! first.

use std::num::{IntErrorKind, ParseIntError};
use std::time::Duration;

use form_urlencoded::parse;

use crate::duration::parse_duration;
use crate::status::{Cause, Status};

/// `resourceVersionMatch`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceVersionMatch {
    /// The list at exactly this revision.
    Exact,
    /// The list at this revision or a later one.
    NotOlderThan,
    /// Anything else, which validation rejects.
    Other(String),
}

/// The query parameters. Of a repeated parameter the first value counts; unknown ones are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// `resourceVersion` as sent; absent and empty are the same.
    pub resource_version: String,
    /// `resourceVersionMatch`; absent and empty are the same.
    pub resource_version_match: Option<ResourceVersionMatch>,
    /// `limit`; 0 means no limit.
    pub limit: u64,
    /// `continue`; empty for a first page.
    pub continue_token: String,
    /// `labelSelector`.
    pub label_selector: String,
    /// `fieldSelector`.
    pub field_selector: String,
    /// `shardSelector`, which [`crate::ShardSelector`] parses.
    pub shard_selector: String,
    /// `watch`: turns a list request into a watch.
    pub watch: bool,
    /// `sendInitialEvents`; an absent parameter differs from false.
    pub send_initial_events: Option<bool>,
    /// `allowWatchBookmarks`: the watcher accepts bookmarks.
    pub allow_watch_bookmarks: bool,
    /// `timeoutSeconds` of a watch. 0 leaves the timeout to the server; a negative value ends the
    /// watch at once.
    pub timeout_seconds: i64,
    /// `timeout` as sent; [`Self::timeout()`] parses it for requests other than watches.
    pub timeout: String,
}

/// The known parameters.
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
    /// Parses the query of a URL (the part after `?`).
    ///
    /// # Errors
    /// 400 when `limit` or `timeoutSeconds` is not an integer.
    pub fn parse(query: &str) -> Result<Self, Status> {
        Self::read(query, &NAMES)
    }

    /// Parses the query of a request for one object: `resourceVersion` and `timeout`. Other
    /// parameters are ignored, invalid ones included.
    pub fn for_single_object(query: &str) -> Self {
        Self::read(query, &["resourceVersion", "timeout"]).unwrap_or_default()
    }

    /// Parses the first value of each of these parameters, in one pass over the query.
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
                        "Exact" => Some(ResourceVersionMatch::Exact),
                        "NotOlderThan" => Some(ResourceVersionMatch::NotOlderThan),
                        other => Some(ResourceVersionMatch::Other(other.to_owned())),
                    }
                }
                // A negative limit means no limit.
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

    /// Validates the combination of options of a LIST.
    ///
    /// # Errors
    /// 422 with one cause for each violated rule; 400 for a continue token with a revision.
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
            if let ResourceVersionMatch::Other(other) = matching {
                causes.push(Cause {
                    reason: "FieldValueNotSupported",
                    message: format!("Unsupported value: {other:?}: supported values: \"Exact\", \"NotOlderThan\", \"\""),
                    field: "resourceVersionMatch",
                });
            }
            if *matching == ResourceVersionMatch::Exact && self.resource_version == "0" {
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

    /// Validates the combination of options of a WATCH; `watch_list` is the feature gate of
    /// `sendInitialEvents`.
    ///
    /// # Errors
    /// 422 with one cause for each violated rule.
    pub fn validate_watch(&self, watch_list: bool) -> Result<(), Status> {
        let mut causes = Vec::new();
        let matching = self.resource_version_match.as_ref();
        if self.send_initial_events.is_some() {
            if matching != Some(&ResourceVersionMatch::NotOlderThan) {
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
                ResourceVersionMatch::NotOlderThan => None,
                ResourceVersionMatch::Exact => Some("Exact"),
                ResourceVersionMatch::Other(text) => Some(text.as_str()),
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

    /// Returns the client's timeout; `None` if it set none. Watches ignore this parameter.
    ///
    /// # Errors
    /// 400 when it is not a duration.
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

    /// Returns the requested revision; `None` if unset. A revision above the maximum of storage
    /// (`i64::MAX`) is lowered to that maximum, which no store has reached either.
    ///
    /// # Errors
    /// 400 when it is not an unsigned 64-bit integer.
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

/// Returns the cause of a field that may not be set in this request.
fn forbidden(field: &'static str, why: &str) -> Cause {
    Cause {
        reason: "FieldValueForbidden",
        message: format!("Forbidden: {why}"),
        field,
    }
}

/// Parses an integer of a query.
///
/// # Errors
/// 400 with the text of Go's parser.
pub fn integer(value: &str) -> Result<i64, Status> {
    value.parse().map_err(|error| {
        let why = not_parsed(Some(error));
        Status::bad_request(format!("strconv.ParseInt: parsing {value:?}: {why}"))
    })
}

/// Returns the reason that Go's integer parser gives.
fn not_parsed(error: Option<ParseIntError>) -> &'static str {
    match error.map(|error| *error.kind()) {
        Some(IntErrorKind::PosOverflow | IntErrorKind::NegOverflow) => "value out of range",
        _ => "invalid syntax",
    }
}

/// Parses a boolean of a query: `0` and `false` are false; everything else, including the empty
/// text, is true.
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
    fn queries_of_real_clients_are_parsed() {
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
            ListOptions::for_single_object("limit=x&watch=1&resourceVersion=5&resourceVersion=6"),
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
    fn an_apiservers_rules_for_watches_are_applied() {
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
    fn an_apiservers_rules_for_lists_are_applied() {
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
