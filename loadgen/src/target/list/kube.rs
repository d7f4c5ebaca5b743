//! The Kubernetes tier over HTTP/1.1, in protobuf: `cached` (resourceVersion=0), `consistent` (unset) and `paged:N`
//! (limit and continue). They differ in the query of the first request and in how many pages follow.

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use kube_api::envelope::MEDIA_TYPE;
use tokio::net::TcpStream;
use workloads::strategy::Strategy;

use super::kube_walk::{KubeWalker, Page};
use super::{ListError, Listed, Lister, Reach, Row};
use crate::verify::{Check, Wrong};

/// What an error body is cut to in a message.
const SHOWN_BYTES: usize = 300;
/// Where every data set of this tier is stored.
const ROOT: &str = "/registry/";

/// A client of the Kubernetes API.
pub(super) async fn connect(row: &Row, reach: &Reach) -> Result<Box<dyn Lister>, ListError> {
    let url = reach.kube_url.as_deref();
    let url = url.ok_or_else(|| ListError::Http("the target has no Kubernetes API".to_owned()))?;
    let uri: Uri = url
        .parse()
        .map_err(|e| ListError::Http(format!("`{url}`: {e}")))?;
    let authority = uri
        .authority()
        .ok_or_else(|| ListError::Http(format!("`{url}` has no host")))?
        .clone();
    let mut lister = Kube {
        host: authority.to_string(),
        address: (
            authority.host().to_owned(),
            authority.port_u16().unwrap_or(80),
        ),
        path: format!("/api/v1/{}", row.resource),
        resource: row.resource.clone(),
        query: match row.strategy {
            Strategy::Cached => "resourceVersion=0".to_owned(),
            Strategy::Paged(size) => format!("limit={size}"),
            _ => String::new(),
        },
        connection: None,
    };
    lister.connection().await?;
    Ok(Box::new(lister))
}

#[derive(Debug)]
struct Kube {
    host: String,
    address: (String, u16),
    path: String,
    resource: String,
    query: String,
    connection: Option<SendRequest<Empty<Bytes>>>,
}

impl Kube {
    /// The kept connection, or a new one where a cancelled list closed it.
    async fn connection(&mut self) -> Result<&mut SendRequest<Empty<Bytes>>, ListError> {
        let failed = |e: &dyn std::fmt::Display| ListError::Http(format!("connection: {e}"));
        let kept = self.connection.take().filter(|c| !c.is_closed());
        let connection = match kept {
            Some(connection) => connection,
            None => {
                let address = (self.address.0.as_str(), self.address.1);
                let socket = TcpStream::connect(address).await.map_err(|e| failed(&e))?;
                socket.set_nodelay(true).map_err(|e| failed(&e))?;
                let (sender, connection) = handshake(TokioIo::new(socket))
                    .await
                    .map_err(|e| failed(&e))?;
                // Ends with the sender, which reports its errors.
                tokio::spawn(async move { connection.await.unwrap_or_default() });
                sender
            }
        };
        Ok(self.connection.insert(connection))
    }

    /// Asks for one page.
    async fn open(&mut self, continue_token: &str) -> Result<Incoming, ListError> {
        let failed = |e: &dyn std::fmt::Display| ListError::Http(e.to_string());
        let mut query = self.query.clone();
        if !continue_token.is_empty() {
            query.push_str("&continue=");
            query.push_str(&percent_encoded(continue_token));
        }
        let path = match query.as_str() {
            "" => self.path.clone(),
            query => format!("{}?{query}", self.path),
        };
        let request = Request::get(&path)
            .header(header::HOST, &self.host)
            .header(header::ACCEPT, MEDIA_TYPE)
            .body(Empty::new())
            .map_err(|e| failed(&e))?;
        let connection = self.connection().await?;
        connection.ready().await.map_err(|e| failed(&e))?;
        let response = connection
            .send_request(request)
            .await
            .map_err(|e| failed(&e))?;
        let status = response.status();
        if status == StatusCode::OK {
            return Ok(response.into_body());
        }
        let body = http_body_util::Limited::new(response.into_body(), 64 << 10);
        let body = body
            .collect()
            .await
            .map(http_body_util::Collected::to_bytes);
        let text = String::from_utf8_lossy(&body.unwrap_or_default())
            .chars()
            .take(SHOWN_BYTES)
            .collect::<String>();
        Err(ListError::Http(format!("GET {path}: {status}: {text}")))
    }

    /// Reads all pages, showing their items to `check` where there is one.
    async fn pages(
        &mut self,
        mut check: Option<&mut Check>,
        on_first_object: &mut (dyn FnMut() + Send),
    ) -> Result<Listed, ListError> {
        let mut walker = KubeWalker::new(ROOT, &self.resource);
        let mut listed = Listed::default();
        let mut token = String::new();
        let mut before: Option<Page> = None;
        loop {
            let mut body = self.open(&token).await?;
            let mut begun = listed.chunks > 0;
            while let Some(bytes) = data(&mut body).await? {
                walker.feed(&bytes, check.as_deref_mut())?;
                if !begun && walker.items() > 0 {
                    begun = true;
                    on_first_object();
                }
            }
            let page = walker.next_page()?;
            if let Some(before) = &before {
                check_next(before, &page)?;
            } else {
                listed.revision = page.revision;
            }
            listed.chunks += 1;
            listed.wire_bytes += page.bytes;
            if page.continue_token.is_empty() {
                return Ok(listed);
            }
            if page.items == 0 {
                return Err(Wrong::EmptyChunks(1).into());
            }
            token.clone_from(&page.continue_token);
            before = Some(page);
        }
    }
}

/// Checks a page against what the page before announced.
fn check_next(before: &Page, page: &Page) -> Result<(), Wrong> {
    if page.revision != before.revision {
        return Err(Wrong::NotAList(format!(
            "a page of revision {} after one of {}",
            page.revision, before.revision
        )));
    }
    let Some(announced) = before.remaining else {
        return Ok(());
    };
    let here = page.items + page.remaining.unwrap_or(0);
    if announced != here {
        return Err(Wrong::Count {
            expected: announced,
            count: i64::try_from(here).unwrap_or(i64::MAX),
        });
    }
    Ok(())
}

#[async_trait]
impl Lister for Kube {
    async fn list(
        &mut self,
        check: &mut Check,
        on_first_object: &mut (dyn FnMut() + Send),
    ) -> Result<Listed, ListError> {
        self.pages(Some(check), on_first_object).await
    }

    /// Pages must be walked for the next token; whole lists are only read.
    async fn drain(&mut self) -> Result<(), ListError> {
        if self.query.starts_with("limit=") {
            self.pages(None, &mut || {}).await?;
            return Ok(());
        }
        let mut body = self.open("").await?;
        while data(&mut body).await?.is_some() {}
        Ok(())
    }

    async fn first_object(&mut self) -> Result<(), ListError> {
        let mut walker = KubeWalker::new(ROOT, &self.resource);
        let mut body = self.open("").await?;
        while walker.items() == 0
            && let Some(bytes) = data(&mut body).await?
        {
            walker.feed(&bytes, None)?;
        }
        // HTTP/1.1 has no cancel but to hang up.
        self.connection = None;
        Ok(())
    }
}

/// The next bytes of a body; `None` at its end.
async fn data(body: &mut Incoming) -> Result<Option<Bytes>, ListError> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| ListError::Http(format!("body: {e}")))?;
        if let Ok(bytes) = frame.into_data() {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

/// A continue token as part of a query.
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
