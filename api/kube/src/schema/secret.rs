//! Secrets.
//!
//! Fields are in the order of JSON, with their protobuf numbers (core/v1 of Kubernetes 1.37).

use super::messages;
use super::meta::{LIST_META, OBJECT_META};

messages! {
    SECRET = "Secret" {
         1 "metadata"   Object(OBJECT_META) Always,
         5 "immutable"  Bool                Optional,
         2 "data"       MapBytes            OmitZero,
         4 "stringData" MapStr              OmitZero,
         3 "type"       Str                 OmitZero,
    }

    SECRET_LIST = "SecretList" {
         1 "metadata" Object(LIST_META) Always,
         2 "items"    Object(SECRET)    ListOrNull,
    }
}
