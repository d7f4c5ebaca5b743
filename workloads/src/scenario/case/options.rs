//! Checks which options each strategy takes.

use super::{CaseSpec, check_rate};
use crate::strategy::{Driver, Strategy, Tier};

impl CaseSpec {
    /// Checks that the options fit the strategy and that their values are valid.
    pub(super) fn check(&self, tier: Tier) -> Result<(), String> {
        self.check_fields(tier)?;
        self.check_values()
    }

    /// Checks that the strategy takes the given options.
    fn check_fields(&self, tier: Tier) -> Result<(), String> {
        let driver = self.strategy.driver();
        let kube = tier == Tier::Kube;
        // A Go client is a separate program, whose library determines how it connects.
        let ours = self.strategy.go_client().is_none();
        let kube_list = kube && driver == Driver::List;
        let lists = matches!(driver, Driver::List | Driver::Shards);
        let sharded = self.strategy.workers().is_some();
        let sharded_watch = driver == Driver::ShardedWatch;
        let paced = driver == Driver::Requests || sharded_watch;
        // A baseline needs a server without any other load, and a list whose bytes are known.
        let alone = self.clients.is_none()
            && self.background.is_empty()
            && self.every.is_none()
            && self.network.is_none();
        let has_bytes = driver == Driver::List
            && ours
            && !matches!(self.strategy, Strategy::NoLists | Strategy::ReadYourWrite);
        let shares_connections =
            matches!(driver, Driver::Requests | Driver::Delivery | Driver::Idle);
        let fields = [
            (
                "clients",
                self.clients.is_some(),
                !sharded && !sharded_watch,
            ),
            ("rate", self.rate.is_some(), paced),
            (
                "arrivals",
                self.arrivals.is_some(),
                driver == Driver::Requests,
            ),
            ("keys", self.keys.is_some(), driver == Driver::Requests),
            (
                "saturate",
                self.saturate.is_some(),
                driver == Driver::Requests || driver == Driver::Loads,
            ),
            ("duration", self.duration.is_some(), paced),
            (
                "connections",
                self.connections.is_some(),
                shares_connections,
            ),
            (
                "watchers",
                self.watchers.is_some(),
                driver == Driver::Delivery,
            ),
            ("repeats", self.repeats.is_some(), lists || sharded_watch),
            ("every", self.every.is_some(), driver == Driver::List),
            ("baseline", self.baseline.is_some(), has_bytes && alone),
            ("frame", self.frame.is_some(), !kube && ours),
            // Workers read an object's hash from protobuf.
            (
                "media",
                self.media.is_some(),
                kube && !sharded && !sharded_watch,
            ),
            ("shard_key", self.shard_key.is_some(), sharded),
            ("shard_plan", self.shard_plan.is_some(), sharded),
            ("writes", self.writes.is_some(), sharded_watch),
            ("reshard", self.reshard.is_some(), sharded && sharded_watch),
            ("gzip", self.gzip, kube_list),
            ("http", self.http.is_some(), kube && ours),
            ("read_per_s", self.read_per_s.is_some(), kube_list && ours),
            ("server", !self.server.is_empty(), kube),
        ];
        for (field, given, fits) in fields {
            if given && !fits {
                return Err(format!(
                    "strategy `{}` of the {tier} tier does not take `{field}`",
                    self.strategy
                ));
            }
        }
        Ok(())
    }

    fn check_values(&self) -> Result<(), String> {
        // HTTP/2 allows these values of SETTINGS_MAX_FRAME_SIZE.
        if let Some(frame) = self.frame.filter(|f| !(16_384..1 << 24).contains(&f.0)) {
            return Err(format!(
                "frame of {} bytes: HTTP/2 has 16 KiB to 16 MiB - 1",
                frame.0
            ));
        }
        let schedules = [
            self.rate.is_some(),
            self.arrivals.is_some(),
            self.saturate.is_some(),
        ];
        if schedules.into_iter().filter(|is_given| *is_given).count() > 1 {
            return Err(format!(
                "strategy `{}`: `rate`, `arrivals` and `saturate` each say when requests are sent; keep one",
                self.strategy
            ));
        }
        if let Some(arrivals) = &self.arrivals {
            arrivals.check().map_err(|error| error.to_string())?;
        }
        if let Some(keys) = self.keys {
            keys.check().map_err(|error| error.to_string())?;
        }
        if let Some(network) = self.network {
            network.check()?;
        }
        check_rate(self.rate)
    }
}
