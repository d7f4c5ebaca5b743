//! Leases: holder and times. Each kubelet renews one, every ten seconds.
//!
//! Fields are in the order of JSON, with their protobuf numbers (coordination.k8s.io/v1 of
//! Kubernetes 1.37).

use super::messages;
use super::meta::{LIST_META, OBJECT_META};

messages! {
    LEASE_SPEC = "LeaseSpec" {
         1 "holderIdentity"       Str       Optional,
         2 "leaseDurationSeconds" Int32       Optional,
         3 "acquireTime"          MicroTime Optional,
         4 "renewTime"            MicroTime Optional,
         5 "leaseTransitions"     Int32       Optional,
         6 "strategy"             Str       Optional,
         7 "preferredHolder"      Str       Optional,
    }

    LEASE = "Lease" {
         1 "metadata" Object(OBJECT_META) Always,
         2 "spec"     Object(LEASE_SPEC)  Always,
    }

    LEASE_LIST = "LeaseList" {
         1 "metadata" Object(LIST_META) Always,
         2 "items"    Object(LEASE)     ListOrNull,
    }
}
