//! Feature gates: mechanisms that can be switched off, so that a benchmark can compare the server
//! with and without them.

use std::str::FromStr;

/// Gates of etcd that are accepted and have no effect, because they concern its members and its
/// database. So the command line of an etcd starts this server, too.
const GATES_WITHOUT_EFFECT: [&str; 9] = [
    "StopGRPCServiceOnDefrag",
    "TxnModeWriteWithSharedBuffer",
    "InitialCorruptCheck",
    "CompactHashCheck",
    "LeaseCheckpoint",
    "LeaseCheckpointPersist",
    "SetMemberLocalAddr",
    "FastLeaseKeepAlive",
    "PriorityRequest",
];

/// The mechanisms that are on. All are by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeatureGates {
    /// Whole lists are read from etcd by RangeStream if etcd supports it (KEP-5966).
    pub etcd_range_stream: bool,
    /// Lists without `resourceVersion` are served from the cache (KEP-2340).
    pub consistent_list_from_cache: bool,
    /// Lists at an exact revision, and further pages, are served from the cache's past snapshots
    /// (KEP-4988).
    pub list_from_cache_snapshot: bool,
    /// Watches may begin with the existing objects: `sendInitialEvents` (KEP-3157).
    pub watch_list: bool,
    /// Watches that begin with the existing objects are compressed for clients that accept gzip.
    pub watch_list_compression: bool,
    /// The cache is compared with etcd every five to seven and a half minutes.
    pub detect_cache_inconsistency: bool,
    /// Selectors use an index if there is a suitable one. This is not a gate of k8s.io/apiserver,
    /// whose index on `spec.nodeName` cannot be switched off, and which has no index on labels.
    pub cache_index: bool,
    /// Lists and watches may request a shard: `shardSelector` (KEP-5866). Off by default in
    /// k8s.io/apiserver.
    pub sharded_list_and_watch: bool,
    /// Shards are read from an index, and the watches of an event are found by the hash of its
    /// object. This is not a gate of k8s.io/apiserver, which hashes every object for every list,
    /// and the object of every event for every watch.
    pub shard_index: bool,
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self {
            etcd_range_stream: true,
            consistent_list_from_cache: true,
            list_from_cache_snapshot: true,
            watch_list: true,
            watch_list_compression: true,
            detect_cache_inconsistency: true,
            cache_index: true,
            sharded_list_and_watch: true,
            shard_index: true,
        }
    }
}

impl FeatureGates {
    /// Returns all gates with their names on the command line.
    fn by_name(&mut self) -> [(&'static str, &mut bool); 9] {
        [
            ("EtcdRangeStream", &mut self.etcd_range_stream),
            (
                "ConsistentListFromCache",
                &mut self.consistent_list_from_cache,
            ),
            ("ListFromCacheSnapshot", &mut self.list_from_cache_snapshot),
            ("WatchList", &mut self.watch_list),
            ("WatchListCompression", &mut self.watch_list_compression),
            (
                "DetectCacheInconsistency",
                &mut self.detect_cache_inconsistency,
            ),
            ("CacheIndex", &mut self.cache_index),
            ("ShardedListAndWatch", &mut self.sharded_list_and_watch),
            ("ShardIndex", &mut self.shard_index),
        ]
    }
}

impl FromStr for FeatureGates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut gates = Self::default();
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("{pair:?} is not GATE=true or GATE=false"))?;
            let value = value
                .parse()
                .map_err(|_| format!("{name}: {value:?} is neither true nor false"))?;
            let mut known = gates.by_name();
            match known.iter_mut().find(|(gate, _)| *gate == name) {
                Some((_, gate)) => **gate = value,
                None if GATES_WITHOUT_EFFECT.contains(&name) => {}
                None => {
                    let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
                    return Err(format!(
                        "unknown gate {name:?} (known: {})",
                        names.join(", ")
                    ));
                }
            }
        }
        Ok(gates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_read_by_upstreams_names() {
        let gates: FeatureGates = "EtcdRangeStream=false,WatchList=false,InitialCorruptCheck=true"
            .parse()
            .expect("known");
        assert_eq!(
            gates,
            FeatureGates {
                etcd_range_stream: false,
                watch_list: false,
                ..FeatureGates::default()
            }
        );
        for (bad, reason) in [
            ("WatchLists=true", "unknown gate \"WatchLists\""),
            ("EtcdRangeStream", "is not GATE=true"),
            ("EtcdRangeStream=1", "neither true nor false"),
        ] {
            let refused = bad.parse::<FeatureGates>().expect_err(bad);
            assert!(refused.contains(reason), "{refused}");
            assert!(!refused.contains('\n'), "one line: {refused}");
        }
    }
}
