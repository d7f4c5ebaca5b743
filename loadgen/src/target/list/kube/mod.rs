//! The Kubernetes tier: `cached` (resourceVersion=0), `consistent` (unset), `exact`, `paged:N` (limit and continue),
//! `selector:…`, `watch-list`, and one worker's part of `sharded:N` and `client-filtered:N`. Lists differ in the query of the
//! first request and in how many pages follow.
//!
//! - [`protobuf`], [`json`]: walks over a list as it comes in; [`events`]: over a watch that begins with the state
//! - [`frames`]: the frames of a watch; [`follow`]: one worker's watch, from the state to whatever comes
//! - [`restore`]: an item back to what was stored
//! - [`opaque`]: as many bytes without meaning
//! - [`patch`]: changes of objects through the API
//! - [`read_your_write`]: a write, and whether a list has it

mod events;
pub mod follow;
mod frames;
mod json;
mod opaque;
pub mod patch;
mod protobuf;
mod read_your_write;
mod restore;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use kube_api::envelope::MEDIA_TYPE;
use kube_api::shard_selector::ShardSelector;
use workloads::scenario::Media;
use workloads::strategy::Strategy;

use super::{ListError, Listed, Lister, Reach, Row};
use crate::target::kube::{Connection, KubeError, Options};
use crate::verify::{Check, Wrong};
use events::EventWalker;
use json::JsonWalker;
use protobuf::ProtobufWalker;
pub(in crate::target) use restore::Memo;
pub(crate) use restore::Restore;
use restore::Sink;

/// Where every data set of this tier is stored.
const ROOT: &str = "/registry/";
/// What a reflector asks for: the state, then a bookmark.
const WATCH_LIST: &str = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=600";

/// How a row of this tier asks, beside its strategy. Shared by the row's clients.
#[derive(Debug, Clone, Default)]
pub struct Asks {
    /// The encoding that is asked for.
    pub media: Media,
    /// HTTP version, gzip, reading speed.
    pub options: Options,
    /// Only objects of this namespace.
    pub namespace: Option<String>,
    /// What the names of our own namespaces begin with, where lists hold others' objects too: those are received and not
    /// checked.
    pub own_namespaces: Option<String>,
    /// Only objects of this part.
    pub part: Option<Part>,
    /// Nodes that lists ask for in turn, where the selector has one.
    pub nodes: Arc<[String]>,
    next_node: Arc<AtomicUsize>,
    memo: Memo,
}

impl Asks {
    /// For this encoding, spoken like this.
    #[must_use]
    pub fn new(media: Media, options: Options) -> Self {
        Self {
            media,
            options,
            ..Self::default()
        }
    }
}

/// One worker's part of the objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Which objects.
    pub shard: ShardSelector,
    /// Whether the server is asked for these only; else it is asked for all, and the rest is thrown away here.
    pub by_server: bool,
}

impl Part {
    /// What the server is asked for.
    fn asked(&self) -> Option<String> {
        self.by_server.then(|| self.shard.to_string())
    }

    /// What is kept of an answer that has everything.
    fn kept(&self) -> Option<ShardSelector> {
        (!self.by_server).then(|| self.shard.clone())
    }
}

/// `ListMeta` of one page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Page {
    /// Revision of the list.
    revision: i64,
    /// Token of the next page; empty at the end.
    continue_token: String,
    /// Items that remain after this page, where the server says.
    remaining: Option<u64>,
    /// The shard that it holds, in the server's words.
    shard: Option<String>,
    /// Items in this page.
    items: u64,
    /// Bytes of the text.
    bytes: u64,
}

/// A client of the Kubernetes API.
pub(super) async fn connect(row: &Row, reach: &Reach) -> Result<Box<dyn Lister>, ListError> {
    let mut lister = Kube::connect(row, reach).await?;
    lister.query = match row.strategy {
        Strategy::Cached => "resourceVersion=0".to_owned(),
        Strategy::Paged(size) => format!("limit={size}"),
        Strategy::WatchList => WATCH_LIST.to_owned(),
        Strategy::Exact => exactly(lister.current_revision().await?),
        _ => String::new(),
    };
    if row.strategy == Strategy::Opaque {
        return Ok(Box::new(opaque::Opaque::new(lister).await?));
    }
    if row.strategy == Strategy::ReadYourWrite {
        let config = reach.etcd.clone();
        let config =
            config.ok_or_else(|| ListError::Http("there is no etcd to write to".into()))?;
        let etcd = etcd_api::client::Client::connect(config).await?;
        return Ok(Box::new(read_your_write::ReadYourWrite::new(lister, etcd)));
    }
    Ok(Box::new(lister))
}

#[derive(Debug)]
struct Kube {
    connection: Connection,
    path: String,
    resource: String,
    strategy: Strategy,
    query: String,
    /// The node that the latest list asked for.
    node: Option<String>,
    /// The `shardSelector` of every request, which the answer must repeat.
    shard: Option<String>,
    asks: Asks,
}

/// A walk over a list in either encoding.
#[derive(Debug)]
enum Walker {
    Protobuf(ProtobufWalker),
    Json(JsonWalker),
}

impl Walker {
    fn feed(&mut self, bytes: &[u8], check: Option<&mut Check>) -> Result<(), Wrong> {
        match self {
            Self::Protobuf(walker) => walker.feed(bytes, check),
            Self::Json(walker) => walker.feed(bytes, check),
        }
    }

    fn items(&self) -> u64 {
        match self {
            Self::Protobuf(walker) => walker.items(),
            Self::Json(walker) => walker.items(),
        }
    }

    fn next_page(&mut self, was_checked: bool) -> Result<Page, Wrong> {
        match self {
            Self::Protobuf(walker) => walker.next_page(),
            Self::Json(walker) => walker.next_page(was_checked),
        }
    }
}

impl Kube {
    /// A connected client, with no query yet.
    async fn connect(row: &Row, reach: &Reach) -> Result<Self, ListError> {
        let url = reach.kube_url.as_deref();
        let url =
            url.ok_or_else(|| ListError::Http("the target has no Kubernetes API".to_owned()))?;
        let asks = row.asks.clone();
        let mut connection = Connection::new(url, reach.kube_access.clone(), asks.options)?;
        connection.open().await?;
        let path = match &asks.namespace {
            Some(namespace) => format!("/api/v1/namespaces/{namespace}/{}", row.resource),
            None => format!("/api/v1/{}", row.resource),
        };
        Ok(Self {
            connection,
            path,
            resource: row.resource.clone(),
            strategy: row.strategy,
            query: String::new(),
            node: None,
            shard: asks.part.as_ref().and_then(Part::asked),
            asks,
        })
    }

    fn walker(&self) -> Walker {
        let memo = self.asks.memo.clone();
        match self.asks.media {
            Media::Protobuf => Walker::Protobuf(ProtobufWalker::new(self.restore())),
            Media::Json => Walker::Json(JsonWalker::new(self.restore_of_lists(memo))),
        }
    }

    /// What turns objects in protobuf, those of the row's part, into what is stored.
    fn restore(&self) -> Restore {
        let restore = self.restore_of_lists(Memo::default());
        match &self.asks.part {
            Some(part) => restore.keeping(part.kept()).hashing(part.shard.key()),
            None => restore,
        }
    }

    fn events(&self) -> EventWalker {
        let Asks { media, memo, .. } = &self.asks;
        EventWalker::new(*media, self.restore_of_lists(memo.clone()))
    }

    /// The same of lists and states that are in no parts.
    fn restore_of_lists(&self, memo: Memo) -> Restore {
        let restore = Restore::new(ROOT, &self.resource, memo);
        restore.only_namespaces(self.asks.own_namespaces.as_deref())
    }

    /// What is asked for with this query, where it names it.
    fn accept(&self, query: &str) -> &'static str {
        match self.asks.media {
            Media::Json => "application/json",
            Media::Protobuf if query.starts_with("watch=true") => {
                "application/vnd.kubernetes.protobuf;stream=watch"
            }
            Media::Protobuf => MEDIA_TYPE,
        }
    }

    /// Asks for another part from now on.
    fn take_part(&mut self, part: Part) {
        self.shard = part.asked();
        self.asks.part = Some(part);
    }

    /// Asks for one page.
    async fn open(&mut self, continue_token: &str) -> Result<crate::target::kube::Body, ListError> {
        let mut query = self.query.clone();
        if let Strategy::Selector(selector) = self.strategy {
            let nodes = &self.asks.nodes;
            let next = self.asks.next_node.fetch_add(1, Ordering::Relaxed);
            self.node = (!nodes.is_empty()).then(|| nodes[next % nodes.len()].clone());
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

    /// Sends a request with this query, for the row's part of the objects.
    async fn get(&mut self, mut query: String) -> Result<crate::target::kube::Body, ListError> {
        if let Some(shard) = &self.shard {
            let and = if query.is_empty() { "" } else { "&" };
            query.push_str(&format!("{and}shardSelector={}", percent_encoded(shard)));
        }
        let path = match query.as_str() {
            "" => self.path.clone(),
            query => format!("{}?{query}", self.path),
        };
        let accept = self.accept(&query);
        Ok(self.connection.get(&path, accept).await?)
    }

    /// Whether a page holds the shard that was asked for, by its own word: a server that does not know of shards sends
    /// everything.
    fn check_shard(&self, page: &Page) -> Result<(), ListError> {
        match (&self.shard, &page.shard) {
            (Some(_), None) => Err(ListError::NotSharded),
            (asked, found) if asked == found => Ok(()),
            (asked, found) => Err(not_a_list(&format!(
                "its shardInfo is `{}`, asked was `{}`",
                found.as_deref().unwrap_or_default(),
                asked.as_deref().unwrap_or_default()
            ))
            .into()),
        }
    }

    /// The revision that the server is at: what a consistent list of one object says.
    async fn current_revision(&mut self) -> Result<i64, ListError> {
        let mut body = self.get("limit=1".to_owned()).await?;
        let mut walker = self.walker();
        while let Some(bytes) = body.next().await? {
            walker.feed(&bytes, None)?;
        }
        let page = walker.next_page(false)?;
        self.check_shard(&page)?;
        Ok(page.revision)
    }

    /// Lists the state of exactly this revision, showing its objects to `sink`. Answers the bytes received.
    async fn list_exactly(
        &mut self,
        revision: i64,
        sink: &mut impl Sink,
    ) -> Result<u64, ListError> {
        let mut walker = ProtobufWalker::new(self.restore());
        let mut body = self.get(exactly(revision)).await?;
        while let Some(bytes) = body.next().await? {
            walker.feed(&bytes, Some(&mut *sink))?;
        }
        let page = walker.next_page()?;
        self.check_shard(&page)?;
        if page.revision != revision {
            let found = page.revision;
            let why = format!("it is of revision {found}, and exactly {revision} was asked for");
            return Err(not_a_list(&why).into());
        }
        Ok(body.wire_bytes())
    }

    /// Reads all pages, showing their items to `check` where there is one.
    async fn pages(
        &mut self,
        mut check: Option<&mut Check>,
        on_first_object: &mut (dyn FnMut() + Send),
    ) -> Result<Listed, ListError> {
        let mut walker = self.walker();
        let mut listed = Listed::default();
        let mut token = String::new();
        let mut before: Option<Page> = None;
        loop {
            let mut body = self.open(&token).await?;
            let mut begun = listed.chunks > 0;
            while let Some(bytes) = body.next().await? {
                walker.feed(&bytes, check.as_deref_mut())?;
                if !begun && walker.items() > 0 {
                    begun = true;
                    on_first_object();
                }
            }
            let page = walker.next_page(check.is_some())?;
            self.check_shard(&page)?;
            match &before {
                Some(before) if check.is_some() => check_next(before, &page)?,
                Some(_) => {}
                None => listed.revision = page.revision,
            }
            listed.chunks += 1;
            listed.wire_bytes += body.wire_bytes();
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

    /// Reads a watch up to the bookmark that ends its state, then leaves it.
    async fn state(
        &mut self,
        mut check: Option<&mut Check>,
        on_first_object: &mut (dyn FnMut() + Send),
    ) -> Result<Listed, ListError> {
        let mut walker = self.events();
        let mut body = self.open("").await?;
        let mut begun = false;
        while walker.end.is_none() {
            let Some(bytes) = body.next().await? else {
                return Err(not_a_list("the watch ended before its state did").into());
            };
            walker.feed(&bytes, check.as_deref_mut())?;
            if !begun && walker.items > 0 {
                begun = true;
                on_first_object();
            }
        }
        let listed = Listed {
            revision: walker.end.unwrap_or_default(),
            chunks: walker.items,
            wire_bytes: body.wire_bytes(),
        };
        drop(body);
        self.connection.cancel();
        Ok(listed)
    }
}

/// The query of a list of the state at one revision.
fn exactly(revision: i64) -> String {
    format!("resourceVersion={revision}&resourceVersionMatch=Exact")
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
    fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// A connection whose list was cancelled was closed with it, and a new one is no part of the next list's time.
    async fn before(&mut self) -> Result<(), ListError> {
        Ok(self.connection.open().await?)
    }

    async fn revision(&mut self) -> Result<i64, ListError> {
        self.current_revision().await
    }

    fn pin(&mut self, revision: i64) {
        self.query = exactly(revision);
    }

    async fn list(
        &mut self,
        check: &mut Check,
        on_first_object: &mut (dyn FnMut() + Send),
    ) -> Result<Listed, ListError> {
        match self.strategy {
            Strategy::WatchList => self.state(Some(check), on_first_object).await,
            _ => self.pages(Some(check), on_first_object).await,
        }
    }

    /// Pages must be walked for the next token, a watch for its bookmark; whole lists are only read.
    async fn drain(&mut self) -> Result<(), ListError> {
        match self.strategy {
            Strategy::WatchList => {
                self.state(None, &mut || {}).await?;
            }
            Strategy::Paged(_) => {
                self.pages(None, &mut || {}).await?;
            }
            _ => {
                self.open("").await?.drain().await?;
            }
        }
        Ok(())
    }

    async fn opaque(&mut self, bytes: u64) -> Result<(), ListError> {
        self.opaque_body(bytes).await?;
        Ok(())
    }

    async fn first_object(&mut self) -> Result<(), ListError> {
        let (mut walker, mut events) = (self.walker(), self.events());
        let is_watch = self.strategy == Strategy::WatchList;
        let mut body = self.open("").await?;
        while let Some(bytes) = body.next().await? {
            if is_watch {
                events.feed(&bytes, None)?;
            } else {
                walker.feed(&bytes, None)?;
            }
            if walker.items() > 0 || events.items > 0 || events.end.is_some() {
                break;
            }
        }
        drop(body);
        self.connection.cancel();
        Ok(())
    }
}

impl From<KubeError> for ListError {
    fn from(error: KubeError) -> Self {
        match error {
            KubeError::CutOff { bytes, reason } => Self::CutOff { bytes, reason },
            other => Self::Http(other.to_string()),
        }
    }
}

fn not_a_list(why: &str) -> Wrong {
    Wrong::NotAList(why.to_owned())
}

/// A continue token or a selector as part of a query.
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
