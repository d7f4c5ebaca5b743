//! A request as it is sent: the query of a strategy, a selector, a page and a shard, and the
//! requested encoding.

use kube_api::envelope::MEDIA_TYPE;
use kube_api::media_type::JSON;
use workloads::scenario::Media;
use workloads::strategy::Strategy;

use super::super::error::ListError;
use super::client::Kube;
use super::list_parameters::ShardRequest;
use super::response::Response;

impl Kube {
    /// Makes the following requests ask for another shard.
    pub(crate) fn take_part(&mut self, part: ShardRequest) {
        self.shard = part.requested();
        self.parameters.part = Some(part);
    }

    /// Requests one page.
    pub(super) async fn open(&mut self, continue_token: &str) -> Result<Response, ListError> {
        let mut query = self.query.clone();
        if let Strategy::Selector(selector) = self.strategy {
            self.node = self.parameters.take_node();
            let text = selector.of_node(self.node.as_deref().unwrap_or_default());
            let kind = if selector.is_field() {
                "field"
            } else {
                "label"
            };
            query = format!("{kind}Selector={}", percent_encoded(&text));
        }
        if !continue_token.is_empty() {
            query.push_str("&continue=");
            query.push_str(&percent_encoded(continue_token));
        }
        self.get(query).await
    }

    /// Sends a request with this query, restricted to the case's shard.
    pub(crate) async fn get(&mut self, mut query: String) -> Result<Response, ListError> {
        if let Some(shard) = &self.shard {
            let and = if query.is_empty() { "" } else { "&" };
            query.push_str(&format!("{and}shardSelector={}", percent_encoded(shard)));
        }
        let path = match query.as_str() {
            "" => self.path.clone(),
            query => format!("{}?{query}", self.path),
        };
        let accept = self.accept(&query);
        Ok(Response(self.connection.get(&path, accept).await?))
    }

    /// Returns the `Accept` header of a request with this query.
    fn accept(&self, query: &str) -> &'static str {
        match self.parameters.media {
            Media::Json => JSON,
            Media::Protobuf if query.starts_with("watch=true") => {
                "application/vnd.kubernetes.protobuf;stream=watch"
            }
            Media::Protobuf => MEDIA_TYPE,
        }
    }
}

/// Returns the query of a list at exactly this revision.
pub(crate) fn exactly(revision: i64) -> String {
    format!("resourceVersion={revision}&resourceVersionMatch=Exact")
}

/// Returns a continue token or a selector, escaped for a query.
fn percent_encoded(token: &str) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_.~".contains(b);
    let mut encoded = String::with_capacity(token.len());
    for byte in token.bytes() {
        if plain(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
