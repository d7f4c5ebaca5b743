//! OpenAPI v3 documents: the fields of each kind, how their lists are merged, and the parameters of
//! each URL. The parameter `fieldValidation` of writes tells kubectl that the server validates
//! fields itself.

use std::collections::BTreeMap;

use kube_api::schema::{Kind, Message, Rule};
use serde_json::{Map, Value, json};

use super::groups::{group_versions, root};
use crate::resource::Resource;
use crate::resource::merge_keys::{ListMerge, list_merge};

/// Returns the index and the document of each version of each group, with their paths.
pub(super) fn documents() -> Vec<(String, Value)> {
    let mut index = Map::new();
    let mut documents = Vec::new();
    for (_, resources) in group_versions() {
        let path = format!("/openapi/v3{}", root(resources[0]));
        let below = root(resources[0]).trim_start_matches('/').to_owned();
        index.insert(below, json!({"serverRelativeURL": path}));
        documents.push((path, document(&resources)));
    }
    documents.push(("/openapi/v3".to_owned(), json!({"paths": index})));
    documents
}

fn document(resources: &[&Resource]) -> Value {
    let mut paths = Map::new();
    let mut schemas = BTreeMap::new();
    for resource in resources {
        let namespace = if resource.namespaced {
            "/namespaces/{namespace}"
        } else {
            ""
        };
        let collection = format!("{}{namespace}/{}", root(resource), resource.name);
        let object = format!("{collection}/{{name}}");
        let mut insert = |path: String, operations: Value| {
            let item = with_path_parameters(&path, operations);
            paths.insert(path, item);
        };
        insert(collection, self::collection(resource));
        if resource.has_status() {
            insert(format!("{object}/status"), self::object(resource));
        }
        insert(object, self::object(resource));
        let mut schema = match resource.schema() {
            Some(message) => {
                define(message, &mut schemas);
                schemas.remove(message.name()).unwrap_or_default()
            }
            None => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        };
        schema["x-kubernetes-group-version-kind"] = json!([kind(resource)]);
        for name in ["kind", "apiVersion"] {
            schema["properties"][name] = json!({"type": "string"});
        }
        schemas.insert(resource.kind, schema);
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.37.0"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

fn kind(resource: &Resource) -> Value {
    json!({"group": resource.group, "version": resource.version(), "kind": resource.kind})
}

fn collection(resource: &Resource) -> Value {
    let lists = [
        "allowWatchBookmarks",
        "continue",
        "fieldSelector",
        "labelSelector",
        "limit",
        "resourceVersion",
        "resourceVersionMatch",
        "sendInitialEvents",
        // Listed even if its feature gate is off, as by k8s.io/apiserver.
        "shardSelector",
        "timeoutSeconds",
        "watch",
    ];
    let mut operations = json!({
        "get": operation(resource, "list", &lists, &[]),
        "post": operation(resource, "post", &WRITES, &["application/json"]),
    });
    if resource.deletes_collections() {
        operations["delete"] = operation(resource, "deletecollection", &lists, &[]);
    }
    operations
}

/// Adds the parameters that the path contains as `{name}` to its operations.
fn with_path_parameters(path: &str, mut operations: Value) -> Value {
    let parameter = |name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "uniqueItems": true}});
    let names = path.split(['{', '}']).skip(1).step_by(2);
    operations["parameters"] = names.map(parameter).collect();
    operations
}

/// The parameters of creates, updates and patches.
const WRITES: [&str; 3] = ["dryRun", "fieldManager", "fieldValidation"];

fn object(resource: &Resource) -> Value {
    json!({
        "get": operation(resource, "get", &["resourceVersion"], &[]),
        "put": operation(resource, "put", &WRITES, &["application/json"]),
        "patch": operation(resource, "patch", &WRITES, resource.patch_media_types()),
        "delete": operation(resource, "delete", &["dryRun"], &[]),
    })
}

fn operation(resource: &Resource, action: &str, parameters: &[&str], bodies: &[&str]) -> Value {
    let parameter = |name: &&str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let schema = json!({"schema": reference(resource.kind)});
    let mut operation = json!({
        "parameters": parameters.iter().map(parameter).collect::<Vec<_>>(),
        "responses": {"200": {"description": "OK", "content": {"application/json": schema}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": kind(resource),
    });
    if !bodies.is_empty() {
        let bodies = bodies
            .iter()
            .map(|media_type| ((*media_type).to_owned(), schema.clone()));
        let content: Map<String, Value> = bodies.collect();
        operation["requestBody"] = json!({"content": content, "required": true});
    }
    operation
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Adds the schemas of a message and of every message that it contains.
fn define(message: &'static Message, schemas: &mut BTreeMap<&'static str, Value>) {
    if schemas.contains_key(message.name()) {
        return;
    }
    // A placeholder, in case the message contains itself.
    schemas.insert(message.name(), Value::Null);
    let mut properties = Map::new();
    put_properties(message, &mut properties, schemas);
    let schema = json!({"type": "object", "properties": properties});
    schemas.insert(message.name(), schema);
}

fn put_properties(
    message: &'static Message,
    properties: &mut Map<String, Value>,
    schemas: &mut BTreeMap<&'static str, Value>,
) {
    for field in message.fields() {
        if let (Rule::Inline, Kind::Object(inner)) = (field.rule, field.kind) {
            put_properties(inner, properties, schemas);
            continue;
        }
        let text = json!({"type": "string"});
        let map = |of: Value| json!({"type": "object", "additionalProperties": of});
        let mut schema = match field.kind {
            Kind::Str | Kind::Quantity => text,
            Kind::Bool => json!({"type": "boolean"}),
            Kind::Int => json!({"type": "integer", "format": "int64"}),
            Kind::Int32 => json!({"type": "integer", "format": "int32"}),
            Kind::Object(below) => {
                define(below, schemas);
                reference(below.name())
            }
            Kind::Time | Kind::MicroTime => json!({"type": "string", "format": "date-time"}),
            Kind::IntOrString => {
                json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
            }
            Kind::FieldsV1 => json!({"type": "object"}),
            Kind::MapStr | Kind::MapQuantity => map(text),
            Kind::MapBytes => map(json!({"type": "string", "format": "byte"})),
        };
        if matches!(field.rule, Rule::List | Rule::ListOrNull) {
            schema = json!({"type": "array", "items": schema});
            if let Some(merge) = list_merge(message.name(), field.name()) {
                schema["x-kubernetes-patch-strategy"] = "merge".into();
                if let ListMerge::ByKey(key) = merge {
                    schema["x-kubernetes-patch-merge-key"] = key.into();
                }
            }
        }
        properties.insert(field.name().to_owned(), schema);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core() -> Value {
        let documents = documents().into_iter();
        let mut core = documents.filter(|(path, _)| path == "/openapi/v3/api/v1");
        core.next().expect("the core group").1
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn check(value: &Value, schemas: &Value) {
            match value {
                Value::Object(map) => {
                    if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
                        let name = reference.rsplit('/').next().unwrap_or_default();
                        assert!(schemas[name]["properties"].is_object(), "{reference}");
                    }
                    map.values().for_each(|value| check(value, schemas));
                }
                Value::Array(items) => items.iter().for_each(|value| check(value, schemas)),
                _ => {}
            }
        }
        let document = core();
        check(&document, &document["components"]["schemas"]);
        let schemas = document["components"]["schemas"]
            .as_object()
            .expect("an object");
        assert!(schemas.len() > 50, "{}", schemas.len());
    }

    #[test]
    fn kubectl_finds_what_it_looks_for() {
        let document = core();
        let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
        let parameters = patch["parameters"].as_array().expect("a list");
        assert!(
            parameters
                .iter()
                .any(|parameter| parameter["name"] == "fieldValidation")
        );
        assert!(
            patch["requestBody"]["content"]["application/strategic-merge-patch+json"].is_object()
        );
        assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Pod");
        let item = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"];
        let parameters = item["parameters"].as_array().expect("of the path");
        let names: Vec<_> = parameters.iter().map(|one| &one["name"]).collect();
        assert_eq!(names, ["namespace", "name"]);
        let containers = &document["components"]["schemas"]["PodSpec"]["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    }
}
