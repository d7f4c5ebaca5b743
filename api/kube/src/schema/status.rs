//! The status of a pod, as the kubelet and the scheduler report it.
//!
//! Fields are in the order of JSON, with their protobuf numbers (core/v1 of Kubernetes 1.37).

use super::containers::RESOURCE_REQUIREMENTS;
use super::messages;

messages! {
    POD_CONDITION = "PodCondition" {
         1 "type"               Str  Always,
         7 "observedGeneration" Int  OmitZero,
         2 "status"             Str  Always,
         3 "lastProbeTime"      Time Always,
         4 "lastTransitionTime" Time Always,
         5 "reason"             Str  OmitZero,
         6 "message"            Str  OmitZero,
    }

    HOST_IP = "HostIP" {
         1 "ip" Str Always,
    }

    POD_IP = "PodIP" {
         1 "ip" Str Always,
    }

    CONTAINER_STATE_WAITING = "ContainerStateWaiting" {
         1 "reason"  Str OmitZero,
         2 "message" Str OmitZero,
    }

    CONTAINER_STATE_RUNNING = "ContainerStateRunning" {
         1 "startedAt" Time Always,
    }

    CONTAINER_STATE_TERMINATED = "ContainerStateTerminated" {
         1 "exitCode"    Int32  Always,
         2 "signal"      Int32  OmitZero,
         3 "reason"      Str  OmitZero,
         4 "message"     Str  OmitZero,
         5 "startedAt"   Time Always,
         6 "finishedAt"  Time Always,
         7 "containerID" Str  OmitZero,
    }

    CONTAINER_STATE = "ContainerState" {
         1 "waiting"    Object(CONTAINER_STATE_WAITING)    Optional,
         2 "running"    Object(CONTAINER_STATE_RUNNING)    Optional,
         3 "terminated" Object(CONTAINER_STATE_TERMINATED) Optional,
    }

    IMAGE_VOLUME_STATUS = "ImageVolumeStatus" {
         1 "imageRef" Str OmitZero,
    }

    VOLUME_STATUS = "VolumeStatus" {
         1 "image" Object(IMAGE_VOLUME_STATUS) Optional,
    }

    VOLUME_MOUNT_STATUS = "VolumeMountStatus" {
         1 "name"              Str                   Always,
         2 "mountPath"         Str                   Always,
         3 "readOnly"          Bool                  OmitZero,
         4 "recursiveReadOnly" Str                   Optional,
         5 "volumeStatus"      Object(VOLUME_STATUS) Optional,
    }

    LINUX_CONTAINER_USER = "LinuxContainerUser" {
         1 "uid"                Int Always,
         2 "gid"                Int Always,
         3 "supplementalGroups" Int List,
    }

    CONTAINER_USER = "ContainerUser" {
         1 "linux" Object(LINUX_CONTAINER_USER) Optional,
    }

    RESOURCE_HEALTH = "ResourceHealth" {
         1 "resourceID" Str Always,
         2 "health"     Str OmitZero,
         6 "message"    Str Optional,
    }

    RESOURCE_STATUS = "ResourceStatus" {
         1 "name"      Str                     Always,
         2 "resources" Object(RESOURCE_HEALTH) List,
    }

    CONTAINER_STATUS = "ContainerStatus" {
         1 "name"                     Str                           Always,
         2 "state"                    Object(CONTAINER_STATE)       Always,
         3 "lastState"                Object(CONTAINER_STATE)       Always,
         4 "ready"                    Bool                          Always,
         5 "restartCount"             Int32                           Always,
         6 "image"                    Str                           Always,
         7 "imageID"                  Str                           Always,
         8 "containerID"              Str                           OmitZero,
         9 "started"                  Bool                          Optional,
        10 "allocatedResources"       MapQuantity                   OmitZero,
        11 "resources"                Object(RESOURCE_REQUIREMENTS) Optional,
        12 "volumeMounts"             Object(VOLUME_MOUNT_STATUS)   List,
        13 "user"                     Object(CONTAINER_USER)        Optional,
        14 "allocatedResourcesStatus" Object(RESOURCE_STATUS)       List,
        15 "stopSignal"               Str                           Optional,
    }

    POD_RESOURCE_CLAIM_STATUS = "PodResourceClaimStatus" {
         1 "name"              Str Always,
         2 "resourceClaimName" Str Optional,
    }

    CONTAINER_EXTENDED_RESOURCE_REQUEST = "ContainerExtendedResourceRequest" {
         1 "containerName" Str Always,
         2 "resourceName"  Str Always,
         3 "requestName"   Str Always,
    }

    POD_EXTENDED_RESOURCE_CLAIM_STATUS = "PodExtendedResourceClaimStatus" {
         1 "requestMappings"   Object(CONTAINER_EXTENDED_RESOURCE_REQUEST) ListOrNull,
         2 "resourceClaimName" Str                                         Always,
    }

    NODE_ALLOCATABLE_MAPPED_RESOURCES = "NodeAllocatableMappedResources" {
         1 "name"     Str      Always,
         2 "quantity" Quantity OptionalOrNull,
    }

    NODE_ALLOCATABLE_OVERHEAD_RESOURCES = "NodeAllocatableOverheadResources" {
         1 "name"         Str      Always,
         2 "perPod"       Quantity Optional,
         3 "perContainer" Quantity Optional,
    }

    NODE_ALLOCATABLE_RESOURCE_CLAIM_STATUS = "NodeAllocatableResourceClaimStatus" {
         1 "resourceClaimName" Str                                         Always,
         2 "containers"        Str                                         List,
         4 "mapping"           Object(NODE_ALLOCATABLE_MAPPED_RESOURCES)   List,
         5 "overhead"          Object(NODE_ALLOCATABLE_OVERHEAD_RESOURCES) List,
    }

    VOLUME_HEALTH_CONDITION = "VolumeHealthCondition" {
         1 "status"  Str Always,
         2 "reason"  Str Always,
         3 "message" Str OmitZero,
    }

    POD_VOLUME_HEALTH = "PodVolumeHealth" {
         1 "name"               Str                             Always,
         2 "healthConditions"   Object(VOLUME_HEALTH_CONDITION) List,
         3 "lastTransitionTime" Time                            Always,
    }

    POD_STATUS = "PodStatus" {
        17 "observedGeneration"                   Int                                            OmitZero,
         1 "phase"                                Str                                            OmitZero,
         2 "conditions"                           Object(POD_CONDITION)                          List,
         3 "message"                              Str                                            OmitZero,
         4 "reason"                               Str                                            OmitZero,
        11 "nominatedNodeName"                    Str                                            OmitZero,
         5 "hostIP"                               Str                                            OmitZero,
        16 "hostIPs"                              Object(HOST_IP)                                List,
         6 "podIP"                                Str                                            OmitZero,
        12 "podIPs"                               Object(POD_IP)                                 List,
         7 "startTime"                            Time                                           Optional,
        10 "initContainerStatuses"                Object(CONTAINER_STATUS)                       List,
         8 "containerStatuses"                    Object(CONTAINER_STATUS)                       List,
         9 "qosClass"                             Str                                            OmitZero,
        13 "ephemeralContainerStatuses"           Object(CONTAINER_STATUS)                       List,
        14 "resize"                               Str                                            OmitZero,
        15 "resourceClaimStatuses"                Object(POD_RESOURCE_CLAIM_STATUS)              List,
        18 "extendedResourceClaimStatus"          Object(POD_EXTENDED_RESOURCE_CLAIM_STATUS)     Optional,
        19 "allocatedResources"                   MapQuantity                                    OmitZero,
        20 "resources"                            Object(RESOURCE_REQUIREMENTS)                  Optional,
        21 "nodeAllocatableResourceClaimStatuses" Object(NODE_ALLOCATABLE_RESOURCE_CLAIM_STATUS) List,
        22 "volumeHealth"                         Object(POD_VOLUME_HEALTH)                      List,
    }
}
