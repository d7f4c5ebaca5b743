//! Known differences of responses, and how each is removed from both responses before they are
//! compared. `docs/apiserver-differences.md` has the reasons, in rows with the same names.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::compare::{Answer, Body, Question};

/// A difference that is intended, or not worth fixing.
pub(crate) struct KnownDifference {
    /// The difference's name in the document.
    pub(crate) name: &'static str,
    /// Removes the difference from the real server's response and bench-server's, if they are
    /// responses that may have it.
    pub(crate) level: fn(Question<'_>, &mut Answer, &mut Answer),
}

pub(crate) const KNOWN_DIFFERENCES: &[KnownDifference] = &[
    KnownDifference {
        name: "descriptions of columns",
        level: |_, real, ours| each(real, ours, descriptions),
    },
    OLDEST_REVISION,
    KnownDifference {
        name: "slash before a token's start",
        level: |_, real, ours| {
            each(real, ours, without_slash);
            if let (Body::Bytes(theirs), Body::Bytes(our)) = (&mut real.body, &mut ours.body) {
                behind_the_token(theirs);
                behind_the_token(our);
            }
        },
    },
    KnownDifference {
        name: "YAML",
        level: |question, real, ours| {
            if question.header("accept") == "application/yaml" {
                forget(real, ours);
            }
            each(real, ours, |document| {
                change_text(document, "/message", |text| {
                    text.replace("application/yaml, ", "")
                });
            });
        },
    },
    KnownDifference {
        name: "words of a refused Accept",
        level: |_, real, ours| {
            if (real.code, ours.code) == (406, 406) {
                forget(real, ours);
            }
        },
    },
    KnownDifference {
        name: "application/*",
        level: |question, real, ours| {
            if question.header("accept") == "application/*" {
                forget(real, ours);
            }
        },
    },
    KnownDifference {
        name: "partial metadata by the other's name",
        level: |question, real, ours| {
            let accept = question.header("accept");
            let partial = accept.contains("as=PartialObjectMetadata");
            let refused = matches!(real.code, 406 | 500) && ours.code < 500;
            // A watch that requests PartialObjectMetadataList returns no events.
            let listed = accept.contains("as=PartialObjectMetadataList")
                && question.path.contains("watch=1");
            if partial && (refused || listed) {
                forget(real, ours);
            }
        },
    },
    KnownDifference {
        name: "errors to who asks for a shape",
        level: |question, real, ours| {
            let shaped = question.header("accept").contains("as=");
            if shaped && real.code >= 400 && real.code == ours.code {
                forget(real, ours);
            }
        },
    },
    KnownDifference {
        name: "null for no items",
        level: |_, real, ours| {
            each(real, ours, |list| {
                if list["kind"] == "PartialObjectMetadataList" && list["items"].is_null() {
                    list["items"] = json!([]);
                }
            });
        },
    },
    KnownDifference {
        name: "a request's deadline",
        level: |_, real, ours| {
            if (real.code, ours.code) == (504, 504)
                && real.header("content-type").starts_with("text/")
            {
                for answer in [real, ours] {
                    answer.headers.remove("content-type");
                    for document in answer.documents() {
                        for field in ["kind", "apiVersion", "details"] {
                            document.as_object_mut().map(|status| status.remove(field));
                        }
                    }
                }
            }
        },
    },
    KnownDifference {
        name: "words of Go's decoders",
        level: |_, real, ours| {
            const WORDS: [&str; 14] = [
                "json: cannot unmarshal",
                "quantities must match",
                "parse quantity",
                "json parse error",
                "invalid JSON patch",
                "invalid character",
                "unexpected end of JSON",
                "in scheme",
                "unknown conversion",
                "cannot convert",
                "cannot restore slice",
                "does not appear to be a protobuf message",
                "unknown patch type",
                "does not contain declared merge key",
            ];
            if real.code >= 400 && WORDS.iter().any(|words| real.says(words)) {
                each(real, ours, wordless);
            }
        },
    },
    KnownDifference {
        name: "words of a selector's parser",
        level: |_, real, ours| {
            const WORDS: [&str; 3] = [
                "unable to parse requirement",
                "found '",
                "invalid field selector",
            ];
            if (real.code, ours.code) == (400, 400) && WORDS.iter().any(|words| real.says(words)) {
                each(real, ours, wordless);
            }
        },
    },
    KnownDifference {
        name: "words of an expired token",
        level: |_, real, ours| {
            if (real.code, ours.code) == (410, 410) && real.says("continue parameter is too old") {
                each(real, ours, wordless);
            }
        },
    },
    KnownDifference {
        name: "events are cached",
        level: |question, real, ours| {
            let event = question.path.contains("/events/") && question.path.ends_with("=x");
            if event && (real.code, ours.code) == (400, 500) {
                forget(real, ours);
            }
        },
    },
    KnownDifference {
        name: "field selector of nothing",
        level: |question, real, ours| {
            let nothing = question
                .path
                .split(['?', '&'])
                .any(|pair| pair == "fieldSelector=%3D");
            if nothing && (real.code, ours.code) == (200, 400) {
                forget(real, ours);
            }
        },
    },
    KnownDifference {
        name: "words of a failed precondition",
        level: |_, real, ours| {
            if real.code == 409 && real.says("StorageError: invalid object") {
                each(real, ours, wordless);
            }
        },
    },
    KnownDifference {
        name: "who built it",
        level: |question, real, ours| {
            if question.path == "/version" && (real.code, ours.code) == (200, 200) {
                forget(real, ours);
            }
        },
    },
    KnownDifference {
        name: "storageVersionHash",
        level: |_, real, ours| each(real, ours, without_hashes),
    },
    KnownDifference {
        name: "validation of objects",
        level: |_, real, ours| {
            if real.code == 422 && ours.code < 300 && real.says("metadata.labels: Invalid value") {
                forget(real, ours);
            }
        },
    },
    KnownDifference {
        name: "server-side apply",
        level: |question, real, ours| {
            if question
                .header("content-type")
                .starts_with("application/apply-patch")
            {
                forget(real, ours);
            }
            each(real, ours, |document| {
                change_text(document, "/message", |text| {
                    text.replace(", application/apply-patch+yaml", "")
                });
            });
        },
    },
    KnownDifference {
        name: "order beside $setElementOrder",
        level: |_, real, ours| {
            if real.code == 500 && real.says("doesn't match $setElementOrder list") {
                forget(real, ours);
            }
        },
    },
];

/// The oldest revision of a cache depends on when the cache started, also with two real servers.
pub(crate) const OLDEST_REVISION: KnownDifference = KnownDifference {
    name: "oldest revision of a watch",
    level: |_, real, ours| each(real, ours, oldest_revision),
};

/// Differences that a run may not have: the length of a cache's history depends on the rate of
/// writes.
pub(crate) const BY_CHANCE: [&str; 1] = [OLDEST_REVISION.name];

/// Removes these differences from both responses, except for the one named `but`.
pub(crate) fn level(
    known: &[KnownDifference],
    question: Question<'_>,
    real: &mut Answer,
    ours: &mut Answer,
    but: Option<&str>,
) {
    let known = known.iter().filter(|known| Some(known.name) != but);
    known.for_each(|known| (known.level)(question, real, ours));
}

/// Changes every document of both responses.
fn each(real: &mut Answer, ours: &mut Answer, change: fn(&mut Value)) {
    real.documents().iter_mut().for_each(change);
    ours.documents().iter_mut().for_each(change);
}

/// Excludes the whole responses from the comparison.
fn forget(real: &mut Answer, ours: &mut Answer) {
    *ours = real.clone();
}

/// Removes the descriptions of a table's columns, whose wording differs.
fn descriptions(document: &mut Value) {
    let table = match document.get_mut("object") {
        Some(object) => object,
        None => document,
    };
    let columns = table
        .get_mut("columnDefinitions")
        .and_then(Value::as_array_mut);
    for column in columns.into_iter().flatten() {
        column["description"] = Value::Null;
    }
}

fn oldest_revision(event: &mut Value) {
    change_text(event, "/object/message", |text| {
        match text.split_once(" (") {
            Some((begin, _)) if begin.starts_with("too old resource version") => begin.to_owned(),
            _ => text.to_owned(),
        }
    });
}

fn without_slash(list: &mut Value) {
    change_text(list, "/metadata/continue", |token| {
        let json = URL_SAFE_NO_PAD.decode(token).unwrap_or_default();
        match serde_json::from_slice::<Value>(&json) {
            Ok(mut fields) => {
                change_text(&mut fields, "/start", |start| {
                    start.trim_start_matches('/').to_owned()
                });
                fields.to_string()
            }
            Err(_) => token.to_owned(),
        }
    });
}

/// Removes everything up to the end of the token from a page in protobuf: the token's length
/// affects three length prefixes before it.
fn behind_the_token(page: &mut Vec<u8>) {
    const BEGIN: &[u8] = b"eyJ2Ijoi";
    let at = page.windows(BEGIN.len()).position(|bytes| bytes == BEGIN);
    if let (true, Some(at)) = (page.starts_with(b"k8s\0"), at) {
        let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let length = page[at..].iter().take_while(|byte| is_token(byte)).count();
        page.drain(..at + length);
    }
}

fn without_hashes(list: &mut Value) {
    let resources = list.get_mut("resources").and_then(Value::as_array_mut);
    for resource in resources.into_iter().flatten() {
        resource
            .as_object_mut()
            .map(|entry| entry.remove("storageVersionHash"));
    }
}

/// Removes the messages of a Status, so that only its code, its reason and the fields of its causes
/// are compared.
fn wordless(status: &mut Value) {
    change_text(status, "/message", |_| String::new());
    let causes = status
        .pointer_mut("/details/causes")
        .and_then(Value::as_array_mut);
    for cause in causes.into_iter().flatten() {
        cause["message"] = json!("");
    }
}

fn change_text(document: &mut Value, place: &str, change: impl FnOnce(&str) -> String) {
    if let Some(Value::String(text)) = document.pointer_mut(place) {
        *text = change(text);
    }
}
