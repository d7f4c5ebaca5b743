//! What may be wrong with a Kubernetes API, each lie for one rule.

use http::{HeaderValue, Method};
use kube_api::continue_token::ContinueToken;
use serde_json::{Value, json};

use crate::kube_request::Asked;
use crate::probed::lies;

lies! { KubeLie:
    /// Its version is no semantic one.
    Development breaks "version";
    /// Lists are of no list's kind.
    OddKind breaks "list-shape";
    /// Two neighbours change places.
    Swaps breaks "list-order";
    /// A list is older than one before it.
    GoesBack breaks "list-consistent";
    /// What is cached comes from the future.
    FutureCache breaks "list-cached";
    /// A cached list is cut, and has no token.
    CutsCached breaks "list-cached-limit";
    /// NotOlderThan is older.
    Older breaks "list-not-older";
    /// NotOlderThan has no limit.
    NotOlderUnlimited breaks "list-not-older-limit";
    /// A list is older than the resourceVersion that it is asked for.
    OlderVersion breaks "list-version";
    /// A resourceVersion with a limit is a later one.
    LaterPage breaks "list-version-limit";
    /// Exact is a later one.
    Inexact breaks "list-exact";
    /// Exact has no limit.
    ExactUnlimited breaks "list-exact-limit";
    /// A limit is not kept.
    Unlimited breaks "limit";
    /// A count is off by one.
    OffByOne breaks "remaining";
    /// What nobody has counted is told.
    CountsSelected breaks "remaining-selector";
    /// A later page lacks its first item.
    PageDrops breaks "pages";
    /// A later page does not count.
    PageUncounted breaks "pages-remaining";
    /// A later page has the limit of the first.
    PageLimit breaks "pages-limit";
    /// With resourceVersion 0 a later page is of another one.
    CachedPage breaks "pages-cached";
    /// No items are null.
    NullItems breaks "select-none";
    /// Nothing has a name.
    NoNames breaks "select-name";
    /// Not that name is any name.
    AnyName breaks "select-not-name";
    /// An object by itself does not say its kind.
    NoKind breaks "get";
    /// A cached object has no resourceVersion.
    NoVersion breaks "get-cached";
    /// What is not found is not named.
    Unnamed breaks "error-not-found";
    /// A match by itself is a failure of the server.
    FailsMatch breaks "error-match-alone";
    /// So is an unknown match.
    FailsUnknownMatch breaks "error-match-unknown";
    /// So is Exact of 0.
    FailsExactZero breaks "error-exact-zero";
    /// So is a match with a token.
    FailsMatchContinue breaks "error-match-continue";
    /// So is a resourceVersion with a token.
    FailsVersionContinue breaks "error-version-continue";
    /// A list ignores sendInitialEvents.
    IgnoresInitialEvents breaks "error-initial-events";
    /// A forged token begins anew.
    TakesToken breaks "error-token";
    /// Any limit is none.
    TakesLimit breaks "error-limit";
    /// Any resourceVersion is none.
    TakesVersion breaks "error-version";
    /// A selector that cannot be read selects everything.
    TakesLabels breaks "error-labels";
    /// So does a field that is not there.
    TakesFields breaks "error-fields";
    /// The future is served.
    ServesFuture breaks "error-future";
    /// Whatever is accepted gets JSON.
    AnyAccept breaks "error-accept";
    /// Protobuf is JSON.
    NoProtobuf breaks "protobuf";
    /// A table lacks a row.
    TableDrops breaks "table";
    /// Metadata come with more.
    MetadataAndMore breaks "partial-metadata";
    /// A shard lacks an object.
    ShardDrops breaks "shards";
    /// One half is the other.
    OtherShard breaks "shard-members";
    /// A shard's page counts.
    ShardCounts breaks "shard-remaining";
    /// Initial events do not end.
    NoBookmark breaks "watch-list";
    /// The bookmark is of another kind.
    BookmarkKind breaks "watch-bookmark";
    /// Bookmarks come to everybody.
    AnyBookmark breaks "watch-no-bookmark";
    /// A watch from 0 begins with nothing.
    CachedNothing breaks "watch-cached";
    /// A watch begins with everything.
    WatchesAll breaks "watch-version";
    /// A watch has no end.
    Endless breaks "watch-timeout";
    /// Initial events come unasked.
    AnyInitial breaks "watch-no-initial";
    /// A watch of one object is of all.
    WatchesAllNames breaks "watch-name";
    /// A watch in protobuf is one in JSON.
    NoProtobufWatch breaks "watch-protobuf";
    /// A watch ignores a match.
    WatchIgnoresMatch breaks "error-watch-match";
    /// A watch takes Exact as NotOlderThan.
    WatchTakesExact breaks "error-watch-exact";
    /// What was created has no uid.
    NoUid breaks "create";
    /// What exists is created again.
    CreatesTwice breaks "create-twice";
    /// Lists lack what was just created.
    HidesNew breaks "read-your-write";
    /// An update keeps its resourceVersion.
    UpdateKeeps breaks "update";
    /// An update is done at any resourceVersion.
    TakesStale breaks "update-stale";
    /// An update that changes nothing is one.
    UpdatesSame breaks "update-same";
    /// A patch replaces.
    PatchReplaces breaks "patch-merge";
    /// A patch is made at any resourceVersion.
    PatchesStale breaks "patch-stale";
    /// Tests of a patch are passed over.
    PatchesUntested breaks "patch-test";
    /// A dry run is none.
    WetRun breaks "dry-run";
    /// The past is as the present.
    NoPast breaks "past-state";
    /// A later page has what is new.
    PageMoves breaks "pages-snapshot";
    /// A label selects everything.
    AnyLabel breaks "select-labels";
    /// A uid is no condition.
    AnyUid breaks "delete-uid";
    /// A resourceVersion is no condition of a DELETE.
    DeletesStale breaks "delete-stale";
    /// A DELETE is acknowledged and not done.
    KeepsDeleted breaks "delete";
    /// A DELETE of what is selected is one of everything.
    SweepsAll breaks "delete-selected";
    /// Changes are told as creations.
    TellsAdded breaks "watch-order";
    /// What was deleted is told without its last state.
    DeletedEmpty breaks "watch-deleted";
    /// A watch tells what is known again.
    TellsAgain breaks "watch-resume";
    /// What a selector leaves is told as it is.
    LeavesAsItIs breaks "watch-leaves";
    /// What a selector enters is told as a change.
    EntersChanged breaks "watch-enters";
    /// What was compacted is a failure of the server.
    FailsGone breaks "gone";
    /// So is a token.
    NoNewToken breaks "gone-token";
    /// So is a watch.
    FailsGoneWatch breaks "gone-watch";
}

/// The halves of all uids, as selectors have them.
const LOWER: &str = "'0x0000000000000000', '0x8000000000000000'";
const UPPER: &str = "'0x8000000000000000', '0x10000000000000000'";

impl KubeLie {
    /// Returns what is accepted instead.
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

    /// Changes a request.
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

    /// Returns what is returned without asking.
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

/// Returns a failure.
fn status(code: u16, reason: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "so it is", "reason": reason, "code": code,
    })
}

/// Returns whether a token is of resourceVersion 1.
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
