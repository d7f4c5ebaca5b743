//! Makes the same writes on both servers, each in its own namespace.

use ::http::Method;
use serde_json::{Value, json};

use crate::case::{CaseContext, put};
use crate::compare::Question;
use crate::http::Reply;

/// The namespace of the real server. Both names have the same length and occur in no other text, so
/// that one can be replaced by the other.
const THEIRS: &str = "namespace-of-theirs";
pub(crate) const OURS: &str = "namespace-of-our-own";
pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const OPERATIONS: &str = "application/json-patch+json";

/// A sequence of steps in both namespaces. In a path or a body, `{NS}` is the namespace, `{RV}` and
/// `{UID}` are the resourceVersion and the UID of the last response that had a UID.
pub(crate) struct Steps<'e> {
    context: &'e CaseContext<'e>,
    last: [(String, String); 2],
}

impl<'e> Steps<'e> {
    pub(crate) async fn begin(context: &'e CaseContext<'e>) -> Self {
        for name in [THEIRS, OURS] {
            let object = json!({"metadata": {"name": name}}).to_string();
            let question = Question {
                method: &Method::POST,
                path: "/api/v1/namespaces",
                headers: &[("content-type", JSON)],
                body: &object,
            };
            // The namespace already exists if both servers share an etcd.
            for url in [&context.world.real.url, context.world.our_url()] {
                let reply = put(url, question).await;
                assert!(matches!(reply.code.as_u16(), 201 | 409), "{reply:?}");
            }
        }
        Self {
            context,
            last: Default::default(),
        }
    }

    pub(crate) async fn step(
        &mut self,
        method: Method,
        path: &str,
        media_type: &str,
        body: &Value,
    ) {
        let body = match body {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let sides = [
            (self.context.world.real.url.as_str(), THEIRS),
            (self.context.world.our_url(), OURS),
        ];
        let mut replies = Vec::new();
        for (side, (url, namespace)) in sides.into_iter().enumerate() {
            let (version, uid) = &self.last[side];
            let fill = |text: &str| {
                text.replace("{NS}", namespace)
                    .replace("{RV}", version)
                    .replace("{UID}", uid)
            };
            let (path, body) = (fill(path), fill(&body));
            let question = Question {
                method: &method,
                path: &path,
                headers: &[("content-type", media_type)],
                body: &body,
            };
            let mut reply = put(url, question).await;
            let known = serde_json::from_slice::<Value>(&reply.body).unwrap_or_default();
            let text = |place: &str| {
                known
                    .pointer(place)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            let last = (text("/metadata/resourceVersion"), text("/metadata/uid"));
            reply.body = String::from_utf8_lossy(&reply.body)
                .replace(namespace, "namespace")
                .into();
            if !last.1.is_empty() {
                self.last[side] = last;
            }
            replies.push(reply);
        }
        let question = Question {
            method: &method,
            path,
            headers: &[("content-type", media_type)],
            body: &body,
        };
        self.context
            .compare(question, &level(&replies[0]), &level(&replies[1]));
    }

    pub(crate) async fn post(&mut self, path: &str, object: &Value) {
        self.step(Method::POST, path, JSON, object).await;
    }

    pub(crate) async fn put(&mut self, path: &str, object: &Value) {
        self.step(Method::PUT, path, JSON, object).await;
    }

    pub(crate) async fn get(&mut self, path: &str) {
        self.step(Method::GET, path, JSON, &Value::Null).await;
    }

    pub(crate) async fn delete(&mut self, path: &str, options: &Value) {
        self.step(Method::DELETE, path, JSON, options).await;
    }
}

/// Returns a response without the values that depend on the object or the time. managedFields are
/// removed, too: the real server sets them, bench-server keeps the given ones.
fn level(reply: &Reply) -> Reply {
    let mut body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let text = match body {
        Value::Null => String::from_utf8_lossy(&reply.body).into_owned(),
        _ => {
            strip(&mut body);
            body.to_string()
        }
    };
    Reply {
        code: reply.code,
        headers: reply.headers.clone(),
        body: text.into(),
    }
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("managedFields");
            for name in [
                "uid",
                "resourceVersion",
                "creationTimestamp",
                "deletionTimestamp",
                "continue",
            ] {
                if let Some(text) = fields.get_mut(name).filter(|text| text.is_string()) {
                    *text = "some".into();
                }
            }
            // Words with three or more digits, like revisions and UIDs, are excluded from messages.
            if let Some(Value::String(message)) = fields.get_mut("message") {
                let words = message.split(' ').map(|word| {
                    let word_of_its_own = word.bytes().filter(u8::is_ascii_digit).count() < 3;
                    if word_of_its_own { word } else { "…" }
                });
                *message = words.collect::<Vec<_>>().join(" ");
            }
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Returns a pod with every field that a server would fill in.
pub(crate) fn pod(name: &str) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": name, "labels": {"app": "x", "tier": "y"}, "annotations": {"a": "1"}},
        "spec": {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{
                "name": "c", "image": "registry.invalid/i:1", "resources": {},
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
            }],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 0, "dnsPolicy": "ClusterFirst",
            "nodeName": "node-1", "securityContext": {}, "schedulerName": "default-scheduler", "enableServiceLinks": true,
        },
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    })
}

pub(crate) const PODS: &str = "/api/v1/namespaces/{NS}/pods";
pub(crate) const MAPS: &str = "/api/v1/namespaces/{NS}/configmaps";
pub(crate) const SECRETS: &str = "/api/v1/namespaces/{NS}/secrets";
pub(crate) const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/{NS}/leases";
pub(crate) const EVENTS: &str = "/api/v1/namespaces/{NS}/events";
pub(crate) const WIDGETS: &str = "/apis/bench.example.com/v1/namespaces/{NS}/widgets";
