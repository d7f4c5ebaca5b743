//! Converts an object of each kind, with every type of field, from JSON to protobuf and back; the
//! text must be the same byte for byte.

use serde_json::Value;

use super::*;
use crate::{from_json, to_json};

/// Checks that an apiserver's JSON is unchanged by a conversion to protobuf and back.
fn survives(message: &'static Message, json: &str) {
    let value: Value = serde_json::from_str(json).expect("JSON");
    let mut raw = Vec::new();
    from_json(message, value.as_object().expect("an object"), &mut raw).expect("fits the schema");
    let mut back = Vec::new();
    to_json(message, &raw, "", &mut back).expect("well formed");
    assert_eq!(
        String::from_utf8(back).expect("UTF-8"),
        json,
        "{}",
        message.name()
    );
}

#[test]
fn a_node_survives() {
    survives(
        &NODE,
        concat!(
            r#"{"metadata":{"name":"n","creationTimestamp":"2026-02-03T04:05:06Z"},"#,
            r#""spec":{"podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24"],"providerID":"p://1","unschedulable":true,"#,
            r#""taints":[{"key":"k","value":"v","effect":"NoSchedule","timeAdded":"2026-02-03T04:05:06Z"},{"key":"l","effect":"NoExecute"}]},"#,
            r#""status":{"capacity":{"cpu":"8","memory":"32Gi"},"allocatable":{"cpu":"7900m"},"#,
            r#""conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":"2026-02-03T04:05:06Z","lastTransitionTime":null,"reason":"KubeletReady"}],"#,
            r#""addresses":[{"type":"InternalIP","address":"10.1.2.3"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":10250}},"#,
            r#""nodeInfo":{"machineID":"m","systemUUID":"s","bootID":"b","kernelVersion":"6.1","osImage":"Linux","#,
            r#""containerRuntimeVersion":"containerd://2.0","kubeletVersion":"v1.37.0","kubeProxyVersion":"","operatingSystem":"linux","architecture":"amd64","swap":{"capacity":0}},"#,
            r#""images":[{"names":["a","b"],"sizeBytes":123456789012},{"names":null}],"volumesInUse":["v"],"volumesAttached":[{"name":"v","devicePath":"/dev/x"}],"#,
            r#""runtimeHandlers":[{"name":"","features":{"recursiveReadOnlyMounts":true,"userNamespaces":false}}],"features":{"supplementalGroupsPolicy":true},"declaredFeatures":["f"]}}"#,
        ),
    );
    survives(
        &NODE,
        concat!(
            r#"{"metadata":{},"spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"","systemUUID":"","bootID":"","#,
            r#""kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}}"#,
        ),
    );
}

#[test]
fn a_secret_survives() {
    survives(
        &SECRET,
        r#"{"metadata":{"name":"s"},"immutable":false,"data":{"a":"AAEC/w==","b":""},"stringData":{"c":"d"},"type":"Opaque"}"#,
    );
    survives(&SECRET, r#"{"metadata":{}}"#);
}

#[test]
fn a_namespace_survives() {
    survives(
        &NAMESPACE,
        concat!(
            r#"{"metadata":{"name":"a"},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active","#,
            r#""conditions":[{"type":"NamespaceDeletionContentFailure","status":"False","lastTransitionTime":"2026-02-03T04:05:06Z","message":"m"}]}}"#,
        ),
    );
    survives(&NAMESPACE, r#"{"metadata":{},"spec":{},"status":{}}"#);
}

#[test]
fn an_event_survives() {
    survives(
        &EVENT,
        concat!(
            r#"{"metadata":{"name":"e"},"involvedObject":{"kind":"Pod","namespace":"a","name":"p","uid":"u","apiVersion":"v1","resourceVersion":"5","fieldPath":"spec"},"#,
            r#""reason":"Started","message":"m","source":{"component":"kubelet","host":"n"},"firstTimestamp":"2026-02-03T04:05:06Z","lastTimestamp":"2026-02-03T04:05:07Z","#,
            r#""count":3,"type":"Normal","eventTime":"2026-02-03T04:05:06.000123Z","series":{"count":2,"lastObservedTime":"2026-02-03T04:05:06.999999Z"},"#,
            r#""action":"act","related":{"kind":"Node"},"reportingComponent":"c","reportingInstance":"i"}"#,
        ),
    );
    survives(
        &EVENT,
        r#"{"metadata":{},"involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":""}"#,
    );
}

#[test]
fn a_lease_survives() {
    survives(
        &LEASE,
        concat!(
            r#"{"metadata":{"name":"l"},"spec":{"holderIdentity":"n","leaseDurationSeconds":40,"acquireTime":"2026-02-03T04:05:06.000000Z","#,
            r#""renewTime":"2026-02-03T04:05:06.654321Z","leaseTransitions":0,"strategy":"OldestEmulationVersion","preferredHolder":"o"}}"#,
        ),
    );
    survives(&LEASE, r#"{"metadata":{},"spec":{}}"#);
}
