//! The tiers that a load uses, and the check that its case has them.

use super::{LoadSpec, LoadsSpec, Operation};
use crate::mix::SmallRequest;
use crate::strategy::Tier;

impl LoadsSpec {
    /// Returns whether a load of the case sends small requests to the Kubernetes tier.
    #[must_use]
    pub fn writes_through_api(&self) -> bool {
        self.load.iter().any(LoadSpec::is_through_api)
    }

    /// Returns whether the case uses etcd: it is of the etcd tier, or its small requests or
    /// watchers are.
    #[must_use]
    pub fn uses_etcd(&self) -> bool {
        let is_list = |load: &LoadSpec| matches!(load.operation, Operation::List(_));
        let mut loads = self.load.iter().filter(|load| !is_list(load));
        self.tier == Tier::Etcd || loads.any(|load| load.tier() == Tier::Etcd)
    }

    /// Checks that another load writes what watchers watch, and that neither `count` nor watchers
    /// of the etcd tier see objects that are created through the Kubernetes tier.
    pub(super) fn check_watchers(&self) -> Result<(), String> {
        let Self { name, load, .. } = self;
        let watches_on = |tier| {
            let mut watchers = load.iter().filter(|l| l.operation == Operation::Watch);
            watchers.any(|load| load.tier() == tier)
        };
        let counts = load.iter().flat_map(LoadSpec::small_requests);
        if self.writes_through_api()
            && (watches_on(Tier::Etcd) || counts.into_iter().any(|r| r == SmallRequest::Count))
        {
            return Err(format!(
                "case `{name}`: `count` and watchers of the etcd tier would meet objects made through the Kubernetes tier"
            ));
        }
        let mut through_api = load.iter().filter(|load| load.is_through_api());
        let mut writes = through_api.any(|load| {
            load.small_requests()
                .any(|r| !matches!(r, SmallRequest::Get | SmallRequest::Delete))
        });
        writes |= !watches_on(Tier::Kube);
        if !writes {
            return Err(format!(
                "case `{name}`: watchers need a load that writes what they watch: `create`, `update` or `patch` with tier = \"kube\""
            ));
        }
        if watches_on(Tier::Etcd) && !self.rewrites_data() {
            return Err(format!(
                "case `{name}`: watchers need a load that writes what they watch: `put` or `update`"
            ));
        }
        Ok(())
    }
}

impl LoadSpec {
    /// Returns the tier of the load's small requests or watchers.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.tier.unwrap_or(Tier::Etcd)
    }

    /// Returns whether the load sends small requests to the Kubernetes tier.
    #[must_use]
    pub fn is_through_api(&self) -> bool {
        matches!(self.operation, Operation::Small(_)) && self.tier() == Tier::Kube
    }

    /// Checks that the tier supports the operation and the options, and that the case has the tier.
    pub(super) fn check_tier(&self, of_case: Tier) -> Result<(), String> {
        let tier = self.tier();
        if let Operation::List(_) = self.operation {
            return match self.tier {
                None => Ok(()),
                Some(_) => Err(format!(
                    "`{}` does not take `tier`: lists have that of their case",
                    self.operation
                )),
            };
        }
        if tier == Tier::Kube && of_case == Tier::Etcd {
            return Err(
                "requests to the Kubernetes tier need a case that has it: tier = \"kube\""
                    .to_owned(),
            );
        }
        let of_etcd = [
            ("connections", self.connections.is_some()),
            ("stall", self.stall.is_some()),
            ("window", self.window.is_some()),
        ];
        if self.operation == Operation::Watch
            && tier == Tier::Kube
            && let Some((field, _)) = of_etcd.iter().find(|(_, is_given)| *is_given)
        {
            return Err(format!(
                "watchers through the Kubernetes tier, each with a connection of its own, do not take `{field}`"
            ));
        }
        match self.small_requests().find(|request| !request.runs_on(tier)) {
            Some(request) => {
                let all = SmallRequest::ALL.into_iter();
                let names: Vec<_> = all
                    .filter(|r| r.runs_on(tier))
                    .map(SmallRequest::name)
                    .collect();
                Err(format!(
                    "the {tier} tier has no `{request}` (it has {})",
                    names.join(", ")
                ))
            }
            None => Ok(()),
        }
    }
}
