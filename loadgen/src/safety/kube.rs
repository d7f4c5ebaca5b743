//! Reads the version of a Kubernetes API, and counts and samples the objects of a collection
//! without listing them.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use kube_api::client::{Connection, KubeError, expect_success, read_whole};
use kube_api::media_type;
use serde_json::Value;
use tokio::time::timeout;

use super::census::{Census, PAGE, Sample, SampledPage};
use crate::timeouts::RESPONSE_TIMEOUT;

/// The most pages that are read. They are the first ones, since a token is the only way to a later
/// page.
const MAX_PAGES: usize = 4;
/// The largest response that is read, in bytes: 8 objects of 1.5 MB, with as much again for JSON.
const ANSWER_BYTES: usize = 32 << 20;
const JSON: HeaderValue = HeaderValue::from_static(media_type::JSON);
/// The group whose requests no priority level limits.
const EXEMPT_GROUP: &str = "system:masters";

/// The version of a Kubernetes API and the privilege of the client's user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeIdentity {
    /// The version, as `v1.37.1`; `None` if it is unknown.
    pub version: Option<String>,
    /// Whether the user's requests bypass priority and fairness, which then protects no other
    /// client from them.
    pub is_exempt: bool,
}

impl KubeIdentity {
    /// Requests the version and the user's groups.
    ///
    /// # Errors
    /// [`KubeError`] if the API cannot be reached. A refused request leaves its part unknown.
    pub async fn ask(connection: &mut Connection) -> Result<Self, KubeError> {
        connection.open().await?;
        let version = ask(connection, Method::GET, "/version", Bytes::new()).await;
        let version = version.ok().and_then(|v| text(&v["gitVersion"]));
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let kind = r#"{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}"#;
        let review = ask(
            connection,
            Method::POST,
            path,
            Bytes::from_static(kind.as_bytes()),
        )
        .await;
        let review = review.unwrap_or_default();
        let groups = review["status"]["userInfo"]["groups"].as_array();
        let mut groups = groups.into_iter().flatten();
        Ok(Self {
            version,
            is_exempt: groups.any(|group| group == EXEMPT_GROUP),
        })
    }
}

/// Formats the description on one line.
impl std::fmt::Display for KubeIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let version = self.version.as_deref().unwrap_or("of unknown version");
        write!(f, "Kubernetes API {version}")?;
        if self.is_exempt {
            write!(
                f,
                ", asked by a member of {EXEMPT_GROUP}, whose requests no priority level limits"
            )?;
        }
        Ok(())
    }
}

/// Counts the collection at a path by a page of one object, and samples its first pages in JSON,
/// which is larger than protobuf. Never requests `resourceVersion=0` with a limit, since an
/// apiserver ignores the limit then.
///
/// # Errors
/// [`KubeError`] if the API does not respond, or refuses a request.
pub async fn census(connection: &mut Connection, collection: &str) -> Result<Census, KubeError> {
    let path = |limit: usize, token: &str| match token {
        "" => format!("{collection}?limit={limit}"),
        token => format!("{collection}?limit={limit}&continue={token}"),
    };
    let first = ask(connection, Method::GET, &path(1, ""), Bytes::new()).await?;
    let remaining = first["metadata"]["remainingItemCount"].as_u64();
    let keys = items(&first).len() as u64 + remaining.unwrap_or(0);
    let mut pages = Vec::new();
    let mut token = String::new();
    while pages.len() < MAX_PAGES && keys > 0 {
        let page = ask(connection, Method::GET, &path(PAGE, &token), Bytes::new()).await;
        let page = match page {
            Ok(page) => page,
            // The pages read so far are enough; the token may have expired, for example.
            Err(_) if !pages.is_empty() => break,
            Err(error) => return Err(error),
        };
        let sizes = items(&page)
            .iter()
            .map(|item| item.to_string().len() as u64);
        let sizes: Vec<u64> = sizes.collect();
        let weight = sizes.len() as f64;
        pages.push(SampledPage {
            sizes,
            weight,
            ..SampledPage::default()
        });
        match text(&page["metadata"]["continue"]).filter(|token| !token.is_empty()) {
            Some(next) => token = next,
            None => break,
        }
    }
    let read: usize = pages.iter().map(|page| page.sizes.len()).sum();
    let unread = keys.saturating_sub(read as u64);
    if let Some(last) = pages.last_mut() {
        last.weight += unread as f64;
    }
    let sample = Sample { pages, unread };
    Ok(Census {
        keys,
        bytes: sample.bytes_of_all(keys),
        sample,
        ..Census::default()
    })
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

async fn ask(
    connection: &mut Connection,
    method: Method,
    path: &str,
    body: Bytes,
) -> Result<Value, KubeError> {
    let asked = async {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, JSON);
        headers.insert(header::CONTENT_TYPE, JSON);
        let answer = connection.send(method.clone(), path, headers, body).await?;
        let answer = expect_success(method, path, answer).await?;
        let body = read_whole(answer.into_body(), ANSWER_BYTES).await?;
        serde_json::from_slice(&body).map_err(|e| KubeError::Body(format!("{path}: {e}")))
    };
    match timeout(RESPONSE_TIMEOUT, asked).await {
        Ok(answer) => answer,
        Err(_) => {
            connection.cancel();
            let within = RESPONSE_TIMEOUT.as_secs();
            Err(KubeError::Timeout(format!(
                "{path}: no response within {within} s"
            )))
        }
    }
}
