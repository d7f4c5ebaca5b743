//! Every rule that a Kubernetes API is probed for: what the contract says, and what is sent to
//! check it.
//!
//! `C` is the probed collection, `N` the resourceVersion of its first list. The contract is the API
//! concepts' table of list and watch options, and KEPs 365 (pages), 956 (bookmarks), 2340
//! (consistent reads), 3157 (watch-list), 4988 (past snapshots) and 5866 (shards).

use crate::probe::rule::rules;

rules! {
    VERSION = "version", Reads,
        "the version is a semantic one: clients decide by it what they may ask for",
        "GET /version";
    LIST_SHAPE = "list-shape", Reads,
        "a list has kind, apiVersion, a resourceVersion, and items that are not newer than it",
        "GET C";
    LIST_ORDER = "list-order", Reads,
        "items come in ascending order of namespace/name",
        "GET C";
    LIST_CONSISTENT = "list-consistent", Reads,
        "without resourceVersion a list is not older than any response before it",
        "GET C, after a list at N";
    LIST_CACHED = "list-cached", Reads,
        "resourceVersion=0 lists what the server has, which is never from the future",
        "GET C?resourceVersion=0, then GET C";
    LIST_CACHED_LIMIT = "list-cached-limit", Reads,
        "with resourceVersion=0 a limit may be ignored; the list is then whole and has no token",
        "GET C?resourceVersion=0&limit=2";
    LIST_NOT_OLDER = "list-not-older", Reads,
        "NotOlderThan lists at the resourceVersion or later",
        "GET C?resourceVersion=N&resourceVersionMatch=NotOlderThan";
    LIST_NOT_OLDER_LIMIT = "list-not-older-limit", Reads,
        "NotOlderThan keeps a limit",
        "GET C?resourceVersion=N&resourceVersionMatch=NotOlderThan&limit=2";
    LIST_VERSION = "list-version", Reads,
        "a resourceVersion without match or limit lists at it or later",
        "GET C?resourceVersion=N";
    LIST_VERSION_LIMIT = "list-version-limit", Reads,
        "a resourceVersion with a limit lists exactly there",
        "GET C?resourceVersion=N&limit=2";
    LIST_EXACT = "list-exact", Reads,
        "Exact lists what was there at the resourceVersion, and says that one",
        "GET C?resourceVersion=N&resourceVersionMatch=Exact";
    LIST_EXACT_LIMIT = "list-exact-limit", Reads,
        "Exact keeps a limit",
        "GET C?resourceVersion=N&resourceVersionMatch=Exact&limit=2";
    LIMIT = "limit", Reads,
        "a limited list has so many items, and a token for the rest",
        "GET C?limit=2";
    REMAINING = "remaining", Reads,
        "remainingItemCount counts the items behind the page",
        "GET C?limit=2, held against Exact at its resourceVersion";
    REMAINING_SELECTOR = "remaining-selector", Reads,
        "with a selector there is no remainingItemCount, since nobody has counted",
        "GET C?limit=2&labelSelector=!loadgen.test/none";
    PAGES = "pages", Reads,
        "pages are together the list at the resourceVersion of the first, each item once",
        "GET C?limit=L&continue=…, to the end, held against Exact";
    PAGES_REMAINING = "pages-remaining", Reads,
        "each page counts what is behind it, and the last has neither count nor token",
        "the same";
    PAGES_LIMIT = "pages-limit", Reads,
        "the limit may change from page to page",
        "GET C?limit=2, then GET C?limit=1&continue=…";
    PAGES_CACHED = "pages-cached", Reads,
        "with a token resourceVersion=0 means the token's own",
        "GET C?limit=2, then GET C?limit=1&continue=…&resourceVersion=0";
    SELECT_NONE = "select-none", Reads,
        "a list of nothing is a list: items is empty and not null",
        "GET C?labelSelector=loadgen.test/none=any";
    SELECT_NAME = "select-name", Reads,
        "a field selector on metadata.name lists that object",
        "GET C?fieldSelector=metadata.name=…";
    SELECT_NOT_NAME = "select-not-name", Reads,
        "and with != all others",
        "GET C?fieldSelector=metadata.name!=…, held against Exact";
    GET = "get", Reads,
        "an object by itself has kind and apiVersion, and is not older than in a list before",
        "GET C/…";
    GET_CACHED = "get-cached", Reads,
        "resourceVersion=0 gets it as the server has it",
        "GET C/…?resourceVersion=0";
    ERROR_NOT_FOUND = "error-not-found", Reads,
        "an object that does not exist is 404 NotFound with its name",
        "GET C/loadgen-test-none";
    ERROR_MATCH = "error-match-alone", Reads,
        "resourceVersionMatch without resourceVersion is 422 Invalid",
        "GET C?resourceVersionMatch=NotOlderThan";
    ERROR_MATCH_UNKNOWN = "error-match-unknown", Reads,
        "an unknown resourceVersionMatch is 422 Invalid",
        "GET C?resourceVersion=N&resourceVersionMatch=Newest";
    ERROR_EXACT_ZERO = "error-exact-zero", Reads,
        "Exact of 0 is 422 Invalid",
        "GET C?resourceVersion=0&resourceVersionMatch=Exact";
    ERROR_MATCH_CONTINUE = "error-match-continue", Reads,
        "resourceVersionMatch with a token is 422 Invalid",
        "GET C?limit=2&continue=…&resourceVersion=N&resourceVersionMatch=Exact";
    ERROR_VERSION_CONTINUE = "error-version-continue", Reads,
        "a resourceVersion with a token is 400 BadRequest",
        "GET C?limit=2&continue=…&resourceVersion=N";
    ERROR_INITIAL_EVENTS = "error-initial-events", Reads,
        "sendInitialEvents of a list is 422 Invalid",
        "GET C?sendInitialEvents=true";
    ERROR_TOKEN = "error-token", Reads,
        "a forged token is 400 BadRequest",
        "GET C?limit=2&continue=bm8gdG9rZW4";
    ERROR_LIMIT = "error-limit", Reads,
        "a limit that is no number is 400 BadRequest",
        "GET C?limit=many";
    ERROR_VERSION = "error-version", Reads,
        "a resourceVersion that is no number is 400 BadRequest",
        "GET C?resourceVersion=new";
    ERROR_LABELS = "error-labels", Reads,
        "a label selector that cannot be read is 400 BadRequest",
        "GET C?labelSelector=a in";
    ERROR_FIELDS = "error-fields", Reads,
        "a field that nothing is selected by is 400 BadRequest",
        "GET C?fieldSelector=spec.none=any";
    ERROR_FUTURE = "error-future", Reads,
        "a resourceVersion that does not come is 504 Timeout with the cause ResourceVersionTooLarge",
        "GET C?resourceVersion=N + 1,000,000,000&resourceVersionMatch=NotOlderThan&limit=1";
    ERROR_ACCEPT = "error-accept", Reads,
        "a media type that cannot be had is 406 NotAcceptable",
        "GET C?limit=1, Accept: application/nothing";
    PROTOBUF = "protobuf", Reads,
        "the same list in protobuf: an envelope with kind, resourceVersion and as many items",
        "GET C at exactly N, Accept: application/vnd.kubernetes.protobuf";
    TABLE = "table", Reads,
        "a Table has a row with its columns for each item, each with the object's metadata",
        "GET C at exactly N, Accept: application/json;as=Table;v=v1;g=meta.k8s.io";
    PARTIAL = "partial-metadata", Reads,
        "PartialObjectMetadataList has the metadata of each item and nothing else",
        "GET C at exactly N, Accept: application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    SHARDS = "shards", Reads,
        "two halves by uid are together the list, and each says its selector (KEP-5866)",
        "GET C at exactly N, shardSelector of each half";
    SHARD_MEMBERS = "shard-members", Reads,
        "an object is in the half that FNV-1a of its uid says",
        "the same";
    SHARD_REMAINING = "shard-remaining", Reads,
        "a page of a shard has no remainingItemCount",
        "GET C?limit=1, shardSelector of all of it";
    WATCH_LIST = "watch-list", Reads,
        "sendInitialEvents sends every object in order, then a bookmark that says so (KEP-3157)",
        "GET C?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    WATCH_BOOKMARK = "watch-bookmark", Reads,
        "that bookmark is of the collection's kind and not older than a list before",
        "the same";
    WATCH_NO_BOOKMARK = "watch-no-bookmark", Reads,
        "bookmarks come only to clients that allow them",
        "GET C?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1";
    WATCH_CACHED = "watch-cached", Reads,
        "a watch from 0 begins with every object as it is",
        "GET C?watch=true&resourceVersion=0&timeoutSeconds=1";
    WATCH_VERSION = "watch-version", Reads,
        "a watch from a resourceVersion sends nothing that is not newer",
        "GET C?watch=true&resourceVersion=N&timeoutSeconds=1";
    WATCH_TIMEOUT = "watch-timeout", Reads,
        "timeoutSeconds ends a watch as a response ends, without an error",
        "the same";
    WATCH_NO_INITIAL = "watch-no-initial", Reads,
        "sendInitialEvents=false sends only what comes",
        "GET C?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&timeoutSeconds=1";
    WATCH_NAME = "watch-name", Reads,
        "a watch with a field selector sends that object's events alone",
        "GET C?watch=true&resourceVersion=0&fieldSelector=metadata.name=…&timeoutSeconds=1";
    WATCH_PROTOBUF = "watch-protobuf", Reads,
        "events in protobuf: each with its length in four bytes, its object in an envelope",
        "GET C?watch=true&resourceVersion=0&timeoutSeconds=1, Accept: application/vnd.kubernetes.protobuf;stream=watch";
    ERROR_WATCH_MATCH = "error-watch-match", Reads,
        "resourceVersionMatch of a watch without sendInitialEvents is 422 Invalid",
        "GET C?watch=true&resourceVersion=N&resourceVersionMatch=NotOlderThan";
    ERROR_WATCH_EXACT = "error-watch-exact", Reads,
        "a watch has no Exact: 422 Invalid",
        "GET C?watch=true&sendInitialEvents=true&resourceVersion=N&resourceVersionMatch=Exact";
    CREATE = "create", Writes,
        "a POST gives uid, time and a resourceVersion above all before; a GET returns the same",
        "POST C a; GET C/a";
    CREATE_TWICE = "create-twice", Writes,
        "an object that exists is not created again: 409 AlreadyExists",
        "POST C a, again";
    READ_YOUR_WRITE = "read-your-write", Writes,
        "a list without resourceVersion has every write that was acknowledged before",
        "POST C a; GET C";
    UPDATE = "update", Writes,
        "a PUT at the object's resourceVersion changes it, and raises that",
        "PUT C/a";
    UPDATE_STALE = "update-stale", Writes,
        "a PUT at an older resourceVersion is 409 Conflict, and changes nothing",
        "PUT C/a, at the resourceVersion of its creation; GET C/a";
    UPDATE_SAME = "update-same", Writes,
        "a PUT that changes nothing has no resourceVersion of its own",
        "PUT C/a, as it is";
    PATCH_MERGE = "patch-merge", Writes,
        "a merge patch changes its fields and keeps the others",
        "PATCH C/a {\"data\": {\"more\": \"third\"}}";
    PATCH_STALE = "patch-stale", Writes,
        "a patch with an older resourceVersion is 409 Conflict",
        "PATCH C/a {\"metadata\": {\"resourceVersion\": …}}";
    PATCH_TEST = "patch-test", Writes,
        "a JSON patch whose test fails is 422 Invalid, and changes nothing",
        "PATCH C/a [test data.value, replace data.value]; GET C/a";
    DRY_RUN = "dry-run", Writes,
        "dryRun=All responds as if, and stores nothing",
        "POST C?dryRun=All d; GET C/d";
    PAST_STATE = "past-state", Writes,
        "Exact lists an object as it was at that resourceVersion",
        "GET C?fieldSelector=metadata.name=a&resourceVersionMatch=Exact&resourceVersion=…, of its creation";
    PAGES_SNAPSHOT = "pages-snapshot", Writes,
        "what is written between two pages is not in the later one",
        "GET C?limit=5; POST C p; GET C?continue=…";
    SELECT_LABELS = "select-labels", Writes,
        "labels are selected by equality, set, existence and their negations",
        "GET C?labelSelector=…, five of them, at one resourceVersion";
    DELETE_UID = "delete-uid", Writes,
        "a DELETE with the uid of another object is 409 Conflict, and deletes nothing",
        "DELETE C/a {preconditions: {uid}}; GET C/a";
    DELETE_STALE = "delete-stale", Writes,
        "a DELETE with an older resourceVersion is 409 Conflict, and deletes nothing",
        "DELETE C/a {preconditions: {resourceVersion}}; GET C/a";
    DELETE = "delete", Writes,
        "an object that was deleted is gone",
        "DELETE C/a; GET C/a";
    DELETE_SELECTED = "delete-selected", Writes,
        "a DELETE of the collection deletes what its selector selects, and nothing else",
        "POST C s, t; DELETE C?labelSelector=sweep=yes; GET C";
    WATCH_ORDER = "watch-order", Writes,
        "a watch sends every change since its resourceVersion once, in order, with its type",
        "GET C?watch=true&resourceVersion=N, of the changes of a";
    WATCH_DELETED = "watch-deleted", Writes,
        "DELETED has the last state, and the resourceVersion of the deletion",
        "the same";
    WATCH_RESUME = "watch-resume", Writes,
        "a watch goes on behind the resourceVersion that it is given",
        "GET C?watch=true&resourceVersion=…, of the update of a";
    WATCH_LEAVES = "watch-leaves", Writes,
        "an object that a selector selects no longer is DELETED for its watch, as it was before",
        "GET C?watch=true&labelSelector=stage=one";
    WATCH_ENTERS = "watch-enters", Writes,
        "an object that a selector begins to select is ADDED for its watch",
        "GET C?watch=true&labelSelector=stage=two";
    GONE = "gone", Reads,
        "a list at a resourceVersion that was compacted is 410 Expired",
        "GET C?resourceVersion=1&resourceVersionMatch=Exact&limit=1";
    GONE_TOKEN = "gone-token", Reads,
        "a token that was compacted is 410 Expired, with a token that goes on at the latest",
        "GET C?limit=1&continue=…, of resourceVersion 1; then with the token that came";
    GONE_WATCH = "gone-watch", Reads,
        "a watch from a resourceVersion that was forgotten sends an ERROR, 410 Expired, and ends",
        "GET C?watch=true&resourceVersion=1";
}
