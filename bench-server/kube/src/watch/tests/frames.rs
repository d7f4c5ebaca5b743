//! Tests of how events are encoded, in each representation.

use super::*;

#[tokio::test(start_paused = true)]
async fn an_event_is_encoded_once_for_all_who_watch() {
    let etcd = FakeEtcd::default();
    let tier = ready(&etcd, &[]).await;
    let mut clients = Vec::new();
    for i in 0..50 {
        let query = ["", "&labelSelector=a", "&labelSelector=!none"][i % 3];
        let path = format!("/api/v1/pods?watch=1&resourceVersion=1{query}");
        let mut client = Client::open(&tier.service, &path).await;
        assert!(client.is_silent().await);
        clients.push(client);
    }
    put_pod(&etcd, "pod", "node", json!({"a": "b"}));
    for client in &mut clients {
        assert_eq!(client.brief().await, "ADDED pod");
    }
    let line = "bench_watch_encodings_total{group=\"\",resource=\"pods\"}";
    assert_eq!(metric(&tier.service, line).await, 1.0);
}

/// Splits a protobuf watch into the type of each event and its object in an envelope.
fn protobuf_events(mut received: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut events = Vec::new();
    while let Some((length, rest)) = received.split_first_chunk::<4>() {
        let (event, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        received = rest;
        let field = |message, number| {
            find_bytes(message, number)
                .expect("a message")
                .expect("set")
        };
        let name = String::from_utf8(field(event, 1).to_vec()).expect("UTF-8");
        events.push((name, field(field(event, 2), 1).to_vec()));
    }
    events
}

#[tokio::test(start_paused = true)]
async fn protobuf_frames_say_what_json_lines_say() {
    let etcd = FakeEtcd::default();
    let path = format!("/api/v1/pods?watch=1&timeoutSeconds=1&{SIE}");
    // One object is large enough to be shared; the other is copied.
    put_pod(&etcd, "large", "node", json!({"l": "x".repeat(20_000)}));
    put_pod(&etcd, "small", "node", json!({}));
    let tier = ready(&etcd, &[]).await;
    let accept = [("accept", "application/vnd.kubernetes.protobuf;stream=watch")];
    let mut binary = Client::open_with(&tier.service, &path, &accept).await;
    let mut text = Client::open(&tier.service, &path).await;
    assert_eq!(
        binary.headers["content-type"],
        "application/vnd.kubernetes.protobuf;stream=watch"
    );
    let mut received = Vec::new();
    let first = binary.piece().await.expect("the state");
    received.extend(first);
    let mut lines = vec![text.next().await.expect("an event")];
    put_pod(&etcd, "large", "node", json!({"l": "y".repeat(20_000)}));
    delete(&etcd, "small");
    while let Some(piece) = binary.piece().await {
        received.extend(piece);
    }
    while let Some(line) = text.next().await {
        lines.push(line);
    }
    let events = protobuf_events(&received);
    assert_eq!(events.len(), 5);
    assert_eq!(events.len(), lines.len());
    for ((name, object), line) in events.iter().zip(&lines) {
        assert_eq!(*name, line["type"]);
        let raw = envelope::open(object).expect("an envelope");
        let mut json = Vec::new();
        let head = r#""kind":"Pod","apiVersion":"v1""#;
        kube_api::to_json(&schema::POD, raw, head, &mut json).expect("a pod");
        let object: Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(object, line["object"]);
    }
    let too_old = format!("{path}&resourceVersion=1").replace(SIE, "");
    let mut binary = Client::open_with(&tier.service, &too_old, &accept).await;
    let error = protobuf_events(&binary.piece().await.expect("an error"));
    assert_eq!(error[0].0, "ERROR");
    let kind = envelope::type_meta(&error[0].1).expect("an envelope");
    assert_eq!(kind, (&b"v1"[..], &b"Status"[..]));
}

/// If a frame has an envelope around its event, client-go ends the watch without an error, although
/// other readers accept it. Both vectors were written by apimachinery 0.37.2.
#[tokio::test(start_paused = true)]
async fn a_protobuf_frame_is_what_apimachinery_writes() {
    let bytes = |hex: &str| -> Vec<u8> {
        let pairs = hex.as_bytes().chunks(2);
        let digits = pairs.map(|pair| std::str::from_utf8(pair).expect("ASCII"));
        digits
            .map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal"))
            .collect()
    };
    let stored = bytes(
        "6b3873000a0f0a0276311209436f6e6669674d6170121e0a140a016112001a026e7322002a017532003800\
         420012060a016b1201761a002200",
    );
    let frame = bytes(
        "000000450a054144444544123c0a3a6b3873000a0f0a0276311209436f6e6669674d6170121f0a150a0161\
         12001a026e7322002a01753201323800420012060a016b1201761a002200",
    );
    let etcd = FakeEtcd::default();
    let revision = etcd.write(&[("/registry/configmaps/ns/a", Some(stored))]);
    assert_eq!(revision, 2, "the vector's");
    let tier = ready(&etcd, &[]).await;
    let accept = [("accept", "application/vnd.kubernetes.protobuf;stream=watch")];
    let path = "/api/v1/configmaps?watch=1";
    let mut state = Client::open_with(&tier.service, path, &accept).await;
    assert_eq!(state.piece().await, Some(frame.clone()), "of the state");
    // Live events are encoded by a different function.
    let uncached = ready(&etcd, &["--watch-cache=false"]).await;
    let path = format!("{path}&resourceVersion=1");
    let mut live = Client::open_with(&uncached.service, &path, &accept).await;
    assert_eq!(live.piece().await, Some(frame), "of an event");
}

#[tokio::test(start_paused = true)]
async fn tables_name_their_columns_once() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "one", "Running");
    put(&etcd, "a", "two", "Running");
    let tier = ready(&etcd, &[]).await;
    let accept = [(
        "accept",
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    )];
    let path = format!("/api/v1/pods?watch=1&{SIE}");
    let mut client = Client::open_with(&tier.service, &path, &accept).await;
    let mut names = Vec::new();
    for i in 0..4 {
        let event = client.next().await.expect("an event");
        let table = &event["object"];
        assert_eq!(
            (&table["kind"], &table["apiVersion"]),
            (&json!("Table"), &json!("meta.k8s.io/v1"))
        );
        assert_eq!(table["columnDefinitions"].is_array(), i == 0);
        revision(&event);
        let row = &table["rows"][0];
        names.push(format!(
            "{} {}",
            event["type"].as_str().expect("a type"),
            row["cells"][0]
        ));
        if i == 2 {
            let end = &row["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"];
            assert_eq!((&event["type"], end), (&json!("BOOKMARK"), &json!("true")));
            put(&etcd, "a", "three", "Running");
        }
    }
    assert_eq!(names[0], "ADDED \"one\"");
    assert_eq!(names[3], "ADDED \"three\"");

    // A watch that begins with a live event receives the columns with that event, and no other
    // watch receives them again.
    let current = etcd.current_revision(b"").await.expect("up");
    let path = format!("/api/v1/pods?watch=1&resourceVersion={current}");
    let mut late = Client::open_with(&tier.service, &path, &accept).await;
    assert!(late.is_silent().await);
    put(&etcd, "a", "four", "Running");
    let columns =
        |event: Option<Value>| event.expect("an event")["object"]["columnDefinitions"].is_array();
    assert!(columns(late.next().await));
    assert!(!columns(client.next().await));
    let error = "/api/v1/pods?watch=1&resourceVersion=1";
    let mut expired = Client::open_with(&tier.service, error, &accept).await;
    assert_eq!(
        expired.next().await.expect("an event")["object"]["kind"],
        "Status"
    );

    for accept in [
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    ] {
        let path = format!("/api/v1/pods?watch=1&{SIE}");
        let mut client = Client::open_with(&tier.service, &path, &[("accept", accept)]).await;
        let piece = client.piece().await.expect("the state");
        if accept.starts_with("application/json") {
            let first = piece.split(|byte| *byte == b'\n').next().expect("a line");
            let event: Value = serde_json::from_slice(first).expect("an event");
            assert_eq!(event["object"]["kind"], "PartialObjectMetadata");
            assert_eq!(event["object"].get("status"), None);
        } else {
            let events = protobuf_events(&piece);
            assert_eq!(events.len(), 5);
            let kind = envelope::type_meta(&events[4].1).expect("an envelope");
            assert_eq!(
                kind,
                (&b"meta.k8s.io/v1"[..], &b"PartialObjectMetadata"[..])
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn custom_resources_are_watched_as_they_are_stored() {
    let etcd = FakeEtcd::default();
    let widget = |size: u64| {
        let widget = json!({
            "apiVersion": "bench.example.com/v1", "kind": "Widget",
            "metadata": {"name": "w", "namespace": "a"}, "spec": {"size": size},
        });
        Some(widget.to_string().into_bytes())
    };
    etcd.write(&[("/registry/bench.example.com/widgets/a/w", widget(1))]);
    let tier = ready(&etcd, &[]).await;
    let path = format!("/apis/bench.example.com/v1/widgets?watch=1&{SIE}");
    let mut client = Client::open(&tier.service, &path).await;
    assert_eq!(client.brief().await, "ADDED w");
    let end = client.next().await.expect("a bookmark");
    assert_eq!(end["object"]["kind"], "Widget");
    let annotations = &end["object"]["metadata"]["annotations"];
    assert_eq!(annotations["k8s.io/initial-events-end"], "true");
    let changed = etcd.write(&[("/registry/bench.example.com/widgets/a/w", widget(2))]);
    let event = client.next().await.expect("an event");
    assert_eq!(
        (&event["type"], revision(&event)),
        (&json!("MODIFIED"), changed)
    );
    assert_eq!(event["object"]["spec"]["size"], 2);
    let gone = etcd.write(&[("/registry/bench.example.com/widgets/a/w", None)]);
    let event = client.next().await.expect("an event");
    assert_eq!(
        (&event["type"], revision(&event)),
        (&json!("DELETED"), gone)
    );
}

#[tokio::test(start_paused = true)]
async fn a_compressed_watch_is_read_event_by_event() {
    use std::io::Read;
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "one", "Running");
    let tier = ready(&etcd, &[]).await;
    let gzip = [("accept-encoding", "deflate, gzip")];
    let path = format!("/api/v1/pods?watch=1&{SIE}");
    let mut client = Client::open_with(&tier.service, &path, &gzip).await;
    assert_eq!(client.headers["content-encoding"], "gzip");
    assert_eq!(client.headers["vary"], "Accept-Encoding");
    let mut received = client.piece().await.expect("the state");
    put(&etcd, "a", "two", "Running");
    let second = client.piece().await.expect("an event");
    // The next member has begun and is incomplete, which a decoder reports as an error.
    let plain = |bytes: &[u8]| {
        let mut text = Vec::new();
        let mut decoder = flate2::read::MultiGzDecoder::new(bytes);
        let end = decoder.read_to_end(&mut text).expect_err("goes on");
        assert_eq!(end.kind(), std::io::ErrorKind::UnexpectedEof);
        String::from_utf8(text).expect("UTF-8")
    };
    assert_eq!(plain(&received).lines().count(), 2);
    received.extend(second);
    assert_eq!(plain(&received).lines().count(), 3);

    let path = "/api/v1/pods?watch=1";
    let plain = Client::open_with(&tier.service, path, &gzip).await;
    assert!(
        !plain.headers.contains_key("content-encoding"),
        "no watch-list"
    );
    let gated = ready(&etcd, &["--feature-gates=WatchListCompression=false"]).await;
    let path = format!("/api/v1/pods?watch=1&{SIE}");
    let plain = Client::open_with(&gated.service, &path, &gzip).await;
    assert!(!plain.headers.contains_key("content-encoding"));
}
