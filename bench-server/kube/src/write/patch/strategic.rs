//! Strategic merge patches: merge patches that also merge some lists, of objects by a key field and
//! of plain values as a set.
//!
//! Kubernetes' API documentation ("Strategic Merge Patch") defines the format. Where the
//! documentation leaves something open, this module does the same as kube-apiserver.

use std::collections::{HashMap, HashSet};

use kube_api::schema::{Kind, Message};
use serde_json::{Map, Value};

use crate::resource::merge_keys::{ListMerge, list_merge};

/// The action for the object or list that contains this key: `replace`, `delete` or `merge`.
const DIRECTIVE: &str = "$patch";
/// The names of the fields that the object keeps; others are removed.
const RETAIN_KEYS: &str = "$retainKeys";
/// The values to be removed from the list that is named after the slash.
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
/// The order of the items of the list that is named after the slash.
const SET_ORDER: &str = "$setElementOrder/";

/// The error that a patch does not follow the format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StrategicError {
    /// The value of `$patch` is unknown.
    #[error("unknown patch type: {0}")]
    UnknownDirective(Value),
    /// A directive has the wrong type.
    #[error("{directive} must be a list of {of}")]
    DirectiveType {
        /// The directive.
        directive: String,
        /// The required content of the list.
        of: &'static str,
    },
    /// An item of a list that is merged by key does not have the key.
    #[error("{item} in list {list:?} does not contain declared merge key: {key}")]
    NoMergeKey {
        /// The field of the list.
        list: String,
        /// The merge key.
        key: &'static str,
        /// The item.
        item: Value,
    },
}

/// Applies `patch` to `object`, whose schema is `message`. The value of `object` is unspecified
/// after an error.
///
/// # Errors
/// The patch does not follow the format.
pub(crate) fn strategic_merge(
    message: &'static Message,
    object: &mut Map<String, Value>,
    patch: Map<String, Value>,
) -> Result<(), StrategicError> {
    merge_object(Some(message), object, patch)
}

/// Merges `patch` into `object`. `message` is `None` for maps, whose keys are chosen by users.
fn merge_object(
    message: Option<&'static Message>,
    object: &mut Map<String, Value>,
    mut patch: Map<String, Value>,
) -> Result<(), StrategicError> {
    match directive(&mut patch)? {
        Directive::Merge => {}
        Directive::Replace => {
            *object = patch;
            return Ok(());
        }
        Directive::Delete => {
            object.clear();
            return Ok(());
        }
    }
    if let Some(keep) = patch.remove(RETAIN_KEYS) {
        let keep = list(keep, RETAIN_KEYS, "field names")?;
        let keep: HashSet<_> = keep.iter().filter_map(Value::as_str).collect();
        object.retain(|name, _| keep.contains(name.as_str()));
    }
    let mut orders = Vec::new();
    for (name, value) in patch {
        if let Some(field) = name.strip_prefix(SET_ORDER) {
            let before = items(object.get(field)).to_vec();
            orders.push((field.to_owned(), list(value, &name, "items")?, before));
        } else if let Some(field) = name.strip_prefix(DELETE_FROM) {
            let gone: HashSet<_> = list(value, &name, "values")?.into_iter().collect();
            if let Some(Value::Array(items)) = object.get_mut(field) {
                items.retain(|item| !gone.contains(item));
            }
        } else {
            merge_field(message, object, name, value)?;
        }
    }
    // `$` sorts before letters, so the orders have been read before the lists were merged.
    for (field, order, before) in orders {
        let key = match merge_of(message, &field) {
            Some(ListMerge::ByKey(key)) => Some(key),
            _ => None,
        };
        if let Some(Value::Array(items)) = object.get_mut(&field) {
            let merged = std::mem::take(items);
            *items = ordered(merged, &order, &before, key);
        }
    }
    Ok(())
}

fn merge_field(
    message: Option<&'static Message>,
    object: &mut Map<String, Value>,
    name: String,
    value: Value,
) -> Result<(), StrategicError> {
    let below = message
        .and_then(|message| message.find(&name))
        .and_then(|(_, field)| match field.kind {
            Kind::Object(message) => Some(message),
            _ => None,
        });
    match value {
        Value::Null => {
            object.remove(&name);
        }
        Value::Object(patch) => match object.get_mut(&name) {
            Some(Value::Object(there)) => merge_object(below, there, patch)?,
            _ => {
                object.insert(name, clean(Value::Object(patch)));
            }
        },
        Value::Array(patch) => {
            let mut there = match object.remove(&name) {
                Some(Value::Array(there)) => there,
                _ => Vec::new(),
            };
            match merge_of(message, &name) {
                None => there = patch.into_iter().map(clean).collect(),
                Some(merge) => {
                    // Without `$setElementOrder`, the order of the items in the patch counts.
                    let (order, before) = (patch.clone(), there.clone());
                    let key = match merge {
                        ListMerge::AsSet => {
                            let mut known: HashSet<_> = there.iter().cloned().collect();
                            there.extend(
                                patch.into_iter().filter(|item| known.insert(item.clone())),
                            );
                            None
                        }
                        ListMerge::ByKey(key) => {
                            merge_list(below, &name, key, &mut there, patch)?;
                            Some(key)
                        }
                    };
                    there = ordered(there, &order, &before, key);
                }
            }
            object.insert(name, Value::Array(there));
        }
        plain => {
            object.insert(name, plain);
        }
    }
    Ok(())
}

fn merge_list(
    message: Option<&'static Message>,
    name: &str,
    key: &'static str,
    there: &mut Vec<Value>,
    patch: Vec<Value>,
) -> Result<(), StrategicError> {
    let replaces = |item: &Value| item.get(DIRECTIVE).is_some_and(|word| word == "replace");
    if patch.iter().any(replaces) {
        let items = patch.into_iter().filter(|item| !replaces(item));
        *there = items.map(clean).collect();
        return Ok(());
    }
    let mut places: HashMap<Value, Vec<usize>> = HashMap::new();
    let mut merged: Vec<Option<Value>> = Vec::with_capacity(there.len());
    for item in there.drain(..) {
        if let Some(id) = item.get(key) {
            places.entry(id.clone()).or_default().push(merged.len());
        }
        merged.push(Some(item));
    }
    for item in patch {
        let no_key = |item| StrategicError::NoMergeKey {
            list: name.to_owned(),
            key,
            item,
        };
        let Value::Object(mut item) = item else {
            return Err(no_key(item));
        };
        let Some(id) = item.get(key).cloned() else {
            return Err(no_key(Value::Object(item)));
        };
        let same = places.entry(id).or_default();
        if directive(&mut item)? == Directive::Delete {
            same.drain(..).for_each(|at| merged[at] = None);
            continue;
        }
        match same.first().and_then(|at| merged[*at].as_mut()) {
            Some(Value::Object(there)) => merge_object(message, there, item)?,
            _ => {
                same.push(merged.len());
                merged.push(Some(clean(Value::Object(item))));
            }
        }
    }
    there.extend(merged.into_iter().flatten());
    Ok(())
}

/// Returns the merged list in the order of the patch. Items that only the server has stay before
/// the items that they preceded.
fn ordered(
    merged: Vec<Value>,
    order: &[Value],
    before: &[Value],
    key: Option<&'static str>,
) -> Vec<Value> {
    let (order, before) = (places(order, key), places(before, key));
    let place = |item: &Value, places: &HashMap<&Value, usize>| places.get(id(item, key)).copied();
    let (mut listed, rest): (Vec<_>, Vec<_>) = merged
        .into_iter()
        .partition(|item| place(item, &order).is_some());
    listed.sort_by_key(|item| place(item, &order));
    let mut out = Vec::with_capacity(listed.len() + rest.len());
    let (mut listed, mut rest) = (listed.into_iter().peekable(), rest.into_iter().peekable());
    loop {
        let listed_first = match (listed.peek(), rest.peek()) {
            (None, None) => return out,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(one), Some(other)) => match (place(one, &before), place(other, &before)) {
                (Some(one), Some(other)) => one < other,
                // New items are placed before those that only the server has.
                _ => true,
            },
        };
        out.extend(if listed_first {
            listed.next()
        } else {
            rest.next()
        });
    }
}

/// Returns the value that identifies an item: its key, or the item itself.
fn id<'i>(item: &'i Value, key: Option<&str>) -> &'i Value {
    match key {
        Some(key) => item.get(key).unwrap_or(&Value::Null),
        None => item,
    }
}

/// Returns the first position of each item.
fn places<'l>(list: &'l [Value], key: Option<&str>) -> HashMap<&'l Value, usize> {
    let mut places = HashMap::with_capacity(list.len());
    for (at, item) in list.iter().enumerate() {
        places.entry(id(item, key)).or_insert(at);
    }
    places
}

#[derive(PartialEq, Eq)]
enum Directive {
    Merge,
    Replace,
    Delete,
}

fn directive(patch: &mut Map<String, Value>) -> Result<Directive, StrategicError> {
    match patch.remove(DIRECTIVE) {
        None => Ok(Directive::Merge),
        Some(word) => match word.as_str() {
            Some("merge") => Ok(Directive::Merge),
            Some("replace") => Ok(Directive::Replace),
            Some("delete") => Ok(Directive::Delete),
            _ => Err(StrategicError::UnknownDirective(word)),
        },
    }
}

fn merge_of(message: Option<&'static Message>, field: &str) -> Option<ListMerge> {
    let (holder, _) = message?.find(field)?;
    list_merge(holder.name(), field)
}

fn list(value: Value, directive: &str, of: &'static str) -> Result<Vec<Value>, StrategicError> {
    match value {
        Value::Array(items) => Ok(items),
        _ => Err(StrategicError::DirectiveType {
            directive: directive.to_owned(),
            of,
        }),
    }
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns a part of a patch as a new part of an object, without directives and deletions.
fn clean(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map
                .into_iter()
                .filter(|(name, value)| !value.is_null() && !is_directive(name));
            Value::Object(kept.map(|(name, value)| (name, clean(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(clean).collect()),
        plain => plain,
    }
}

fn is_directive(name: &str) -> bool {
    name == DIRECTIVE
        || name == RETAIN_KEYS
        || name.starts_with(DELETE_FROM)
        || name.starts_with(SET_ORDER)
}

#[cfg(test)]
mod tests {
    use kube_api::schema::POD;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn patched(object: Value, patch: Value) -> Value {
        let (Value::Object(mut object), Value::Object(patch)) = (object, patch) else {
            panic!("objects are patched with objects");
        };
        strategic_merge(&POD, &mut object, patch).expect("a patch");
        Value::Object(object)
    }

    fn containers(list: Value) -> Value {
        json!({"spec": {"containers": list}})
    }

    #[test]
    fn lists_of_objects_merge_by_their_key() {
        let pod = containers(json!([
            {"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]},
            {"name": "b", "image": "1"},
        ]));
        let patch = containers(json!([
            {"name": "c", "image": "3"},
            {"name": "a", "image": "2", "env": [{"name": "Y", "value": "2"}]},
            {"name": "b", "$patch": "delete"},
        ]));
        let expected = containers(json!([
            {"name": "c", "image": "3"},
            {"name": "a", "image": "2", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]},
        ]));
        assert_eq!(patched(pod, patch), expected);
    }

    #[test]
    fn other_lists_are_replaced() {
        let pod = json!({"spec": {"tolerations": [{"key": "a"}], "containers": [{"name": "a", "args": ["1", "2"]}]}});
        let patch = json!({"spec": {"tolerations": [{"key": "b"}], "containers": [{"name": "a", "args": ["3"]}]}});
        assert_eq!(patched(pod, patch.clone()), patch);
    }

    #[test]
    fn null_deletes_and_maps_merge() {
        let pod = json!({"metadata": {"labels": {"a": "1", "b": "2"}, "name": "x"}, "spec": {"nodeName": "n"}});
        let patch = json!({"metadata": {"labels": {"a": null, "c": "3"}}, "spec": {"nodeName": null, "dnsConfig": {"searches": null}}});
        let expected = json!({"metadata": {"labels": {"b": "2", "c": "3"}, "name": "x"}, "spec": {"dnsConfig": {}}});
        assert_eq!(patched(pod, patch), expected);
    }

    #[test]
    fn sets_unite_and_lose_what_is_named() {
        let pod = json!({"metadata": {"finalizers": ["a", "b"]}});
        let patch = json!({"metadata": {"finalizers": ["b", "c"], "$deleteFromPrimitiveList/finalizers": ["a"]}});
        assert_eq!(
            patched(pod, patch),
            json!({"metadata": {"finalizers": ["b", "c"]}})
        );
    }

    #[test]
    fn an_order_is_kept_around_what_only_the_server_has() {
        let names = |names: &[&str]| -> Vec<Value> {
            names.iter().map(|name| json!({"name": name})).collect()
        };
        let pod = containers(names(&["a", "injected", "b", "c"]).into());
        let patch = json!({"spec": {
            "$setElementOrder/containers": names(&["c", "b", "new", "a"]),
            "containers": names(&["new"]),
        }});
        let expected = containers(names(&["injected", "c", "b", "new", "a"]).into());
        assert_eq!(patched(pod, patch), expected);
    }

    /// The test would take hours if all other items were searched for each item.
    #[test]
    fn long_lists_are_merged_in_one_walk() {
        const MANY: usize = 100_000;
        let values =
            |from: usize| -> Value { (from..from + MANY).map(|i| format!("f{i}")).collect() };
        let names = |from: usize| -> Value {
            let named = |i| json!({"name": format!("n{i}")});
            (from..from + MANY).map(named).collect()
        };
        let pod = json!({"metadata": {"finalizers": values(0)}, "spec": {"containers": names(0)}});
        let patch = json!({
            "metadata": {"finalizers": values(MANY / 2), "$deleteFromPrimitiveList/finalizers": values(MANY)},
            "spec": {"containers": names(MANY / 2), "$setElementOrder/containers": names(MANY / 2)},
        });
        let both = patched(pod, patch);
        let count = |path: &str| both.pointer(path).and_then(Value::as_array).map(Vec::len);
        assert_eq!(count("/metadata/finalizers"), Some(MANY * 3 / 2));
        assert_eq!(count("/spec/containers"), Some(MANY * 3 / 2));
    }

    #[test]
    fn parts_are_replaced_when_the_patch_says_so() {
        let pod = json!({"spec": {
            "securityContext": {"runAsUser": 1, "runAsGroup": 2},
            "containers": [{"name": "a"}, {"name": "b"}],
            "volumes": [{"name": "v", "emptyDir": {}}],
        }});
        let patch = json!({"spec": {
            "securityContext": {"$patch": "replace", "runAsGroup": 3},
            "containers": [{"$patch": "replace"}, {"name": "c"}],
            "volumes": [{"$retainKeys": ["name", "hostPath"], "name": "v", "hostPath": {"path": "/x"}}],
        }});
        let expected = json!({"spec": {
            "securityContext": {"runAsGroup": 3},
            "containers": [{"name": "c"}],
            "volumes": [{"name": "v", "hostPath": {"path": "/x"}}],
        }});
        assert_eq!(patched(pod, patch), expected);
    }

    #[test]
    fn what_is_no_such_patch_is_refused() {
        for patch in [
            json!({"$patch": "mangle"}),
            json!({"$patch": 1}),
            json!({"$retainKeys": "name"}),
            json!({"metadata": {"$setElementOrder/finalizers": {}}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}}),
            json!({"spec": {"containers": [{"image": "without a name"}]}}),
            json!({"spec": {"containers": ["a"]}}),
        ] {
            let Value::Object(mut pod) =
                json!({"metadata": {"finalizers": ["a"]}, "spec": {"containers": [{"name": "a"}]}})
            else {
                panic!("an object");
            };
            let Value::Object(fields) = patch.clone() else {
                panic!("an object");
            };
            strategic_merge(&POD, &mut pod, fields).expect_err(&patch.to_string());
        }
    }
}
