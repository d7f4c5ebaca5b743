//! Violations of the Kubernetes API, one for each rule.

use http::{HeaderValue, Method};
use kube_api::continue_token::ContinueToken;
use serde_json::{Value, json};

use crate::probe_kube::kube_request::Asked;
use crate::support::probed::lies;

lies! { KubeLie:
    /// The version is not a semantic version.
    Development breaks "version";
    /// The kind of lists is not one of a list.
    OddKind breaks "list-shape";
    /// Two neighbouring items are swapped.
    Swaps breaks "list-order";
    /// A list is older than an earlier list.
    GoesBack breaks "list-consistent";
    /// A cached list has a future resourceVersion.
    FutureCache breaks "list-cached";
    /// A cached list with a limit is cut, and has no token.
    CutsCached breaks "list-cached-limit";
    /// A list with NotOlderThan is older.
    Older breaks "list-not-older";
    /// The limit is ignored with NotOlderThan.
    NotOlderUnlimited breaks "list-not-older-limit";
    /// A list is older than the requested resourceVersion.
    OlderVersion breaks "list-version";
    /// A list with a resourceVersion and a limit has a later resourceVersion.
    LaterPage breaks "list-version-limit";
    /// A list with Exact has a later resourceVersion.
    Inexact breaks "list-exact";
    /// The limit is ignored with Exact.
    ExactUnlimited breaks "list-exact-limit";
    /// The limit is ignored.
    Unlimited breaks "limit";
    /// The remaining item count is off by one.
    OffByOne breaks "remaining";
    /// A list with a selector has a remaining item count.
    CountsSelected breaks "remaining-selector";
    /// A later page lacks its first item.
    PageDrops breaks "pages";
    /// A later page has no remaining item count.
    PageUncounted breaks "pages-remaining";
    /// A later page has the limit of the first page.
    PageLimit breaks "pages-limit";
    /// A later page with resourceVersion 0 has another resourceVersion.
    CachedPage breaks "pages-cached";
    /// An empty list has null items.
    NullItems breaks "select-none";
    /// A list with a field selector for a name is empty.
    NoNames breaks "select-name";
    /// A field selector with `!=` selects everything.
    AnyName breaks "select-not-name";
    /// A single object has no kind.
    NoKind breaks "get";
    /// A cached object has no resourceVersion.
    NoVersion breaks "get-cached";
    /// The error for a missing object has no details.
    Unnamed breaks "error-not-found";
    /// resourceVersionMatch without resourceVersion fails with 500.
    FailsMatch breaks "error-match-alone";
    /// An unknown resourceVersionMatch fails with 500.
    FailsUnknownMatch breaks "error-match-unknown";
    /// Exact with resourceVersion 0 fails with 500.
    FailsExactZero breaks "error-exact-zero";
    /// Exact with a token fails with 500.
    FailsMatchContinue breaks "error-match-continue";
    /// A resourceVersion with a token fails with 500.
    FailsVersionContinue breaks "error-version-continue";
    /// A list ignores sendInitialEvents.
    IgnoresInitialEvents breaks "error-initial-events";
    /// A forged token is ignored.
    TakesToken breaks "error-token";
    /// An invalid limit is ignored.
    TakesLimit breaks "error-limit";
    /// An invalid resourceVersion is ignored.
    TakesVersion breaks "error-version";
    /// An invalid label selector selects everything.
    TakesLabels breaks "error-labels";
    /// A selector for an unknown field selects everything.
    TakesFields breaks "error-fields";
    /// A future resourceVersion is served.
    ServesFuture breaks "error-future";
    /// An unknown media type gets JSON.
    AnyAccept breaks "error-accept";
    /// A request for protobuf gets JSON.
    NoProtobuf breaks "protobuf";
    /// A table lacks a row.
    TableDrops breaks "table";
    /// Partial metadata contain other fields.
    MetadataAndMore breaks "partial-metadata";
    /// A shard lacks an object.
    ShardDrops breaks "shards";
    /// The shard of one half has the objects of the other.
    OtherShard breaks "shard-members";
    /// A page of a shard has a remaining item count.
    ShardCounts breaks "shard-remaining";
    /// The initial events have no bookmark at their end.
    NoBookmark breaks "watch-list";
    /// The bookmark's object has another kind.
    BookmarkKind breaks "watch-bookmark";
    /// Bookmarks are sent without being requested.
    AnyBookmark breaks "watch-no-bookmark";
    /// A watch from resourceVersion 0 sends no state.
    CachedNothing breaks "watch-cached";
    /// A watch from a resourceVersion begins with the whole state.
    WatchesAll breaks "watch-version";
    /// A watch ignores its timeout.
    Endless breaks "watch-timeout";
    /// Initial events are sent although they are disabled.
    AnyInitial breaks "watch-no-initial";
    /// A watch of one object sends the events of all.
    WatchesAllNames breaks "watch-name";
    /// A watch in protobuf is sent in JSON.
    NoProtobufWatch breaks "watch-protobuf";
    /// A watch ignores resourceVersionMatch.
    WatchIgnoresMatch breaks "error-watch-match";
    /// A watch treats Exact as NotOlderThan.
    WatchTakesExact breaks "error-watch-exact";
    /// A created object has no UID.
    NoUid breaks "create";
    /// An existing object is created again.
    CreatesTwice breaks "create-twice";
    /// Lists lack an object that was just created.
    HidesNew breaks "read-your-write";
    /// An update keeps its resourceVersion.
    UpdateKeeps breaks "update";
    /// An update ignores the resourceVersion.
    TakesStale breaks "update-stale";
    /// An update without changes changes the resourceVersion.
    UpdatesSame breaks "update-same";
    /// A merge patch replaces fields that it does not have.
    PatchReplaces breaks "patch-merge";
    /// A patch ignores the resourceVersion.
    PatchesStale breaks "patch-stale";
    /// The test operations of a JSON patch are ignored.
    PatchesUntested breaks "patch-test";
    /// A dry run changes objects.
    WetRun breaks "dry-run";
    /// A list at a past resourceVersion has the current state.
    NoPast breaks "past-state";
    /// A later page has objects that were created after the first page.
    PageMoves breaks "pages-snapshot";
    /// A label selects everything.
    AnyLabel breaks "select-labels";
    /// A DELETE ignores the UID of its preconditions.
    AnyUid breaks "delete-uid";
    /// A DELETE ignores the resourceVersion of its preconditions.
    DeletesStale breaks "delete-stale";
    /// A DELETE is acknowledged but deletes nothing.
    KeepsDeleted breaks "delete";
    /// A DELETE of a collection ignores the label selector.
    SweepsAll breaks "delete-selected";
    /// Changes are sent as ADDED.
    TellsAdded breaks "watch-order";
    /// A DELETED event lacks the object's last state.
    DeletedEmpty breaks "watch-deleted";
    /// A resumed watch sends an event again.
    TellsAgain breaks "watch-resume";
    /// An object that a selector no longer selects is sent with its new state.
    LeavesAsItIs breaks "watch-leaves";
    /// An object that a selector newly selects is sent as MODIFIED.
    EntersChanged breaks "watch-enters";
    /// A compacted resourceVersion fails with 500.
    FailsGone breaks "gone";
    /// The error for a compacted token has no new token.
    NoNewToken breaks "gone-token";
    /// A watch from a compacted resourceVersion fails with 500.
    FailsGoneWatch breaks "gone-watch";
}

/// The two halves of the range of hashes, as written in selectors.
const LOWER: &str = "'0x0000000000000000', '0x8000000000000000'";
const UPPER: &str = "'0x8000000000000000', '0x10000000000000000'";

impl KubeLie {
    /// Returns the media type that is requested instead, if this violation changes it.
    pub(crate) fn accepts(self, accept: Option<&HeaderValue>) -> Option<&'static str> {
        let accept = accept.and_then(|accept| accept.to_str().ok())?;
        let is_lie = match self {
            Self::AnyAccept => accept == "application/nothing",
            Self::NoProtobuf => accept == "application/vnd.kubernetes.protobuf",
            Self::NoProtobufWatch => accept.ends_with("stream=watch"),
            _ => false,
        };
        is_lie.then_some("application/json")
    }

    /// Changes a request before it is forwarded.
    pub(crate) fn request(self, asked: &mut Asked) {
        let metadata = |asked: &mut Asked, field: &str| {
            if let Some(metadata) = asked
                .json
                .get_mut("metadata")
                .and_then(Value::as_object_mut)
            {
                metadata.remove(field);
            }
        };
        let precondition = |asked: &mut Asked, field: &str| {
            if let Some(conditions) = asked
                .json
                .get_mut("preconditions")
                .and_then(Value::as_object_mut)
            {
                conditions.remove(field);
            }
        };
        let is_of_objects = asked.path.contains("/configmaps/");
        match self {
            Self::NotOlderUnlimited if asked.is_not_older() => asked.remove("limit"),
            Self::ExactUnlimited if asked.is_exact() => asked.remove("limit"),
            Self::Unlimited if asked.has_only(&["limit"]) => asked.remove("limit"),
            Self::PageLimit if asked.is("limit", "1") && asked.has("continue") => {
                asked.set("limit", "2");
            }
            Self::AnyName if asked.get("fieldSelector").is_some_and(|s| s.contains("!=")) => {
                asked.remove("fieldSelector");
            }
            Self::IgnoresInitialEvents if asked.is_list() => asked.remove("sendInitialEvents"),
            Self::TakesToken if asked.is("continue", "bm8gdG9rZW4") => asked.remove("continue"),
            Self::TakesLimit if asked.is("limit", "many") => asked.remove("limit"),
            Self::TakesVersion if asked.is("resourceVersion", "new") => {
                asked.remove("resourceVersion");
            }
            Self::TakesLabels if asked.is("labelSelector", "a in") => asked.remove("labelSelector"),
            Self::TakesFields if asked.is("fieldSelector", "spec.none=any") => {
                asked.remove("fieldSelector");
            }
            Self::ServesFuture if asked.is_not_older() && asked.is("limit", "1") => {
                asked.remove("resourceVersion");
                asked.remove("resourceVersionMatch");
            }
            Self::OtherShard => {
                let selector = asked.get("shardSelector").map(str::to_owned);
                if let Some(selector) = selector {
                    let other = match selector.contains(LOWER) {
                        true => selector.replace(LOWER, UPPER),
                        false => selector.replace(UPPER, LOWER),
                    };
                    asked.set("shardSelector", &other);
                }
            }
            Self::AnyBookmark if asked.is("sendInitialEvents", "true") => {
                asked.set("allowWatchBookmarks", "true");
            }
            Self::WatchesAll
                if asked.is_watch()
                    && asked.has("timeoutSeconds")
                    && asked.has_only(&["watch", "resourceVersion", "timeoutSeconds"]) =>
            {
                asked.set("resourceVersion", "0");
            }
            Self::Endless => asked.remove("timeoutSeconds"),
            Self::AnyInitial if asked.is("sendInitialEvents", "false") => {
                asked.set("sendInitialEvents", "true");
            }
            Self::WatchesAllNames if asked.is_watch() => asked.remove("fieldSelector"),
            Self::WatchIgnoresMatch if asked.is_watch() && !asked.has("sendInitialEvents") => {
                asked.remove("resourceVersionMatch");
            }
            Self::WatchTakesExact if asked.is_watch() && asked.is_exact() => {
                asked.set("resourceVersionMatch", "NotOlderThan");
            }
            Self::TakesStale if asked.method == Method::PUT && is_of_objects => {
                metadata(asked, "resourceVersion");
            }
            Self::PatchesStale if asked.method == Method::PATCH => {
                metadata(asked, "resourceVersion");
            }
            Self::PatchesUntested if asked.method == Method::PATCH => {
                if let Some(operations) = asked.json.as_array_mut() {
                    operations.retain(|operation| operation["op"] != "test");
                }
            }
            Self::WetRun => asked.remove("dryRun"),
            Self::NoPast if asked.is_exact() && asked.has("fieldSelector") => {
                asked.remove("resourceVersion");
                asked.remove("resourceVersionMatch");
            }
            Self::AnyLabel if asked.is("labelSelector", "parity=even") => {
                asked.remove("labelSelector");
            }
            Self::AnyUid if is_of_objects => precondition(asked, "uid"),
            Self::DeletesStale if is_of_objects => precondition(asked, "resourceVersion"),
            Self::SweepsAll if asked.method == Method::DELETE => asked.remove("labelSelector"),
            Self::TellsAgain
                if asked.is_watch() && asked.has_only(&["watch", "resourceVersion"]) =>
            {
                let version = asked
                    .get("resourceVersion")
                    .and_then(|v| v.parse::<u64>().ok());
                let before = version.unwrap_or(2).saturating_sub(1).max(1);
                asked.set("resourceVersion", &before.to_string());
            }
            _ => {}
        }
    }

    /// Returns the response to a request that is not forwarded, if this violation has one.
    pub(crate) fn instead(self, asked: &Asked) -> Option<(u16, Value)> {
        let failure = || Some((500, status(500, "InternalError")));
        let versioned = asked.has("resourceVersion");
        let is_first = asked.is("resourceVersion", "1");
        match self {
            Self::FailsMatch if asked.has_only(&["resourceVersionMatch"]) => failure(),
            Self::FailsUnknownMatch if asked.is("resourceVersionMatch", "Newest") => failure(),
            Self::FailsExactZero if asked.is_exact() && asked.is("resourceVersion", "0") => {
                failure()
            }
            Self::FailsMatchContinue if asked.is_exact() && asked.has("continue") => failure(),
            Self::FailsVersionContinue
                if asked.has("continue") && versioned && !asked.has("resourceVersionMatch") =>
            {
                failure()
            }
            Self::KeepsDeleted
                if asked.method == Method::DELETE
                    && asked.path.ends_with("/configmaps/a")
                    && asked.json["preconditions"] == json!({}) =>
            {
                Some((
                    200,
                    json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
                ))
            }
            Self::FailsGone if asked.is_list() && is_first && asked.is_exact() => failure(),
            Self::NoNewToken if is_compacted(asked) => Some((410, status(410, "Expired"))),
            Self::FailsGoneWatch if asked.is_watch() && is_first => {
                let object = status(500, "InternalError");
                Some((200, json!({"type": "ERROR", "object": object})))
            }
            _ => None,
        }
    }

    /// Changes a response in JSON; returns its code.
    pub(crate) fn response(self, asked: &Asked, code: u16, json: &mut Value) -> u16 {
        let by = |json: &mut Value, by: i64| {
            let version = &mut json["metadata"]["resourceVersion"];
            let number = version.as_str().and_then(|v| v.parse::<i64>().ok());
            *version = (number.unwrap_or(0) + by).to_string().into();
        };
        let n = asked
            .get("resourceVersion")
            .and_then(|v| v.parse::<i64>().ok());
        let n = n.unwrap_or(0);
        let before_n = |json: &mut Value| {
            json["metadata"]["resourceVersion"] = (n - 1).to_string().into();
        };
        let plain = asked.is_list() && asked.query.is_empty();
        let is_success = code == 200;
        match self {
            Self::Development if asked.path == "/version" => json["gitVersion"] = "devel".into(),
            Self::OddKind if asked.is_list() => json["kind"] = "Things".into(),
            Self::Swaps if plain => swap(json),
            Self::GoesBack if plain && asked.repeated > 0 => by(json, -1_000),
            Self::FutureCache if asked.asks(&[("resourceVersion", "0")]) => by(json, 1_000),
            Self::CutsCached if asked.asks(&[("resourceVersion", "0"), ("limit", "2")]) => {
                items(json, |items| items.truncate(2));
                remove(&mut json["metadata"], "continue");
            }
            Self::Older if asked.is_not_older() && !asked.has("limit") => before_n(json),
            Self::OlderVersion
                if asked.is_list() && asked.has_only(&["resourceVersion"]) && n > 0 =>
            {
                before_n(json);
            }
            Self::LaterPage if asked.has_only(&["resourceVersion", "limit"]) && n > 0 => {
                by(json, 1)
            }
            Self::Inexact if asked.is_exact() && is_success => by(json, 1),
            Self::OffByOne if asked.asks(&[("limit", "2")]) => {
                let remaining = &mut json["metadata"]["remainingItemCount"];
                *remaining = (remaining.as_u64().unwrap_or(0) + 1).into();
            }
            Self::CountsSelected if asked.has_only(&["limit", "labelSelector"]) => {
                json["metadata"]["remainingItemCount"] = 5.into();
            }
            Self::PageDrops if asked.is_list() && asked.has("continue") => {
                items(json, |items| drop(items.drain(..1.min(items.len()))));
            }
            Self::PageUncounted if asked.is_list() && asked.has("continue") => {
                remove(&mut json["metadata"], "remainingItemCount");
            }
            Self::CachedPage if asked.has("continue") && asked.is("resourceVersion", "0") => {
                by(json, 1);
            }
            Self::NullItems if json["items"].as_array().is_some_and(Vec::is_empty) => {
                json["items"] = Value::Null;
            }
            Self::NoNames if asked.is_list() && asked.has("fieldSelector") => {
                items(json, Vec::clear);
            }
            Self::NoKind if asked.is_object() && asked.query.is_empty() && is_success => {
                remove(json, "kind");
            }
            Self::NoVersion if asked.is_object() && asked.has("resourceVersion") => {
                remove(&mut json["metadata"], "resourceVersion");
            }
            Self::Unnamed if code == 404 => remove(json, "details"),
            Self::TableDrops if json["kind"] == "Table" => {
                json["rows"].as_array_mut().map(Vec::pop);
            }
            Self::MetadataAndMore if json["kind"] == "PartialObjectMetadataList" => {
                json["items"][0]["data"] = json!({});
            }
            Self::ShardDrops if asked.has("shardSelector") => {
                items(json, |items| drop(items.pop()))
            }
            Self::OtherShard if asked.has("shardSelector") => {
                json["metadata"]["shardInfo"]["selector"] =
                    asked.get("shardSelector").unwrap_or_default().into();
            }
            Self::ShardCounts if asked.has_only(&["limit", "shardSelector"]) => {
                json["metadata"]["remainingItemCount"] = 3.into();
            }
            Self::NoUid if asked.method == Method::POST => remove(&mut json["metadata"], "uid"),
            Self::CreatesTwice if json["reason"] == "AlreadyExists" => return 201,
            Self::HidesNew if plain => {
                items(json, |items| {
                    items.retain(|item| item["metadata"]["name"] != "a")
                });
            }
            Self::UpdateKeeps if asked.method == Method::PUT && is_success => {
                let asked = asked.json["metadata"]["resourceVersion"].clone();
                json["metadata"]["resourceVersion"] = asked;
            }
            Self::UpdatesSame if asked.json["metadata"]["uid"].is_string() && is_success => {
                by(json, 1);
            }
            Self::PatchReplaces if asked.method == Method::PATCH => {
                remove(&mut json["data"], "value")
            }
            Self::PageMoves if asked.is("limit", "100") && is_success => {
                let mut new = json["items"][0].clone();
                new["metadata"]["name"] = "z".into();
                items(json, |items| items.push(new));
            }
            _ => {}
        }
        code
    }

    /// Changes an event in JSON; returns whether it is sent.
    pub(crate) fn event(self, asked: &Asked, event: &mut Value) -> bool {
        let kind = event["type"].as_str().unwrap_or_default().to_owned();
        match (self, kind.as_str()) {
            (Self::NoBookmark, "BOOKMARK") => return false,
            (Self::BookmarkKind, "BOOKMARK") => event["object"]["kind"] = "Thing".into(),
            (Self::CachedNothing, "ADDED") if asked.is("resourceVersion", "0") => return false,
            (Self::TellsAdded, "MODIFIED") => event["type"] = "ADDED".into(),
            (Self::DeletedEmpty, "DELETED") => event["object"]["data"] = json!({}),
            (Self::LeavesAsItIs, "DELETED") if asked.is("labelSelector", "stage=one") => {
                event["object"]["data"]["value"] = "second".into();
            }
            (Self::EntersChanged, "ADDED") if asked.is("labelSelector", "stage=two") => {
                event["type"] = "MODIFIED".into();
            }
            _ => {}
        }
        true
    }
}

/// Returns a Status of a failure.
fn status(code: u16, reason: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "so it is", "reason": reason, "code": code,
    })
}

/// Returns whether the request's token has resourceVersion 1, which is compacted.
fn is_compacted(asked: &Asked) -> bool {
    let token = asked.get("continue").map(ContinueToken::decode);
    matches!(token, Some(Ok(token)) if token.resource_version == 1)
}

fn remove(object: &mut Value, field: &str) {
    if let Some(object) = object.as_object_mut() {
        object.remove(field);
    }
}

fn items(list: &mut Value, change: impl FnOnce(&mut Vec<Value>)) {
    if let Some(items) = list["items"].as_array_mut() {
        change(items);
    }
}

fn swap(list: &mut Value) {
    items(list, |items| {
        if items.len() > 1 {
            items.swap(0, 1);
        }
    });
}
