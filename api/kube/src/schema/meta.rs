//! Metadata, and small messages that several others contain.
//!
//! Fields are in the order of JSON, with their protobuf numbers (core/v1 of Kubernetes 1.37).

use super::messages;

messages! {
    OWNER_REFERENCE = "OwnerReference" {
         5 "apiVersion"         Str  Always,
         1 "kind"               Str  Always,
         3 "name"               Str  Always,
         4 "uid"                Str  Always,
         6 "controller"         Bool Optional,
         7 "blockOwnerDeletion" Bool Optional,
    }

    MANAGED_FIELDS_ENTRY = "ManagedFieldsEntry" {
         1 "manager"     Str      OmitZero,
         2 "operation"   Str      OmitZero,
         3 "apiVersion"  Str      OmitZero,
         4 "time"        Time     Optional,
         6 "fieldsType"  Str      OmitZero,
         7 "fieldsV1"    FieldsV1 Optional,
         8 "subresource" Str      OmitZero,
    }

    OBJECT_META = "ObjectMeta" {
         1 "name"                       Str                          OmitZero,
         2 "generateName"               Str                          OmitZero,
         3 "namespace"                  Str                          OmitZero,
         4 "selfLink"                   Str                          OmitZero,
         5 "uid"                        Str                          OmitZero,
         6 "resourceVersion"            Str                          OmitZero,
         7 "generation"                 Int                          OmitZero,
         8 "creationTimestamp"          Time                         OmitZero,
         9 "deletionTimestamp"          Time                         Optional,
        10 "deletionGracePeriodSeconds" Int                          Optional,
        11 "labels"                     MapStr                       OmitZero,
        12 "annotations"                MapStr                       OmitZero,
        13 "ownerReferences"            Object(OWNER_REFERENCE)      List,
        14 "finalizers"                 Str                          List,
        17 "managedFields"              Object(MANAGED_FIELDS_ENTRY) List,
    }

    PARTIAL_OBJECT_METADATA = "PartialObjectMetadata" {
         1 "metadata" Object(OBJECT_META) Always,
    }

    LOCAL_OBJECT_REFERENCE = "LocalObjectReference" {
         1 "name" Str OmitZero,
    }

    OBJECT_FIELD_SELECTOR = "ObjectFieldSelector" {
         1 "apiVersion" Str OmitZero,
         2 "fieldPath"  Str Always,
    }

    RESOURCE_FIELD_SELECTOR = "ResourceFieldSelector" {
         1 "containerName" Str      OmitZero,
         2 "resource"      Str      Always,
         3 "divisor"       Quantity Always,
    }

    LABEL_SELECTOR_REQUIREMENT = "LabelSelectorRequirement" {
         1 "key"      Str Always,
         2 "operator" Str Always,
         3 "values"   Str List,
    }

    LABEL_SELECTOR = "LabelSelector" {
         1 "matchLabels"      MapStr                             OmitZero,
         2 "matchExpressions" Object(LABEL_SELECTOR_REQUIREMENT) List,
    }
    SHARD_INFO = "ShardInfo" {
         1 "selector" Str Always,
    }

    LIST_META = "ListMeta" {
         1 "selfLink"           Str                OmitZero,
         2 "resourceVersion"    Str                OmitZero,
         3 "continue"           Str                OmitZero,
         4 "remainingItemCount" Int                Optional,
         5 "shardInfo"          Object(SHARD_INFO) Optional,
    }

    STATUS_CAUSE = "StatusCause" {
         1 "reason"  Str OmitZero,
         2 "message" Str OmitZero,
         3 "field"   Str OmitZero,
    }

    STATUS_DETAILS = "StatusDetails" {
         1 "name"              Str                  OmitZero,
         2 "group"             Str                  OmitZero,
         3 "kind"              Str                  OmitZero,
         6 "uid"               Str                  OmitZero,
         4 "causes"            Object(STATUS_CAUSE) List,
         5 "retryAfterSeconds" Int32                  OmitZero,
    }

    STATUS = "Status" {
         1 "metadata" Object(LIST_META)      Always,
         2 "status"   Str                    OmitZero,
         3 "message"  Str                    OmitZero,
         4 "reason"   Str                    OmitZero,
         5 "details"  Object(STATUS_DETAILS) Optional,
         6 "code"     Int32                    OmitZero,
    }
}
