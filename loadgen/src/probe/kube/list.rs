//! A list response as rules compare it.

use serde_json::Value;

use super::requests::{CheckError, Response, key_of, version_of};

/// A list in JSON.
#[derive(Debug)]
pub(super) struct List {
    /// Its resourceVersion.
    pub(super) version: u64,
    /// The continue token of the next page.
    pub(super) token: Option<String>,
    /// `remainingItemCount`.
    pub(super) remaining: Option<u64>,
    /// `namespace/name` and resourceVersion of each item.
    pub(super) items: Vec<(String, u64)>,
    /// The whole response.
    pub(super) json: Value,
}

impl List {
    /// Parses a response that must be a list.
    ///
    /// # Errors
    /// [`CheckError::Broken`] with what was received instead.
    pub(super) fn read(response: Response) -> Result<Self, CheckError> {
        let response = response.success()?;
        let Some(items) = response.json["items"].as_array() else {
            return Err(CheckError::Broken(format!(
                "no items: {}",
                response.shown()
            )));
        };
        let items = items.iter().map(|item| (key_of(item), version_of(item)));
        let metadata = &response.json["metadata"];
        let token = metadata["continue"]
            .as_str()
            .filter(|token| !token.is_empty());
        Ok(Self {
            version: response.version(),
            token: token.map(str::to_owned),
            remaining: metadata["remainingItemCount"].as_u64(),
            items: items.collect(),
            json: response.json,
        })
    }

    /// Returns the items as they were received.
    pub(super) fn objects(&self) -> &[Value] {
        self.json["items"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Returns a short description for the report.
    pub(super) fn shown(&self) -> String {
        let mut text = format!("{} items at {}", self.items.len(), self.version);
        if self.token.is_some() {
            text.push_str(", a token");
        }
        if let Some(remaining) = self.remaining {
            text.push_str(&format!(", {remaining} remain"));
        }
        text
    }
}
