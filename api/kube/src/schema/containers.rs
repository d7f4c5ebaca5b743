//! Containers: image, environment, probes, security context.
//!
//! Fields are in the order of JSON, with their protobuf numbers (core/v1 of Kubernetes 1.37).

use super::messages;
use super::meta::{LOCAL_OBJECT_REFERENCE, OBJECT_FIELD_SELECTOR, RESOURCE_FIELD_SELECTOR};

messages! {
    CONTAINER_PORT = "ContainerPort" {
         1 "name"          Str OmitZero,
         2 "hostPort"      Int32 OmitZero,
         3 "containerPort" Int32 Always,
         4 "protocol"      Str OmitZero,
         5 "hostIP"        Str OmitZero,
    }

    CONFIG_MAP_ENV_SOURCE = "ConfigMapEnvSource" {
         1 ""         Object(LOCAL_OBJECT_REFERENCE) Inline,
         2 "optional" Bool                           Optional,
    }

    SECRET_ENV_SOURCE = "SecretEnvSource" {
         1 ""         Object(LOCAL_OBJECT_REFERENCE) Inline,
         2 "optional" Bool                           Optional,
    }

    ENV_FROM_SOURCE = "EnvFromSource" {
         1 "prefix"       Str                           OmitZero,
         2 "configMapRef" Object(CONFIG_MAP_ENV_SOURCE) Optional,
         3 "secretRef"    Object(SECRET_ENV_SOURCE)     Optional,
    }

    CONFIG_MAP_KEY_SELECTOR = "ConfigMapKeySelector" {
         1 ""         Object(LOCAL_OBJECT_REFERENCE) Inline,
         2 "key"      Str                            Always,
         3 "optional" Bool                           Optional,
    }

    SECRET_KEY_SELECTOR = "SecretKeySelector" {
         1 ""         Object(LOCAL_OBJECT_REFERENCE) Inline,
         2 "key"      Str                            Always,
         3 "optional" Bool                           Optional,
    }

    FILE_KEY_SELECTOR = "FileKeySelector" {
         1 "volumeName" Str  Always,
         2 "path"       Str  Always,
         3 "key"        Str  Always,
         4 "optional"   Bool Optional,
    }

    ENV_VAR_SOURCE = "EnvVarSource" {
         1 "fieldRef"         Object(OBJECT_FIELD_SELECTOR)   Optional,
         2 "resourceFieldRef" Object(RESOURCE_FIELD_SELECTOR) Optional,
         3 "configMapKeyRef"  Object(CONFIG_MAP_KEY_SELECTOR) Optional,
         4 "secretKeyRef"     Object(SECRET_KEY_SELECTOR)     Optional,
         5 "fileKeyRef"       Object(FILE_KEY_SELECTOR)       Optional,
    }

    ENV_VAR = "EnvVar" {
         1 "name"      Str                    Always,
         2 "value"     Str                    OmitZero,
         3 "valueFrom" Object(ENV_VAR_SOURCE) Optional,
    }

    RESOURCE_CLAIM = "ResourceClaim" {
         1 "name"    Str Always,
         2 "request" Str OmitZero,
    }

    RESOURCE_REQUIREMENTS = "ResourceRequirements" {
         1 "limits"   MapQuantity            OmitZero,
         2 "requests" MapQuantity            OmitZero,
         3 "claims"   Object(RESOURCE_CLAIM) List,
    }

    CONTAINER_RESIZE_POLICY = "ContainerResizePolicy" {
         1 "resourceName"  Str Always,
         2 "restartPolicy" Str Always,
    }

    CONTAINER_RESTART_RULE_ON_EXIT_CODES = "ContainerRestartRuleOnExitCodes" {
         1 "operator" Str OmitZero,
         2 "values"   Int32 List,
    }

    CONTAINER_RESTART_RULE = "ContainerRestartRule" {
         1 "action"    Str                                          OmitZero,
         2 "exitCodes" Object(CONTAINER_RESTART_RULE_ON_EXIT_CODES) Optional,
    }

    VOLUME_MOUNT = "VolumeMount" {
         1 "name"              Str  Always,
         2 "readOnly"          Bool OmitZero,
         7 "recursiveReadOnly" Str  Optional,
         3 "mountPath"         Str  Always,
         4 "subPath"           Str  OmitZero,
         5 "mountPropagation"  Str  Optional,
         6 "subPathExpr"       Str  OmitZero,
         8 "bindMountOptions"  Str  List,
    }

    VOLUME_DEVICE = "VolumeDevice" {
         1 "name"       Str Always,
         2 "devicePath" Str Always,
    }

    EXEC_ACTION = "ExecAction" {
         1 "command" Str List,
    }

    HTTP_HEADER = "HTTPHeader" {
         1 "name"  Str Always,
         2 "value" Str Always,
    }

    HTTP_GET_ACTION = "HTTPGetAction" {
         1 "path"        Str                 OmitZero,
         2 "port"        IntOrString         Always,
         3 "host"        Str                 OmitZero,
         4 "scheme"      Str                 OmitZero,
         5 "httpHeaders" Object(HTTP_HEADER) List,
         6 "protocol"    Str                 Optional,
    }

    TCP_SOCKET_ACTION = "TCPSocketAction" {
         1 "port" IntOrString Always,
         2 "host" Str         OmitZero,
    }

    GRPC_ACTION = "GRPCAction" {
         1 "port"    Int32 Always,
         2 "service" Str OptionalOrNull,
         3 "mode"    Str Optional,
    }

    PROBE_HANDLER = "ProbeHandler" {
         1 "exec"      Object(EXEC_ACTION)       Optional,
         2 "httpGet"   Object(HTTP_GET_ACTION)   Optional,
         3 "tcpSocket" Object(TCP_SOCKET_ACTION) Optional,
         4 "grpc"      Object(GRPC_ACTION)       Optional,
    }

    PROBE = "Probe" {
         1 ""                              Object(PROBE_HANDLER) Inline,
         2 "initialDelaySeconds"           Int32                   OmitZero,
         3 "timeoutSeconds"                Int32                   OmitZero,
         4 "periodSeconds"                 Int32                   OmitZero,
         5 "successThreshold"              Int32                   OmitZero,
         6 "failureThreshold"              Int32                   OmitZero,
         7 "terminationGracePeriodSeconds" Int                   Optional,
    }

    SLEEP_ACTION = "SleepAction" {
         1 "seconds" Int Always,
    }

    LIFECYCLE_HANDLER = "LifecycleHandler" {
         1 "exec"      Object(EXEC_ACTION)       Optional,
         2 "httpGet"   Object(HTTP_GET_ACTION)   Optional,
         3 "tcpSocket" Object(TCP_SOCKET_ACTION) Optional,
         4 "sleep"     Object(SLEEP_ACTION)      Optional,
    }

    LIFECYCLE = "Lifecycle" {
         1 "postStart"  Object(LIFECYCLE_HANDLER) Optional,
         2 "preStop"    Object(LIFECYCLE_HANDLER) Optional,
         3 "stopSignal" Str                       Optional,
    }

    CAPABILITIES = "Capabilities" {
         1 "add"  Str List,
         2 "drop" Str List,
    }

    SE_LINUX_OPTIONS = "SELinuxOptions" {
         1 "user"  Str OmitZero,
         2 "role"  Str OmitZero,
         3 "type"  Str OmitZero,
         4 "level" Str OmitZero,
    }

    WINDOWS_SECURITY_CONTEXT_OPTIONS = "WindowsSecurityContextOptions" {
         1 "gmsaCredentialSpecName" Str  Optional,
         2 "gmsaCredentialSpec"     Str  Optional,
         3 "runAsUserName"          Str  Optional,
         4 "hostProcess"            Bool Optional,
    }

    SECCOMP_PROFILE = "SeccompProfile" {
         1 "type"             Str Always,
         2 "localhostProfile" Str Optional,
    }

    APP_ARMOR_PROFILE = "AppArmorProfile" {
         1 "type"             Str Always,
         2 "localhostProfile" Str Optional,
    }

    SECURITY_CONTEXT = "SecurityContext" {
         1 "capabilities"             Object(CAPABILITIES)                     Optional,
         2 "privileged"               Bool                                     Optional,
         3 "seLinuxOptions"           Object(SE_LINUX_OPTIONS)                 Optional,
        10 "windowsOptions"           Object(WINDOWS_SECURITY_CONTEXT_OPTIONS) Optional,
         4 "runAsUser"                Int                                      Optional,
         8 "runAsGroup"               Int                                      Optional,
         5 "runAsNonRoot"             Bool                                     Optional,
         6 "readOnlyRootFilesystem"   Bool                                     Optional,
         7 "allowPrivilegeEscalation" Bool                                     Optional,
         9 "procMount"                Str                                      Optional,
        11 "seccompProfile"           Object(SECCOMP_PROFILE)                  Optional,
        12 "appArmorProfile"          Object(APP_ARMOR_PROFILE)                Optional,
    }

    CONTAINER = "Container" {
         1 "name"                     Str                             Always,
         2 "image"                    Str                             OmitZero,
         3 "command"                  Str                             List,
         4 "args"                     Str                             List,
         5 "workingDir"               Str                             OmitZero,
         6 "ports"                    Object(CONTAINER_PORT)          List,
        19 "envFrom"                  Object(ENV_FROM_SOURCE)         List,
         7 "env"                      Object(ENV_VAR)                 List,
         8 "resources"                Object(RESOURCE_REQUIREMENTS)   Always,
        23 "resizePolicy"             Object(CONTAINER_RESIZE_POLICY) List,
        24 "restartPolicy"            Str                             Optional,
        25 "restartPolicyRules"       Object(CONTAINER_RESTART_RULE)  List,
         9 "volumeMounts"             Object(VOLUME_MOUNT)            List,
        21 "volumeDevices"            Object(VOLUME_DEVICE)           List,
        10 "livenessProbe"            Object(PROBE)                   Optional,
        11 "readinessProbe"           Object(PROBE)                   Optional,
        22 "startupProbe"             Object(PROBE)                   Optional,
        12 "lifecycle"                Object(LIFECYCLE)               Optional,
        13 "terminationMessagePath"   Str                             OmitZero,
        20 "terminationMessagePolicy" Str                             OmitZero,
        14 "imagePullPolicy"          Str                             OmitZero,
        15 "securityContext"          Object(SECURITY_CONTEXT)        Optional,
        16 "stdin"                    Bool                            OmitZero,
        17 "stdinOnce"                Bool                            OmitZero,
        18 "tty"                      Bool                            OmitZero,
    }

    EPHEMERAL_CONTAINER_COMMON = "EphemeralContainerCommon" {
         1 "name"                     Str                             Always,
         2 "image"                    Str                             OmitZero,
         3 "command"                  Str                             List,
         4 "args"                     Str                             List,
         5 "workingDir"               Str                             OmitZero,
         6 "ports"                    Object(CONTAINER_PORT)          List,
        19 "envFrom"                  Object(ENV_FROM_SOURCE)         List,
         7 "env"                      Object(ENV_VAR)                 List,
         8 "resources"                Object(RESOURCE_REQUIREMENTS)   Always,
        23 "resizePolicy"             Object(CONTAINER_RESIZE_POLICY) List,
        24 "restartPolicy"            Str                             Optional,
        25 "restartPolicyRules"       Object(CONTAINER_RESTART_RULE)  List,
         9 "volumeMounts"             Object(VOLUME_MOUNT)            List,
        21 "volumeDevices"            Object(VOLUME_DEVICE)           List,
        10 "livenessProbe"            Object(PROBE)                   Optional,
        11 "readinessProbe"           Object(PROBE)                   Optional,
        22 "startupProbe"             Object(PROBE)                   Optional,
        12 "lifecycle"                Object(LIFECYCLE)               Optional,
        13 "terminationMessagePath"   Str                             OmitZero,
        20 "terminationMessagePolicy" Str                             OmitZero,
        14 "imagePullPolicy"          Str                             OmitZero,
        15 "securityContext"          Object(SECURITY_CONTEXT)        Optional,
        16 "stdin"                    Bool                            OmitZero,
        17 "stdinOnce"                Bool                            OmitZero,
        18 "tty"                      Bool                            OmitZero,
    }

    EPHEMERAL_CONTAINER = "EphemeralContainer" {
         1 ""                    Object(EPHEMERAL_CONTAINER_COMMON) Inline,
         2 "targetContainerName" Str                                OmitZero,
    }
}
