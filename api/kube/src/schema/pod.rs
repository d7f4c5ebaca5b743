//! Pods and ConfigMaps, and the scheduling constraints of pods.
//!
//! Fields are in the order of JSON, with their protobuf numbers (core/v1 of Kubernetes 1.37).

use super::containers::{
    APP_ARMOR_PROFILE, CONTAINER, EPHEMERAL_CONTAINER, RESOURCE_REQUIREMENTS, SE_LINUX_OPTIONS,
    SECCOMP_PROFILE, WINDOWS_SECURITY_CONTEXT_OPTIONS,
};
use super::messages;
use super::meta::{LABEL_SELECTOR, LIST_META, LOCAL_OBJECT_REFERENCE, OBJECT_META};
use super::status::POD_STATUS;
use super::volumes::VOLUME;

messages! {
    SYSCTL = "Sysctl" {
         1 "name"  Str Always,
         2 "value" Str Always,
    }

    POD_SECURITY_CONTEXT = "PodSecurityContext" {
         1 "seLinuxOptions"           Object(SE_LINUX_OPTIONS)                 Optional,
         8 "windowsOptions"           Object(WINDOWS_SECURITY_CONTEXT_OPTIONS) Optional,
         2 "runAsUser"                Int                                      Optional,
         6 "runAsGroup"               Int                                      Optional,
         3 "runAsNonRoot"             Bool                                     Optional,
         4 "supplementalGroups"       Int                                      List,
        12 "supplementalGroupsPolicy" Str                                      Optional,
         5 "fsGroup"                  Int                                      Optional,
         7 "sysctls"                  Object(SYSCTL)                           List,
         9 "fsGroupChangePolicy"      Str                                      Optional,
        10 "seccompProfile"           Object(SECCOMP_PROFILE)                  Optional,
        11 "appArmorProfile"          Object(APP_ARMOR_PROFILE)                Optional,
        13 "seLinuxChangePolicy"      Str                                      Optional,
    }

    NODE_SELECTOR_REQUIREMENT = "NodeSelectorRequirement" {
         1 "key"      Str Always,
         2 "operator" Str Always,
         3 "values"   Str List,
    }

    NODE_SELECTOR_TERM = "NodeSelectorTerm" {
         1 "matchExpressions" Object(NODE_SELECTOR_REQUIREMENT) List,
         2 "matchFields"      Object(NODE_SELECTOR_REQUIREMENT) List,
    }

    NODE_SELECTOR = "NodeSelector" {
         1 "nodeSelectorTerms" Object(NODE_SELECTOR_TERM) ListOrNull,
    }

    PREFERRED_SCHEDULING_TERM = "PreferredSchedulingTerm" {
         1 "weight"     Int32                        Always,
         2 "preference" Object(NODE_SELECTOR_TERM) Always,
    }

    NODE_AFFINITY = "NodeAffinity" {
         1 "requiredDuringSchedulingIgnoredDuringExecution"  Object(NODE_SELECTOR)             Optional,
         2 "preferredDuringSchedulingIgnoredDuringExecution" Object(PREFERRED_SCHEDULING_TERM) List,
    }

    POD_AFFINITY_TERM = "PodAffinityTerm" {
         1 "labelSelector"     Object(LABEL_SELECTOR) Optional,
         2 "namespaces"        Str                    List,
         3 "topologyKey"       Str                    Always,
         4 "namespaceSelector" Object(LABEL_SELECTOR) Optional,
         5 "matchLabelKeys"    Str                    List,
         6 "mismatchLabelKeys" Str                    List,
    }

    WEIGHTED_POD_AFFINITY_TERM = "WeightedPodAffinityTerm" {
         1 "weight"          Int32                       Always,
         2 "podAffinityTerm" Object(POD_AFFINITY_TERM) Always,
    }

    POD_AFFINITY = "PodAffinity" {
         1 "requiredDuringSchedulingIgnoredDuringExecution"  Object(POD_AFFINITY_TERM)          List,
         2 "preferredDuringSchedulingIgnoredDuringExecution" Object(WEIGHTED_POD_AFFINITY_TERM) List,
    }

    POD_ANTI_AFFINITY = "PodAntiAffinity" {
         1 "requiredDuringSchedulingIgnoredDuringExecution"  Object(POD_AFFINITY_TERM)          List,
         2 "preferredDuringSchedulingIgnoredDuringExecution" Object(WEIGHTED_POD_AFFINITY_TERM) List,
    }

    AFFINITY = "Affinity" {
         1 "nodeAffinity"    Object(NODE_AFFINITY)     Optional,
         2 "podAffinity"     Object(POD_AFFINITY)      Optional,
         3 "podAntiAffinity" Object(POD_ANTI_AFFINITY) Optional,
    }

    TOLERATION = "Toleration" {
         1 "key"               Str OmitZero,
         2 "operator"          Str OmitZero,
         3 "value"             Str OmitZero,
         4 "effect"            Str OmitZero,
         5 "tolerationSeconds" Int Optional,
    }

    HOST_ALIAS = "HostAlias" {
         1 "ip"        Str Always,
         2 "hostnames" Str List,
    }

    POD_DNS_CONFIG_OPTION = "PodDNSConfigOption" {
         1 "name"  Str OmitZero,
         2 "value" Str Optional,
    }

    POD_DNS_CONFIG = "PodDNSConfig" {
         1 "nameservers" Str                           List,
         2 "searches"    Str                           List,
         3 "options"     Object(POD_DNS_CONFIG_OPTION) List,
    }

    POD_READINESS_GATE = "PodReadinessGate" {
         1 "conditionType" Str Always,
    }

    TOPOLOGY_SPREAD_CONSTRAINT = "TopologySpreadConstraint" {
         1 "maxSkew"            Int32                    Always,
         2 "topologyKey"        Str                    Always,
         3 "whenUnsatisfiable"  Str                    Always,
         4 "labelSelector"      Object(LABEL_SELECTOR) Optional,
         5 "minDomains"         Int32                    Optional,
         6 "nodeAffinityPolicy" Str                    Optional,
         7 "nodeTaintsPolicy"   Str                    Optional,
         8 "matchLabelKeys"     Str                    List,
    }

    POD_OS = "PodOS" {
         1 "name" Str Always,
    }

    POD_SCHEDULING_GATE = "PodSchedulingGate" {
         1 "name" Str Always,
    }

    POD_RESOURCE_CLAIM = "PodResourceClaim" {
         1 "name"                      Str Always,
         3 "resourceClaimName"         Str Optional,
         4 "resourceClaimTemplateName" Str Optional,
    }

    POD_SCHEDULING_GROUP = "PodSchedulingGroup" {
         1 "podGroupName" Str Optional,
    }

    EVICTION_RESPONDER = "EvictionResponder" {
         1 "name"     Str Always,
         2 "priority" Int32 OptionalOrNull,
    }

    POD_SPEC = "PodSpec" {
         1 "volumes"                       Object(VOLUME)                     List,
        20 "initContainers"                Object(CONTAINER)                  List,
         2 "containers"                    Object(CONTAINER)                  ListOrNull,
        34 "ephemeralContainers"           Object(EPHEMERAL_CONTAINER)        List,
         3 "restartPolicy"                 Str                                OmitZero,
         4 "terminationGracePeriodSeconds" Int                                Optional,
         5 "activeDeadlineSeconds"         Int                                Optional,
         6 "dnsPolicy"                     Str                                OmitZero,
         7 "nodeSelector"                  MapStr                             OmitZero,
         8 "serviceAccountName"            Str                                OmitZero,
         9 "serviceAccount"                Str                                OmitZero,
        21 "automountServiceAccountToken"  Bool                               Optional,
        10 "nodeName"                      Str                                OmitZero,
        11 "hostNetwork"                   Bool                               OmitZero,
        12 "hostPID"                       Bool                               OmitZero,
        13 "hostIPC"                       Bool                               OmitZero,
        27 "shareProcessNamespace"         Bool                               Optional,
        14 "securityContext"               Object(POD_SECURITY_CONTEXT)       Optional,
        15 "imagePullSecrets"              Object(LOCAL_OBJECT_REFERENCE)     List,
        16 "hostname"                      Str                                OmitZero,
        17 "subdomain"                     Str                                OmitZero,
        18 "affinity"                      Object(AFFINITY)                   Optional,
        19 "schedulerName"                 Str                                OmitZero,
        22 "tolerations"                   Object(TOLERATION)                 List,
        23 "hostAliases"                   Object(HOST_ALIAS)                 List,
        24 "priorityClassName"             Str                                OmitZero,
        25 "priority"                      Int32                                Optional,
        26 "dnsConfig"                     Object(POD_DNS_CONFIG)             Optional,
        28 "readinessGates"                Object(POD_READINESS_GATE)         List,
        29 "runtimeClassName"              Str                                Optional,
        30 "enableServiceLinks"            Bool                               Optional,
        31 "preemptionPolicy"              Str                                Optional,
        32 "overhead"                      MapQuantity                        OmitZero,
        33 "topologySpreadConstraints"     Object(TOPOLOGY_SPREAD_CONSTRAINT) List,
        35 "setHostnameAsFQDN"             Bool                               Optional,
        36 "os"                            Object(POD_OS)                     Optional,
        37 "hostUsers"                     Bool                               Optional,
        38 "schedulingGates"               Object(POD_SCHEDULING_GATE)        List,
        39 "resourceClaims"                Object(POD_RESOURCE_CLAIM)         List,
        40 "resources"                     Object(RESOURCE_REQUIREMENTS)      Optional,
        41 "hostnameOverride"              Str                                Optional,
        43 "schedulingGroup"               Object(POD_SCHEDULING_GROUP)       Optional,
        44 "evictionResponders"            Object(EVICTION_RESPONDER)         List,
    }

    POD = "Pod" {
         1 "metadata" Object(OBJECT_META) Always,
         2 "spec"     Object(POD_SPEC)    Always,
         3 "status"   Object(POD_STATUS)  Always,
    }

    CONFIG_MAP = "ConfigMap" {
         1 "metadata"   Object(OBJECT_META) Always,
         4 "immutable"  Bool                Optional,
         2 "data"       MapStr              OmitZero,
         3 "binaryData" MapBytes            OmitZero,
    }
    POD_LIST = "PodList" {
         1 "metadata" Object(LIST_META) Always,
         2 "items"    Object(POD)       ListOrNull,
    }

    CONFIG_MAP_LIST = "ConfigMapList" {
         1 "metadata" Object(LIST_META)  Always,
         2 "items"    Object(CONFIG_MAP) ListOrNull,
    }
}
