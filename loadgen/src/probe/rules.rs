//! Every rule that an etcd is probed for: what the contract says, and what is sent to check it.
//!
//! The contract is etcd's API as kube-apiserver uses it: KEP-4743's reads and optimistic writes,
//! and what lists and watches rely on besides.

use super::rule::rules;

rules! {
    VERSION = "version", Reads,
        "a semantic version: apiservers decide by it whether watch progress may be asked for",
        "Maintenance.Status";
    HEADER = "header", Reads,
        "every response has a header with cluster, member, revision and term",
        "Range of one key that does not exist";
    ERROR_EMPTY_KEY = "error-empty-key", Reads,
        "errors have etcd's texts, which clients match",
        "Range without a key";
    ERROR_FUTURE = "error-future-revision", Reads,
        "a revision that is not yet there is refused with etcd's text",
        "Range at revision 2^63 - 1";
    COUNT_ONLY = "count-only", Reads,
        "count_only responds with a count and no keys",
        "Range of everything, count_only";
    LIMIT = "limit", Reads,
        "a limited Range has so many keys, says that there are more, and counts all of them",
        "Range of everything, limit 5";
    KEY_ORDER = "key-order", Reads,
        "keys come in ascending order of their bytes",
        "Range of everything, limit 20";
    KEYS_ONLY = "keys-only", Reads,
        "keys_only responds with the same keys without values",
        "Range of everything, limit 5, keys_only";
    PAGES = "pages", Reads,
        "a page that continues another counts what is left from its own start",
        "Range from behind the last key of the first page, limit 5, at its revision";
    RANGE_STREAM = "range-stream", Reads,
        "RangeStream (KEP-5966) sends what Range responds at that revision",
        "RangeStream and Range of everything, limit 20, at one revision";
    RANGE_STREAM_LAYOUT = "range-stream-layout", Reads,
        "every message but the last holds keys and nothing else; header, count and more are in the last",
        "RangeStream of everything, limit 20";
    RANGE_STREAM_SORT = "range-stream-sort", Reads,
        "RangeStream refuses sort orders with etcd's text, so that clients fall back",
        "RangeStream of one key, sort_order DESCEND";
    WATCH_PROGRESS = "watch-progress", Reads,
        "a watch that is in sync gets progress on request",
        "Watch of one key that does not exist, WatchProgressRequest each 100 ms";
    TXN_CREATE = "txn-create", Writes,
        "a put where mod_revision is 0 creates the key: version 1, create_revision = mod_revision = the header's",
        "Txn [mod_revision(a) = 0] put a; Range a";
    TXN_CONFLICT = "txn-conflict", Writes,
        "a compare that fails writes nothing",
        "Txn [mod_revision(a) = 0] put a, of a key that exists; Range a";
    GET_ON_FAILURE = "get-on-failure", Writes,
        "the failure branch responds with the key as it stands (KEP-4743 GetOnFailure)",
        "Txn [mod_revision(a) = 0] put a, else Range a";
    TXN_UPDATE = "txn-update", Writes,
        "a put at the expected revision raises version by one and keeps create_revision",
        "Txn [mod_revision(a) = its own] put a; Range a";
    TXN_STALE = "txn-stale", Writes,
        "a put at an older revision is a conflict",
        "Txn [mod_revision(a) = the one before] put a, else Range a";
    PAST_STATE = "past-state", Writes,
        "a Range at an older revision has the value of that time",
        "Range a, at the revision that created it";
    PUT_PREV_KV = "put-prev-kv", Writes,
        "prev_kv responds with the key as it was",
        "Put p twice, the second with prev_kv";
    TXN_ONE_REVISION = "txn-one-revision", Writes,
        "all writes of a Txn have one revision",
        "Txn put b, put c; Range b and c";
    TXN_DUPLICATE = "txn-duplicate-key", Writes,
        "a Txn that writes a key twice is refused with etcd's text",
        "Txn put e, put e";
    EXACT_COUNT = "exact-count", Writes,
        "count is exact",
        "Range of the keys that were written, count_only, and with limit 1";
    SORT = "sort", Writes,
        "a Range may be sorted by another field than the key, and descending",
        "Range of b and c, sort_order DESCEND";
    TXN_DELETE = "txn-delete", Writes,
        "a delete at the expected revision deletes, and is a revision of its own",
        "Txn [mod_revision(a) = its own] delete a; Range a";
    LEASE_UNKNOWN = "lease-unknown", Writes,
        "a put with a lease that does not exist is refused with etcd's text",
        "Put f with lease 1";
    LEASE_ATTACH = "lease-attach", Writes,
        "a put with a lease binds the key to it",
        "LeaseGrant of 60 s; Put d with it; Range d";
    LEASE_REVOKE = "lease-revoke", Writes,
        "a lease that ends takes its keys with it",
        "LeaseRevoke; Range d";
    WATCH_ORDER = "watch-order", Writes,
        "a watch from an older revision delivers every event since, once, in the order of revisions",
        "Watch from the revision of the first write";
    WATCH_ONE_REVISION = "watch-one-revision", Writes,
        "all events of one revision come together",
        "the same, of the Txn that wrote b and c";
    WATCH_DELETE = "watch-delete", Writes,
        "deletes, also those by a lease, are DELETE events with key and mod_revision",
        "the same, of a and d";
    WATCH_PREV_KV = "watch-prev-kv", Writes,
        "with prev_kv an update and a delete have the key as it was",
        "the same, of a";
    WATCH_RESUME = "watch-resume", Writes,
        "a watch begins with the first event at its start revision, and with none before",
        "Watch from the revision of the update of a";
    COMPACTED_RANGE = "compacted-range", OwnServer,
        "a Range at a compacted revision is refused with etcd's text",
        "Compact at the latest revision; Range at the one before";
    COMPACTED_WATCH = "compacted-watch", OwnServer,
        "a watch from a compacted revision is cancelled with the compacted revision",
        "Watch from the revision of the first write";
}
