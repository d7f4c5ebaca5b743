//! Encodes lists in parts: a head with all lengths, which are known in advance; the items in the
//! form that a cache holds; and a tail. The whole list is never in memory (KEP-5116).

use crate::envelope;
use crate::protobuf::{bytes_field_len, put_bytes, put_bytes_header, put_int};
use crate::to_json::put_string;

/// Field number of `items` in every list.
pub const ITEMS: u32 = 2;

/// `ListMeta`: the metadata of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListMeta {
    /// Revision of the whole list; never 0.
    pub resource_version: u64,
    /// Token of the next page; empty on the last one.
    pub continue_token: String,
    /// Number of items after this page; set only with a token and without selectors.
    pub remaining_item_count: Option<u64>,
    /// Canonical form of the list's shard selector; empty without one.
    pub shard_selector: String,
}

impl ListMeta {
    /// Returns its protobuf, with the empty strings that Kubernetes writes.
    fn protobuf(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.continue_token.len());
        put_bytes(&mut out, 1, b"");
        put_bytes(&mut out, 2, self.resource_version.to_string().as_bytes());
        put_bytes(&mut out, 3, self.continue_token.as_bytes());
        if let Some(count) = self.remaining_item_count {
            put_int(&mut out, 4, count as i64);
        }
        if !self.shard_selector.is_empty() {
            let selector = self.shard_selector.as_bytes();
            put_bytes_header(&mut out, 5, bytes_field_len(1, selector.len()));
            put_bytes(&mut out, 1, selector);
        }
        out
    }

    fn put_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(
            format!("{{\"resourceVersion\":\"{}\"", self.resource_version).as_bytes(),
        );
        if !self.continue_token.is_empty() {
            out.extend_from_slice(b",\"continue\":");
            put_string(out, self.continue_token.as_bytes());
        }
        if let Some(count) = self.remaining_item_count {
            out.extend_from_slice(format!(",\"remainingItemCount\":{count}").as_bytes());
        }
        if !self.shard_selector.is_empty() {
            out.extend_from_slice(b",\"shardInfo\":{\"selector\":");
            put_string(out, self.shard_selector.as_bytes());
            out.push(b'}');
        }
        out.push(b'}');
    }
}

/// Returns the head of a protobuf list. `items_len` is the total size of the encoded items as
/// [`crate::list_item`] returns them, with tags and lengths.
pub fn protobuf_head(api_version: &str, kind: &str, meta: &ListMeta, items_len: usize) -> Vec<u8> {
    let meta = meta.protobuf();
    let mut out = Vec::with_capacity(64 + meta.len());
    envelope::put_head(
        &mut out,
        api_version,
        kind,
        bytes_field_len(1, meta.len()) + items_len,
    );
    put_bytes_header(&mut out, 1, meta.len());
    out.extend_from_slice(&meta);
    out
}

/// The tail of a protobuf list, after its items.
pub const PROTOBUF_TAIL: &[u8] = envelope::TAIL;

/// Returns the head of a JSON list; the items are separated by commas.
pub fn json_head(api_version: &str, kind: &str, meta: &ListMeta) -> Vec<u8> {
    let mut out = json_start(api_version, kind, meta);
    out.extend_from_slice(b",\"items\":[");
    out
}

/// Returns the kind, `apiVersion` and metadata of a JSON list, without its items. Callers whose
/// items are not called `items` continue it themselves.
pub fn json_start(api_version: &str, kind: &str, meta: &ListMeta) -> Vec<u8> {
    let mut out = format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":")
        .into_bytes();
    meta.put_json(&mut out);
    out
}

/// Returns the head of a JSON list of custom resources. An apiserver writes such a list as a map,
/// with sorted keys.
pub fn custom_json_head(api_version: &str) -> Vec<u8> {
    format!("{{\"apiVersion\":\"{api_version}\",\"items\":[").into_bytes()
}

/// Returns the tail of a JSON list of custom resources. Such a list always has a `continue` token,
/// which is empty on the last page.
pub fn custom_json_tail(kind: &str, meta: &ListMeta) -> Vec<u8> {
    let mut out = format!("],\"kind\":\"{kind}\",\"metadata\":{{\"continue\":").into_bytes();
    put_string(&mut out, meta.continue_token.as_bytes());
    if let Some(count) = meta.remaining_item_count {
        out.extend_from_slice(format!(",\"remainingItemCount\":{count}").as_bytes());
    }
    let version = meta.resource_version;
    out.extend_from_slice(format!(",\"resourceVersion\":\"{version}\"}}}}\n").as_bytes());
    out
}

/// The tail of a JSON list, after its items.
pub const JSON_TAIL: &[u8] = b"]}\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::find_bytes;
    use crate::schema::{POD, POD_LIST};
    use crate::{from_json, list_item, to_json};
    use serde_json::json;

    fn metas() -> [ListMeta; 4] {
        let meta = |resource_version, continue_token: &str, remaining_item_count| ListMeta {
            resource_version,
            continue_token: continue_token.to_owned(),
            remaining_item_count,
            shard_selector: String::new(),
        };
        [
            meta(1, "", None),
            meta(u64::MAX, "token", Some(42)),
            meta(77, "token", None),
            ListMeta {
                shard_selector: "shardRange(object.metadata.uid, '0x0', '0x1')".to_owned(),
                ..meta(77, "token", None)
            },
        ]
    }

    /// Returns the same list, encoded as a whole in protobuf and JSON by the schema.
    fn whole_list(meta: &ListMeta, names: &[&str]) -> (Vec<u8>, Vec<u8>) {
        let mut metadata = json!({"resourceVersion": meta.resource_version.to_string(), "continue": meta.continue_token});
        if let Some(count) = meta.remaining_item_count {
            metadata["remainingItemCount"] = json!(count);
        }
        if !meta.shard_selector.is_empty() {
            metadata["shardInfo"] = json!({"selector": meta.shard_selector});
        }
        let items: Vec<_> = names
            .iter()
            .map(|name| json!({"metadata": {"name": name, "resourceVersion": "9"}}))
            .collect();
        let list = json!({"metadata": metadata, "items": items});
        let mut raw = Vec::new();
        from_json(&POD_LIST, list.as_object().expect("an object"), &mut raw).expect("a list");
        let mut json = Vec::new();
        to_json(
            &POD_LIST,
            &raw,
            r#""kind":"PodList","apiVersion":"v1""#,
            &mut json,
        )
        .expect("a list");
        json.push(b'\n');
        (envelope::seal("v1", "PodList", &raw), json)
    }

    #[test]
    fn a_list_in_parts_equals_the_whole() {
        for meta in metas() {
            for names in [&[][..], &["one"], &["one", "two", "three"]] {
                let items: Vec<_> = names
                    .iter()
                    .map(|name| {
                        let mut raw = Vec::new();
                        let pod = json!({"metadata": {"name": name}});
                        from_json(&POD, pod.as_object().expect("an object"), &mut raw)
                            .expect("a pod");
                        list_item(&raw, "9").expect("a pod")
                    })
                    .collect();
                let mut protobuf =
                    protobuf_head("v1", "PodList", &meta, items.iter().map(Vec::len).sum());
                let mut json = json_head("v1", "PodList", &meta);
                for (i, item) in items.iter().enumerate() {
                    protobuf.extend_from_slice(item);
                    if i > 0 {
                        json.push(b',');
                    }
                    let object = find_bytes(item, ITEMS)
                        .expect("well formed")
                        .expect("an item");
                    to_json(&POD, object, "", &mut json).expect("a pod");
                }
                protobuf.extend_from_slice(PROTOBUF_TAIL);
                json.extend_from_slice(JSON_TAIL);
                let (whole_protobuf, whole_json) = whole_list(&meta, names);
                assert_eq!(protobuf, whole_protobuf);
                // Go's storage returns an empty slice; a decoded message without items has a nil
                // slice, which is `null` in JSON.
                let whole_json = String::from_utf8(whole_json)
                    .expect("UTF-8")
                    .replace("\"items\":null", "\"items\":[]");
                assert_eq!(String::from_utf8(json).expect("UTF-8"), whole_json);
            }
        }
    }
}
