//! Discovery: checks that what bench-server's tier lists is also in the real server's documents.

use ::http::Method;
use serde_json::Value;

use crate::case::{CaseContext, cases};
use crate::compare::{Answer, Question, differences};

cases! {
    groups_versions_and_resources once;
    aggregated_documents once;
    health_and_version once;
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Returns the part of `real` that corresponds to `ours`; entries of lists are matched by name.
fn within(real: &Value, ours: &Value) -> Value {
    match (real, ours) {
        (Value::Array(theirs), Value::Array(our)) if our.iter().all(Value::is_object) => {
            let name = |value: &Value| {
                let named = [
                    "/name",
                    "/resource",
                    "/version",
                    "/metadata/name",
                    "/subresource",
                    "/groupVersion",
                ];
                named.iter().find_map(|place| value.pointer(place).cloned())
            };
            let found = our.iter().map(|our| {
                let theirs = theirs.iter().find(|theirs| name(theirs) == name(our));
                theirs.map_or(Value::Null, |theirs| within(theirs, our))
            });
            found.collect()
        }
        (Value::Object(theirs), Value::Object(our)) => {
            let field = |(name, theirs): (&String, &Value)| {
                let below = our
                    .get(name)
                    .map_or(theirs.clone(), |our| within(theirs, our));
                (name.clone(), below)
            };
            Value::Object(theirs.iter().map(field).collect())
        }
        _ => real.clone(),
    }
}

async fn compare(context: &CaseContext<'_>, path: &str, accept: &str) {
    let headers = [("accept", accept)];
    let question = Question {
        method: &::http::Method::GET,
        path,
        headers: &headers,
        body: "",
    };
    let mut real = crate::case::put(&context.world.real.url, question).await;
    let ours = crate::case::put(context.world.our_url(), question).await;
    if real.code == 200 && ours.code == 200 {
        real.body = within(&real.json(), &ours.json()).to_string().into();
        // Their fields may be in another order than those of a map.
        let (theirs, our) = (Answer::new(&real), Answer::new(&ours));
        if differences(&theirs, &our).is_empty() {
            return;
        }
    }
    context.compare(question, &real, &ours);
}

async fn groups_versions_and_resources(context: &CaseContext<'_>) {
    for path in [
        "/api",
        "/api/",
        "/apis",
        "/api/v1",
        "/apis/coordination.k8s.io",
        "/apis/coordination.k8s.io/v1",
        "/apis/bench.example.com",
        "/apis/bench.example.com/v1",
        "/api/v2",
        "/apis/nothing.example.com",
        "/apis/nothing.example.com/v1",
    ] {
        compare(context, path, "application/json").await;
        compare(context, path, "").await;
    }
}

async fn aggregated_documents(context: &CaseContext<'_>) {
    for path in ["/api", "/apis"] {
        compare(context, path, AGGREGATED).await;
        compare(context, path, &format!("{AGGREGATED},application/json")).await;
        compare(context, path, &format!("application/json,{AGGREGATED}")).await;
        revalidate(context, path).await;
    }
}

/// Each server's own entity tag is answered with 304, and another one with the document.
async fn revalidate(context: &CaseContext<'_>, path: &str) {
    for url in [&*context.world.real.url, context.world.our_url()] {
        let ask = async |tag: &str| {
            let headers = [("accept", AGGREGATED), ("if-none-match", tag)];
            let question = Question {
                method: &Method::GET,
                path,
                headers: &headers,
                body: "",
            };
            crate::case::put(url, question).await
        };
        let whole = ask("\"other\"").await;
        let tag = whole.headers.get("etag").expect("a tag").clone();
        assert_eq!(whole.code, 200, "{url}");
        let held = ask(tag.to_str().expect("text")).await;
        assert_eq!(held.code, 304, "{url}");
        assert_eq!(held.headers.get("etag"), Some(&tag), "{url}");
        assert!(held.body.is_empty(), "{url}");
    }
}

async fn health_and_version(context: &CaseContext<'_>) {
    for path in [
        "/healthz",
        "/livez",
        "/readyz",
        "/healthz/ping",
        "/readyz/ping",
        "/readyz/none",
    ] {
        for method in [Method::GET, Method::HEAD, Method::POST] {
            let question = Question {
                method: &method,
                path,
                headers: &[],
                body: "",
            };
            context.ask(question).await;
        }
    }
    compare(context, "/version", "").await;
}
