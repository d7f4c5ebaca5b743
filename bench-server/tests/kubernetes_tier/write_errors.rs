//! Writes that are refused, with the code and the reason of each error.

use http::Method;
use serde_json::json;

use crate::harness::{ONE, TestCluster, cases};
use crate::http::Reply;
use crate::writes::CONFIG_MAPS;

cases! {
    every_error_has_its_code on ONE;
}

async fn every_error_has_its_code(cluster: TestCluster) {
    cluster.config_map("ns", "there").await;
    let named = |name: &str| json!({"metadata": {"name": name}});
    let check = |reply: Reply, code: u16, reason: &str, about: &str| {
        assert_eq!(reply.failure(), (code, reason.to_owned()), "{about}");
    };
    for (object, code, reason) in [
        (named("there"), 409, "AlreadyExists"),
        (named(""), 422, "Invalid"),
        (named("Not_A_Name"), 422, "Invalid"),
        (
            json!({"metadata": {"name": "x", "namespace": "elsewhere"}}),
            400,
            "BadRequest",
        ),
        (
            json!({"kind": "Secret", "metadata": {"name": "x"}}),
            400,
            "BadRequest",
        ),
        (
            json!({"apiVersion": "v2", "metadata": {"name": "x"}}),
            400,
            "BadRequest",
        ),
        (json!({"metadata": "x"}), 400, "BadRequest"),
        (
            json!({"metadata": {"name": "x"}, "data": {"k": 1}}),
            400,
            "BadRequest",
        ),
        (json!([]), 400, "BadRequest"),
        (
            json!({"metadata": {"name": "x", "resourceVersion": "5"}}),
            500,
            "",
        ),
    ] {
        check(
            cluster.post(CONFIG_MAPS, &object).await,
            code,
            reason,
            &object.to_string(),
        );
    }
    let unknown = json!({"metadata": {"name": "x"}, "extra": 1});
    check(
        cluster
            .post(&format!("{CONFIG_MAPS}?fieldValidation=Strict"), &unknown)
            .await,
        400,
        "BadRequest",
        "strict",
    );
    check(
        cluster
            .post(&format!("{CONFIG_MAPS}?dryRun=Some"), &unknown)
            .await,
        422,
        "Invalid",
        "dryRun",
    );
    let warned = cluster.post(CONFIG_MAPS, &unknown).await.ok();
    assert_eq!(
        warned.headers["warning"],
        "299 - \"unknown field \\\"extra\\\"\""
    );
    let large = json!({"metadata": {"name": "large"}, "data": {"k": "x".repeat(4 << 20)}});
    check(
        cluster.post(CONFIG_MAPS, &large).await,
        413,
        "RequestEntityTooLarge",
        "4 MiB",
    );
    let form = cluster
        .request(
            Method::POST,
            CONFIG_MAPS,
            "application/x-www-form-urlencoded",
            "a=b",
        )
        .await;
    check(form, 415, "UnsupportedMediaType", "a form");
    check(
        cluster
            .request(
                Method::POST,
                CONFIG_MAPS,
                "application/json",
                "{\"metadata\":",
            )
            .await,
        400,
        "BadRequest",
        "cut",
    );
    let path = format!("{CONFIG_MAPS}/there");
    check(
        cluster.put(&path, &named("other")).await,
        400,
        "BadRequest",
        "another name",
    );
    check(
        cluster
            .put(
                &path,
                &json!({"metadata": {"name": "there", "uid": "other"}}),
            )
            .await,
        409,
        "Conflict",
        "another uid",
    );
    check(
        cluster
            .patch(&format!("{CONFIG_MAPS}/none"), &json!({}))
            .await,
        404,
        "NotFound",
        "patch of none",
    );
    check(
        cluster.post(&path, &named("there")).await,
        405,
        "MethodNotAllowed",
        "POST of an object",
    );
    check(
        cluster.put(CONFIG_MAPS, &named("x")).await,
        405,
        "MethodNotAllowed",
        "PUT of a collection",
    );
}
