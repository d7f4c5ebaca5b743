//! A request, the responses of both servers, and their differences.

use std::collections::BTreeMap;
use std::io::Read;

use ::http::Method;
use flate2::read::MultiGzDecoder;
use serde_json::Value;

use crate::http::Reply;

/// The headers that are compared. Others depend on the request, the connection or the time.
const HEADERS: [&str; 8] = [
    "cache-control",
    "content-encoding",
    "content-type",
    "retry-after",
    "vary",
    "allow",
    "warning",
    "x-content-type-options",
];

/// Maximum number of differences that are reported for a response.
const TOLD: usize = 6;
/// Maximum length of a value in a report.
const SHOWN: usize = 300;

/// A request that is sent to both servers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'q> {
    pub(crate) method: &'q Method,
    pub(crate) path: &'q str,
    pub(crate) headers: &'q [(&'q str, &'q str)],
    pub(crate) body: &'q str,
}

impl std::fmt::Display for Question<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.path)?;
        for (name, value) in self.headers {
            write!(f, " {name}={value}")?;
        }
        let body: String = self.body.chars().take(SHOWN).collect();
        write!(f, " {body}")
    }
}

impl Question<'_> {
    /// Returns the value of a header, or an empty string without the header.
    pub(crate) fn header(&self, wanted: &str) -> &str {
        let mut headers = self.headers.iter();
        headers
            .find(|(name, _)| *name == wanted)
            .map_or("", |(_, value)| value)
    }
}

/// A response in the form in which it is compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: BTreeMap<&'static str, String>,
    pub(crate) body: Body,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Body {
    /// One document, or the events of a watch.
    Json(Vec<Value>),
    /// Any other body.
    Bytes(Vec<u8>),
}

impl Answer {
    pub(crate) fn new(reply: &Reply) -> Self {
        let header = |name: &'static str| {
            let values = reply.headers.get_all(name).iter();
            let texts: Vec<_> = values.filter_map(|value| value.to_str().ok()).collect();
            (!texts.is_empty()).then(|| (name, texts.join(" | ")))
        };
        let bytes = plain(reply);
        let documents = serde_json::Deserializer::from_slice(&bytes).into_iter();
        let body = match documents.collect::<Result<Vec<Value>, _>>() {
            Ok(documents) if !documents.is_empty() => Body::Json(documents),
            _ => Body::Bytes(bytes),
        };
        Self {
            code: reply.code.as_u16(),
            headers: HEADERS.into_iter().filter_map(header).collect(),
            body,
        }
    }

    /// Returns the value of a header, or an empty string without the header.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Returns whether the response is a Status whose message contains these words.
    pub(crate) fn says(&self, words: &str) -> bool {
        let message = match &self.body {
            Body::Json(documents) => documents
                .first()
                .and_then(|status| status["message"].as_str()),
            Body::Bytes(_) => None,
        };
        message.is_some_and(|message| message.contains(words))
    }

    /// Returns the JSON documents of the body: one document, or the events of a watch. Empty for
    /// any other body.
    pub(crate) fn documents(&mut self) -> &mut [Value] {
        match &mut self.body {
            Body::Json(documents) => documents,
            Body::Bytes(_) => &mut [],
        }
    }
}

/// Returns the decompressed body.
pub(crate) fn plain(reply: &Reply) -> Vec<u8> {
    let mut bytes = Vec::new();
    match reply.headers.get("content-encoding") {
        Some(_) => {
            // A watch may end without the trailer of its last gzip member.
            MultiGzDecoder::new(&reply.body[..])
                .read_to_end(&mut bytes)
                .ok();
        }
        None => bytes.extend_from_slice(&reply.body),
    }
    bytes
}

/// Returns the differences of two responses, one line each.
pub(crate) fn differences(real: &Answer, ours: &Answer) -> Vec<String> {
    let mut found = Vec::new();
    if real.code != ours.code {
        found.push(format!("code: real {}, ours {}", real.code, ours.code));
    }
    for name in HEADERS {
        let (theirs, our) = (real.headers.get(name), ours.headers.get(name));
        if theirs != our {
            found.push(format!("header {name}: real {theirs:?}, ours {our:?}"));
        }
    }
    match (&real.body, &ours.body) {
        (Body::Json(theirs), Body::Json(our)) => {
            if theirs.len() != our.len() {
                let (theirs, our) = (theirs.len(), our.len());
                found.push(format!("documents: real {theirs}, ours {our}"));
            }
            for (i, (theirs, our)) in theirs.iter().zip(our).enumerate() {
                values(&format!("#{i}"), theirs, our, &mut found);
            }
        }
        (theirs, our) if theirs == our => {}
        (Body::Bytes(theirs), Body::Bytes(our)) => found.push(bytes(theirs, our)),
        (theirs, our) => found.push(format!("body: real {}, ours {}", text(theirs), text(our))),
    }
    found.truncate(TOLD);
    found
}

fn text(body: &Body) -> String {
    match body {
        Body::Json(documents) => documents.iter().map(shown).collect::<Vec<_>>().join(" "),
        Body::Bytes(bytes) => bytes
            .escape_ascii()
            .to_string()
            .chars()
            .take(SHOWN)
            .collect(),
    }
}

fn shown(value: &Value) -> String {
    value.to_string().chars().take(SHOWN).collect()
}

fn values(place: &str, real: &Value, ours: &Value, found: &mut Vec<String>) {
    match (real, ours) {
        (Value::Object(theirs), Value::Object(our)) => {
            for (name, value) in theirs {
                let place = format!("{place}.{name}");
                match our.get(name) {
                    Some(our) => values(&place, value, our, found),
                    None => found.push(format!("{place}: real {}, ours nothing", shown(value))),
                }
            }
            for (name, value) in our.iter().filter(|(name, _)| !theirs.contains_key(*name)) {
                let value = shown(value);
                found.push(format!("{place}.{name}: real nothing, ours {value}"));
            }
        }
        (Value::Array(theirs), Value::Array(our)) if theirs.len() == our.len() => {
            for (i, (theirs, our)) in theirs.iter().zip(our).enumerate() {
                values(&format!("{place}[{i}]"), theirs, our, found);
            }
        }
        _ if real == ours => {}
        _ => found.push(format!(
            "{place}: real {}, ours {}",
            shown(real),
            shown(ours)
        )),
    }
}

/// Describes the first position at which two bodies differ.
pub(crate) fn bytes(real: &[u8], ours: &[u8]) -> String {
    let same = real.iter().zip(ours).take_while(|(a, b)| a == b).count();
    let around = |bytes: &[u8]| {
        let from = same.saturating_sub(60);
        let to = (same + 60).min(bytes.len());
        bytes[from..to].escape_ascii().to_string()
    };
    format!(
        "bytes differ at {same} of {} and {}: real {}, ours {}",
        real.len(),
        ours.len(),
        around(real),
        around(ours)
    )
}
