//! A request to a Kubernetes API, in a form that tests can inspect and change.

use http::Method;
use serde_json::Value;

/// A parsed request.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    /// Whether JSON is requested.
    pub(crate) is_json: bool,
    /// The body, if it is JSON.
    pub(crate) json: Value,
    /// Number of earlier requests that were the same.
    pub(crate) repeated: usize,
}

impl Asked {
    /// Returns a parameter of the query.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut named = self.query.iter().filter(|(key, _)| key == name);
        named.next().map(|(_, value)| value.as_str())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(crate) fn is(&self, name: &str, value: &str) -> bool {
        self.get(name) == Some(value)
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.remove(name);
        self.query.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.query.retain(|(key, _)| key != name);
    }

    pub(crate) fn is_list(&self) -> bool {
        self.method == Method::GET && self.path.ends_with("/configmaps") && !self.has("watch")
    }

    pub(crate) fn is_object(&self) -> bool {
        self.method == Method::GET && self.path.contains("/configmaps/")
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.is("watch", "true")
    }

    pub(crate) fn is_exact(&self) -> bool {
        self.is("resourceVersionMatch", "Exact")
    }

    pub(crate) fn is_not_older(&self) -> bool {
        self.is("resourceVersionMatch", "NotOlderThan") && self.is_list()
    }

    /// Returns whether the query has exactly these parameters and values.
    pub(crate) fn asks(&self, query: &[(&str, &str)]) -> bool {
        self.query.len() == query.len() && query.iter().all(|(name, value)| self.is(name, value))
    }

    /// Returns whether the query has these parameters, in any order, and no others.
    pub(crate) fn has_only(&self, names: &[&str]) -> bool {
        self.query.len() == names.len() && names.iter().all(|name| self.has(name))
    }
}
