//! Continue tokens: the start key of the next page and the revision of the list. They hold no state
//! of a server, so any replica decodes the tokens of the others.

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::{DecodeError, Engine as _};
use serde::Deserialize;

use crate::to_json::put_string;

const VERSION: &str = "meta.k8s.io/v1";

/// The start of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContinueToken {
    /// Revision of the first page; -1 means the latest, without consistency.
    pub resource_version: i64,
    /// First key of the page, relative to the list's prefix: the last key of the preceding page
    /// plus NUL.
    pub start: String,
}

/// The error for a forged or foreign token. The texts are an apiserver's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContinueTokenError {
    /// Not unpadded Base64 with the URL alphabet, or the decoded text is not JSON.
    #[error("continue key is not valid: {0}")]
    Encoding(String),
    /// A token of another format version.
    #[error("continue key is not valid: server does not recognize this encoded version {0}")]
    Version(String),
    /// Revision 0, which no list has.
    #[error(
        "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)"
    )]
    ResourceVersion,
    /// No start key.
    #[error("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")]
    EmptyStart,
    /// A start key that could escape from the list's prefix.
    #[error("continue key is not valid: {0}")]
    Path(String),
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Fields {
    v: String,
    rv: i64,
    start: String,
}

impl ContinueToken {
    /// Returns the token of the page after the key `last` (relative to the list's prefix).
    pub fn after(resource_version: i64, last: &str) -> Self {
        Self {
            resource_version,
            start: format!("{last}\0"),
        }
    }

    /// Returns the text of the token: unpadded Base64 of compact JSON.
    pub fn encode(&self) -> String {
        let mut json = format!(
            "{{\"v\":\"{VERSION}\",\"rv\":{},\"start\":",
            self.resource_version
        )
        .into_bytes();
        put_string(&mut json, self.start.as_bytes());
        json.push(b'}');
        URL_SAFE_NO_PAD.encode(json)
    }

    /// Decodes a token; its `start` can be appended safely to a prefix that ends in `/`.
    ///
    /// # Errors
    /// [`ContinueTokenError`]; its variants are in the order of the checks.
    pub fn decode(token: &str) -> Result<Self, ContinueTokenError> {
        let json = URL_SAFE_NO_PAD.decode(token).map_err(|error| {
            let at = match error {
                DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
                DecodeError::InvalidLength(_) => token.len() / 4 * 4,
                DecodeError::InvalidPadding => token.find('=').unwrap_or(token.len()),
            };
            ContinueTokenError::Encoding(format!("illegal base64 data at input byte {at}"))
        })?;
        let fields: Fields = serde_json::from_slice(&json)
            .map_err(|error| ContinueTokenError::Encoding(error.to_string()))?;
        if fields.v != VERSION {
            return Err(ContinueTokenError::Version(fields.v));
        }
        if fields.rv == 0 {
            return Err(ContinueTokenError::ResourceVersion);
        }
        if fields.start.is_empty() {
            return Err(ContinueTokenError::EmptyStart);
        }
        let start = fields.start.strip_prefix('/').unwrap_or(&fields.start);
        if start.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(ContinueTokenError::Path(fields.start));
        }
        Ok(Self {
            resource_version: fields.rv,
            start: start.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tokens_equal_an_apiservers() {
        let vectors = [
            (
                147,
                "default/pod-0499",
                "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTQ3LCJzdGFydCI6ImRlZmF1bHQvcG9kLTA0OTlcdTAwMDAifQ",
            ),
            (
                -1,
                "default/pod-0499",
                "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiZGVmYXVsdC9wb2QtMDQ5OVx1MDAwMCJ9",
            ),
            (
                9_007_199_254_740_993,
                "node-17",
                "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6OTAwNzE5OTI1NDc0MDk5Mywic3RhcnQiOiJub2RlLTE3XHUwMDAwIn0",
            ),
        ];
        for (resource_version, last, text) in vectors {
            let token = ContinueToken::after(resource_version, last);
            assert_eq!(token.encode(), text);
            assert_eq!(ContinueToken::decode(text), Ok(token));
        }
    }

    #[test]
    fn forged_tokens_are_refused() {
        let token =
            |json: &str| ContinueToken::decode(&URL_SAFE_NO_PAD.encode(json)).expect_err("refused");
        assert!(matches!(token("{"), ContinueTokenError::Encoding(_)));
        assert!(matches!(
            token(r#"{"v":"meta.k8s.io/v2","rv":1,"start":"a"}"#),
            ContinueTokenError::Version(_)
        ));
        assert_eq!(
            token(r#"{"v":"meta.k8s.io/v1","start":"a"}"#),
            ContinueTokenError::ResourceVersion
        );
        assert_eq!(
            token(r#"{"v":"meta.k8s.io/v1","rv":1}"#),
            ContinueTokenError::EmptyStart
        );
        for start in ["../secrets/a", "a/../b", "a//b", "a/./b", "a/", "/", ".."] {
            let json = format!(r#"{{"v":"meta.k8s.io/v1","rv":1,"start":"{start}"}}"#);
            assert!(
                matches!(token(&json), ContinueTokenError::Path(_)),
                "{start}"
            );
        }
        let valid = ContinueToken::after(1, "a").encode();
        assert!(
            ContinueToken::decode(&format!("{valid}==")).is_err(),
            "padding"
        );
        assert!(ContinueToken::decode("%%%").is_err());
    }

    proptest! {
        #[test]
        fn tokens_survive(resource_version in prop::num::i64::ANY.prop_filter("0 is refused", |rv| *rv != 0), last in "[a-z0-9.-]{1,20}x/[a-z<>&\"]{1,20}") {
            prop_assume!(!last.starts_with('.'));
            let token = ContinueToken::after(resource_version, &last);
            prop_assert_eq!(ContinueToken::decode(&token.encode()), Ok(token));
        }

        #[test]
        fn any_text_is_a_token_or_an_error(text in ".*") {
            if let Ok(token) = ContinueToken::decode(&text) {
                prop_assert!(!token.start.contains("//"));
            }
        }
    }
}
