//! Namespaces.
//!
//! Fields are in the order of JSON, with their protobuf numbers (core/v1 of Kubernetes 1.37).

use super::messages;
use super::meta::{LIST_META, OBJECT_META};

messages! {
    NAMESPACE_SPEC = "NamespaceSpec" {
         1 "finalizers" Str List,
    }

    NAMESPACE_CONDITION = "NamespaceCondition" {
         1 "type"               Str  Always,
         2 "status"             Str  Always,
         4 "lastTransitionTime" Time Always,
         5 "reason"             Str  OmitZero,
         6 "message"            Str  OmitZero,
    }

    NAMESPACE_STATUS = "NamespaceStatus" {
         1 "phase"      Str                         OmitZero,
         2 "conditions" Object(NAMESPACE_CONDITION) List,
    }

    NAMESPACE = "Namespace" {
         1 "metadata" Object(OBJECT_META)      Always,
         2 "spec"     Object(NAMESPACE_SPEC)   Always,
         3 "status"   Object(NAMESPACE_STATUS) Always,
    }

    NAMESPACE_LIST = "NamespaceList" {
         1 "metadata" Object(LIST_META) Always,
         2 "items"    Object(NAMESPACE) ListOrNull,
    }
}
