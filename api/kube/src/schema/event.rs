//! Events: occurrences that a component reports about an object.
//!
//! Fields are in the order of JSON, with their protobuf numbers (core/v1 of Kubernetes 1.37).

use super::messages;
use super::meta::{LIST_META, OBJECT_META};

messages! {
    OBJECT_REFERENCE = "ObjectReference" {
         1 "kind"            Str OmitZero,
         2 "namespace"       Str OmitZero,
         3 "name"            Str OmitZero,
         4 "uid"             Str OmitZero,
         5 "apiVersion"      Str OmitZero,
         6 "resourceVersion" Str OmitZero,
         7 "fieldPath"       Str OmitZero,
    }

    EVENT_SOURCE = "EventSource" {
         1 "component" Str OmitZero,
         2 "host"      Str OmitZero,
    }

    EVENT_SERIES = "EventSeries" {
         1 "count"            Int32       OmitZero,
         2 "lastObservedTime" MicroTime Always,
    }

    EVENT = "Event" {
         1 "metadata"           Object(OBJECT_META)      Always,
         2 "involvedObject"     Object(OBJECT_REFERENCE) Always,
         3 "reason"             Str                      OmitZero,
         4 "message"            Str                      OmitZero,
         5 "source"             Object(EVENT_SOURCE)     Always,
         6 "firstTimestamp"     Time                     Always,
         7 "lastTimestamp"      Time                     Always,
         8 "count"              Int32                      OmitZero,
         9 "type"               Str                      OmitZero,
        10 "eventTime"          MicroTime                Always,
        11 "series"             Object(EVENT_SERIES)     Optional,
        12 "action"             Str                      OmitZero,
        13 "related"            Object(OBJECT_REFERENCE) Optional,
        14 "reportingComponent" Str                      Always,
        15 "reportingInstance"  Str                      Always,
    }

    EVENT_LIST = "EventList" {
         1 "metadata" Object(LIST_META) Always,
         2 "items"    Object(EVENT)     ListOrNull,
    }
}
