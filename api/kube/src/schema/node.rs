//! Nodes: capacity, and the status that the kubelet reports.
//!
//! Fields are in the order of JSON, with their protobuf numbers (core/v1 of Kubernetes 1.37).

use super::messages;
use super::meta::{LIST_META, OBJECT_META};

messages! {
    TAINT = "Taint" {
         1 "key"       Str  Always,
         2 "value"     Str  OmitZero,
         3 "effect"    Str  Always,
         4 "timeAdded" Time Optional,
    }

    CONFIG_MAP_NODE_CONFIG_SOURCE = "ConfigMapNodeConfigSource" {
         1 "namespace"        Str Always,
         2 "name"             Str Always,
         3 "uid"              Str OmitZero,
         4 "resourceVersion"  Str OmitZero,
         5 "kubeletConfigKey" Str Always,
    }

    NODE_CONFIG_SOURCE = "NodeConfigSource" {
         2 "configMap" Object(CONFIG_MAP_NODE_CONFIG_SOURCE) Optional,
    }

    NODE_SPEC = "NodeSpec" {
         1 "podCIDR"       Str                        OmitZero,
         7 "podCIDRs"      Str                        List,
         3 "providerID"    Str                        OmitZero,
         4 "unschedulable" Bool                       OmitZero,
         5 "taints"        Object(TAINT)              List,
         6 "configSource"  Object(NODE_CONFIG_SOURCE) Optional,
         2 "externalID"    Str                        OmitZero,
    }

    NODE_CONDITION = "NodeCondition" {
         1 "type"               Str  Always,
         2 "status"             Str  Always,
         3 "lastHeartbeatTime"  Time Always,
         4 "lastTransitionTime" Time Always,
         5 "reason"             Str  OmitZero,
         6 "message"            Str  OmitZero,
    }

    NODE_ADDRESS = "NodeAddress" {
         1 "type"    Str Always,
         2 "address" Str Always,
    }

    DAEMON_ENDPOINT = "DaemonEndpoint" {
         1 "Port" Int32 Always,
    }

    NODE_DAEMON_ENDPOINTS = "NodeDaemonEndpoints" {
         1 "kubeletEndpoint" Object(DAEMON_ENDPOINT) Always,
    }

    NODE_SWAP_STATUS = "NodeSwapStatus" {
         1 "capacity" Int Optional,
    }

    NODE_SYSTEM_INFO = "NodeSystemInfo" {
         1 "machineID"               Str                      Always,
         2 "systemUUID"              Str                      Always,
         3 "bootID"                  Str                      Always,
         4 "kernelVersion"           Str                      Always,
         5 "osImage"                 Str                      Always,
         6 "containerRuntimeVersion" Str                      Always,
         7 "kubeletVersion"          Str                      Always,
         8 "kubeProxyVersion"        Str                      Always,
         9 "operatingSystem"         Str                      Always,
        10 "architecture"            Str                      Always,
        11 "swap"                    Object(NODE_SWAP_STATUS) Optional,
    }

    CONTAINER_IMAGE = "ContainerImage" {
         1 "names"     Str ListOrNull,
         2 "sizeBytes" Int OmitZero,
    }

    ATTACHED_VOLUME = "AttachedVolume" {
         1 "name"       Str Always,
         2 "devicePath" Str Always,
    }

    NODE_CONFIG_STATUS = "NodeConfigStatus" {
         1 "assigned"      Object(NODE_CONFIG_SOURCE) Optional,
         2 "active"        Object(NODE_CONFIG_SOURCE) Optional,
         3 "lastKnownGood" Object(NODE_CONFIG_SOURCE) Optional,
         4 "error"         Str                        OmitZero,
    }

    NODE_RUNTIME_HANDLER_FEATURES = "NodeRuntimeHandlerFeatures" {
         1 "recursiveReadOnlyMounts" Bool Optional,
         2 "userNamespaces"          Bool Optional,
    }

    NODE_RUNTIME_HANDLER = "NodeRuntimeHandler" {
         1 "name"     Str                                   Always,
         2 "features" Object(NODE_RUNTIME_HANDLER_FEATURES) Optional,
    }

    NODE_FEATURES = "NodeFeatures" {
         1 "supplementalGroupsPolicy" Bool Optional,
    }

    NODE_STATUS = "NodeStatus" {
         1 "capacity"         MapQuantity                   OmitZero,
         2 "allocatable"      MapQuantity                   OmitZero,
         3 "phase"            Str                           OmitZero,
         4 "conditions"       Object(NODE_CONDITION)        List,
         5 "addresses"        Object(NODE_ADDRESS)          List,
         6 "daemonEndpoints"  Object(NODE_DAEMON_ENDPOINTS) Always,
         7 "nodeInfo"         Object(NODE_SYSTEM_INFO)      Always,
         8 "images"           Object(CONTAINER_IMAGE)       List,
         9 "volumesInUse"     Str                           List,
        10 "volumesAttached"  Object(ATTACHED_VOLUME)       List,
        11 "config"           Object(NODE_CONFIG_STATUS)    Optional,
        12 "runtimeHandlers"  Object(NODE_RUNTIME_HANDLER)  List,
        13 "features"         Object(NODE_FEATURES)         Optional,
        14 "declaredFeatures" Str                           List,
    }

    NODE = "Node" {
         1 "metadata" Object(OBJECT_META) Always,
         2 "spec"     Object(NODE_SPEC)   Always,
         3 "status"   Object(NODE_STATUS) Always,
    }

    NODE_LIST = "NodeList" {
         1 "metadata" Object(LIST_META) Always,
         2 "items"    Object(NODE)      ListOrNull,
    }
}
