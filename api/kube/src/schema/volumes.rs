//! Volumes: all sources that a pod can mount.
//!
//! Fields are in the order of JSON, with their protobuf numbers (core/v1 of Kubernetes 1.37).

use super::messages;
use super::meta::{
    LABEL_SELECTOR, LOCAL_OBJECT_REFERENCE, OBJECT_FIELD_SELECTOR, OBJECT_META,
    RESOURCE_FIELD_SELECTOR,
};

messages! {
    HOST_PATH_VOLUME_SOURCE = "HostPathVolumeSource" {
         1 "path" Str Always,
         2 "type" Str Optional,
    }

    EMPTY_DIR_VOLUME_SOURCE = "EmptyDirVolumeSource" {
         1 "medium"    Str      OmitZero,
         2 "sizeLimit" Quantity Optional,
         3 "mode"      Int32      Optional,
    }

    GCE_PERSISTENT_DISK_VOLUME_SOURCE = "GCEPersistentDiskVolumeSource" {
         1 "pdName"    Str  Always,
         2 "fsType"    Str  OmitZero,
         3 "partition" Int32  OmitZero,
         4 "readOnly"  Bool OmitZero,
    }

    AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE = "AWSElasticBlockStoreVolumeSource" {
         1 "volumeID"  Str  Always,
         2 "fsType"    Str  OmitZero,
         3 "partition" Int32  OmitZero,
         4 "readOnly"  Bool OmitZero,
    }

    GIT_REPO_VOLUME_SOURCE = "GitRepoVolumeSource" {
         1 "repository" Str Always,
         2 "revision"   Str OmitZero,
         3 "directory"  Str OmitZero,
    }

    KEY_TO_PATH = "KeyToPath" {
         1 "key"  Str Always,
         2 "path" Str Always,
         3 "mode" Int32 Optional,
         4 "user" Int Optional,
    }

    SECRET_VOLUME_SOURCE = "SecretVolumeSource" {
         1 "secretName"  Str                 OmitZero,
         2 "items"       Object(KEY_TO_PATH) List,
         3 "defaultMode" Int32                 Optional,
         4 "optional"    Bool                Optional,
         5 "defaultUser" Int                 Optional,
    }

    NFS_VOLUME_SOURCE = "NFSVolumeSource" {
         1 "server"   Str  Always,
         2 "path"     Str  Always,
         3 "readOnly" Bool OmitZero,
    }

    ISCSI_VOLUME_SOURCE = "ISCSIVolumeSource" {
         1 "targetPortal"      Str                            Always,
         2 "iqn"               Str                            Always,
         3 "lun"               Int32                            Always,
         4 "iscsiInterface"    Str                            OmitZero,
         5 "fsType"            Str                            OmitZero,
         6 "readOnly"          Bool                           OmitZero,
         7 "portals"           Str                            List,
         8 "chapAuthDiscovery" Bool                           OmitZero,
        11 "chapAuthSession"   Bool                           OmitZero,
        10 "secretRef"         Object(LOCAL_OBJECT_REFERENCE) Optional,
        12 "initiatorName"     Str                            Optional,
    }

    GLUSTERFS_VOLUME_SOURCE = "GlusterfsVolumeSource" {
         1 "endpoints" Str  Always,
         2 "path"      Str  Always,
         3 "readOnly"  Bool OmitZero,
    }

    PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE = "PersistentVolumeClaimVolumeSource" {
         1 "claimName" Str  Always,
         2 "readOnly"  Bool OmitZero,
    }

    RBD_VOLUME_SOURCE = "RBDVolumeSource" {
         1 "monitors"  Str                            ListOrNull,
         2 "image"     Str                            Always,
         3 "fsType"    Str                            OmitZero,
         4 "pool"      Str                            OmitZero,
         5 "user"      Str                            OmitZero,
         6 "keyring"   Str                            OmitZero,
         7 "secretRef" Object(LOCAL_OBJECT_REFERENCE) Optional,
         8 "readOnly"  Bool                           OmitZero,
    }

    FLEX_VOLUME_SOURCE = "FlexVolumeSource" {
         1 "driver"    Str                            Always,
         2 "fsType"    Str                            OmitZero,
         3 "secretRef" Object(LOCAL_OBJECT_REFERENCE) Optional,
         4 "readOnly"  Bool                           OmitZero,
         5 "options"   MapStr                         OmitZero,
    }

    CINDER_VOLUME_SOURCE = "CinderVolumeSource" {
         1 "volumeID"  Str                            Always,
         2 "fsType"    Str                            OmitZero,
         3 "readOnly"  Bool                           OmitZero,
         4 "secretRef" Object(LOCAL_OBJECT_REFERENCE) Optional,
    }

    CEPH_FS_VOLUME_SOURCE = "CephFSVolumeSource" {
         1 "monitors"   Str                            ListOrNull,
         2 "path"       Str                            OmitZero,
         3 "user"       Str                            OmitZero,
         4 "secretFile" Str                            OmitZero,
         5 "secretRef"  Object(LOCAL_OBJECT_REFERENCE) Optional,
         6 "readOnly"   Bool                           OmitZero,
    }

    FLOCKER_VOLUME_SOURCE = "FlockerVolumeSource" {
         1 "datasetName" Str OmitZero,
         2 "datasetUUID" Str OmitZero,
    }

    DOWNWARD_API_VOLUME_FILE = "DownwardAPIVolumeFile" {
         1 "path"             Str                             Always,
         2 "fieldRef"         Object(OBJECT_FIELD_SELECTOR)   Optional,
         3 "resourceFieldRef" Object(RESOURCE_FIELD_SELECTOR) Optional,
         4 "mode"             Int32                             Optional,
         5 "user"             Int                             Optional,
    }

    DOWNWARD_API_VOLUME_SOURCE = "DownwardAPIVolumeSource" {
         1 "items"       Object(DOWNWARD_API_VOLUME_FILE) List,
         2 "defaultMode" Int32                              Optional,
         3 "defaultUser" Int                              Optional,
    }

    FC_VOLUME_SOURCE = "FCVolumeSource" {
         1 "targetWWNs" Str  List,
         2 "lun"        Int32  Optional,
         3 "fsType"     Str  OmitZero,
         4 "readOnly"   Bool OmitZero,
         5 "wwids"      Str  List,
    }

    AZURE_FILE_VOLUME_SOURCE = "AzureFileVolumeSource" {
         1 "secretName" Str  Always,
         2 "shareName"  Str  Always,
         3 "readOnly"   Bool OmitZero,
    }

    CONFIG_MAP_VOLUME_SOURCE = "ConfigMapVolumeSource" {
         1 ""            Object(LOCAL_OBJECT_REFERENCE) Inline,
         2 "items"       Object(KEY_TO_PATH)            List,
         3 "defaultMode" Int32                            Optional,
         4 "optional"    Bool                           Optional,
         5 "defaultUser" Int                            Optional,
    }

    VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE = "VsphereVirtualDiskVolumeSource" {
         1 "volumePath"        Str Always,
         2 "fsType"            Str OmitZero,
         3 "storagePolicyName" Str OmitZero,
         4 "storagePolicyID"   Str OmitZero,
    }

    QUOBYTE_VOLUME_SOURCE = "QuobyteVolumeSource" {
         1 "registry" Str  Always,
         2 "volume"   Str  Always,
         3 "readOnly" Bool OmitZero,
         4 "user"     Str  OmitZero,
         5 "group"    Str  OmitZero,
         6 "tenant"   Str  OmitZero,
    }

    AZURE_DISK_VOLUME_SOURCE = "AzureDiskVolumeSource" {
         1 "diskName"    Str  Always,
         2 "diskURI"     Str  Always,
         3 "cachingMode" Str  Optional,
         4 "fsType"      Str  Optional,
         5 "readOnly"    Bool Optional,
         6 "kind"        Str  Optional,
    }

    PHOTON_PERSISTENT_DISK_VOLUME_SOURCE = "PhotonPersistentDiskVolumeSource" {
         1 "pdID"   Str Always,
         2 "fsType" Str OmitZero,
    }

    SECRET_PROJECTION = "SecretProjection" {
         1 ""         Object(LOCAL_OBJECT_REFERENCE) Inline,
         2 "items"    Object(KEY_TO_PATH)            List,
         4 "optional" Bool                           Optional,
    }

    DOWNWARD_API_PROJECTION = "DownwardAPIProjection" {
         1 "items" Object(DOWNWARD_API_VOLUME_FILE) List,
    }

    CONFIG_MAP_PROJECTION = "ConfigMapProjection" {
         1 ""         Object(LOCAL_OBJECT_REFERENCE) Inline,
         2 "items"    Object(KEY_TO_PATH)            List,
         4 "optional" Bool                           Optional,
    }

    SERVICE_ACCOUNT_TOKEN_PROJECTION = "ServiceAccountTokenProjection" {
         1 "audience"          Str OmitZero,
         2 "expirationSeconds" Int Optional,
         3 "path"              Str Always,
         4 "user"              Int Optional,
    }

    CLUSTER_TRUST_BUNDLE_PROJECTION = "ClusterTrustBundleProjection" {
         1 "name"          Str                    Optional,
         2 "signerName"    Str                    Optional,
         3 "labelSelector" Object(LABEL_SELECTOR) Optional,
         5 "optional"      Bool                   Optional,
         4 "path"          Str                    Always,
         6 "user"          Int                    Optional,
    }

    POD_CERTIFICATE_PROJECTION = "PodCertificateProjection" {
         1 "signerName"           Str    OmitZero,
         2 "keyType"              Str    OmitZero,
         3 "maxExpirationSeconds" Int32    Optional,
         4 "credentialBundlePath" Str    OmitZero,
         5 "keyPath"              Str    OmitZero,
         6 "certificateChainPath" Str    OmitZero,
         7 "userAnnotations"      MapStr OmitZero,
         8 "user"                 Int    Optional,
    }

    VOLUME_PROJECTION = "VolumeProjection" {
         1 "secret"              Object(SECRET_PROJECTION)                Optional,
         2 "downwardAPI"         Object(DOWNWARD_API_PROJECTION)          Optional,
         3 "configMap"           Object(CONFIG_MAP_PROJECTION)            Optional,
         4 "serviceAccountToken" Object(SERVICE_ACCOUNT_TOKEN_PROJECTION) Optional,
         5 "clusterTrustBundle"  Object(CLUSTER_TRUST_BUNDLE_PROJECTION)  Optional,
         6 "podCertificate"      Object(POD_CERTIFICATE_PROJECTION)       Optional,
    }

    PROJECTED_VOLUME_SOURCE = "ProjectedVolumeSource" {
         1 "sources"     Object(VOLUME_PROJECTION) ListOrNull,
         2 "defaultMode" Int32                       Optional,
         3 "defaultUser" Int                       Optional,
    }

    PORTWORX_VOLUME_SOURCE = "PortworxVolumeSource" {
         1 "volumeID" Str  Always,
         2 "fsType"   Str  OmitZero,
         3 "readOnly" Bool OmitZero,
    }

    SCALE_IO_VOLUME_SOURCE = "ScaleIOVolumeSource" {
         1 "gateway"          Str                            Always,
         2 "system"           Str                            Always,
         3 "secretRef"        Object(LOCAL_OBJECT_REFERENCE) OptionalOrNull,
         4 "sslEnabled"       Bool                           OmitZero,
         5 "protectionDomain" Str                            OmitZero,
         6 "storagePool"      Str                            OmitZero,
         7 "storageMode"      Str                            OmitZero,
         8 "volumeName"       Str                            OmitZero,
         9 "fsType"           Str                            OmitZero,
        10 "readOnly"         Bool                           OmitZero,
    }

    STORAGE_OS_VOLUME_SOURCE = "StorageOSVolumeSource" {
         1 "volumeName"      Str                            OmitZero,
         2 "volumeNamespace" Str                            OmitZero,
         3 "fsType"          Str                            OmitZero,
         4 "readOnly"        Bool                           OmitZero,
         5 "secretRef"       Object(LOCAL_OBJECT_REFERENCE) Optional,
    }

    CSI_VOLUME_SOURCE = "CSIVolumeSource" {
         1 "driver"               Str                            Always,
         2 "readOnly"             Bool                           Optional,
         3 "fsType"               Str                            Optional,
         4 "volumeAttributes"     MapStr                         OmitZero,
         5 "nodePublishSecretRef" Object(LOCAL_OBJECT_REFERENCE) Optional,
    }

    VOLUME_RESOURCE_REQUIREMENTS = "VolumeResourceRequirements" {
         1 "limits"   MapQuantity OmitZero,
         2 "requests" MapQuantity OmitZero,
    }

    TYPED_LOCAL_OBJECT_REFERENCE = "TypedLocalObjectReference" {
         1 "apiGroup" Str OptionalOrNull,
         2 "kind"     Str Always,
         3 "name"     Str Always,
    }

    TYPED_OBJECT_REFERENCE = "TypedObjectReference" {
         1 "apiGroup"  Str OptionalOrNull,
         2 "kind"      Str Always,
         3 "name"      Str Always,
         4 "namespace" Str Optional,
    }

    PERSISTENT_VOLUME_CLAIM_SPEC = "PersistentVolumeClaimSpec" {
         1 "accessModes"               Str                                  List,
         4 "selector"                  Object(LABEL_SELECTOR)               Optional,
         2 "resources"                 Object(VOLUME_RESOURCE_REQUIREMENTS) Always,
         3 "volumeName"                Str                                  OmitZero,
         5 "storageClassName"          Str                                  Optional,
         6 "volumeMode"                Str                                  Optional,
         7 "dataSource"                Object(TYPED_LOCAL_OBJECT_REFERENCE) Optional,
         8 "dataSourceRef"             Object(TYPED_OBJECT_REFERENCE)       Optional,
         9 "volumeAttributesClassName" Str                                  Optional,
    }

    PERSISTENT_VOLUME_CLAIM_TEMPLATE = "PersistentVolumeClaimTemplate" {
         1 "metadata" Object(OBJECT_META)                  Always,
         2 "spec"     Object(PERSISTENT_VOLUME_CLAIM_SPEC) Always,
    }

    EPHEMERAL_VOLUME_SOURCE = "EphemeralVolumeSource" {
         1 "volumeClaimTemplate" Object(PERSISTENT_VOLUME_CLAIM_TEMPLATE) Optional,
    }

    IMAGE_VOLUME_SOURCE = "ImageVolumeSource" {
         1 "reference"  Str OmitZero,
         2 "pullPolicy" Str OmitZero,
    }

    VOLUME_SOURCE = "VolumeSource" {
         1 "hostPath"              Object(HOST_PATH_VOLUME_SOURCE)               Optional,
         2 "emptyDir"              Object(EMPTY_DIR_VOLUME_SOURCE)               Optional,
         3 "gcePersistentDisk"     Object(GCE_PERSISTENT_DISK_VOLUME_SOURCE)     Optional,
         4 "awsElasticBlockStore"  Object(AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE) Optional,
         5 "gitRepo"               Object(GIT_REPO_VOLUME_SOURCE)                Optional,
         6 "secret"                Object(SECRET_VOLUME_SOURCE)                  Optional,
         7 "nfs"                   Object(NFS_VOLUME_SOURCE)                     Optional,
         8 "iscsi"                 Object(ISCSI_VOLUME_SOURCE)                   Optional,
         9 "glusterfs"             Object(GLUSTERFS_VOLUME_SOURCE)               Optional,
        10 "persistentVolumeClaim" Object(PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE) Optional,
        11 "rbd"                   Object(RBD_VOLUME_SOURCE)                     Optional,
        12 "flexVolume"            Object(FLEX_VOLUME_SOURCE)                    Optional,
        13 "cinder"                Object(CINDER_VOLUME_SOURCE)                  Optional,
        14 "cephfs"                Object(CEPH_FS_VOLUME_SOURCE)                 Optional,
        15 "flocker"               Object(FLOCKER_VOLUME_SOURCE)                 Optional,
        16 "downwardAPI"           Object(DOWNWARD_API_VOLUME_SOURCE)            Optional,
        17 "fc"                    Object(FC_VOLUME_SOURCE)                      Optional,
        18 "azureFile"             Object(AZURE_FILE_VOLUME_SOURCE)              Optional,
        19 "configMap"             Object(CONFIG_MAP_VOLUME_SOURCE)              Optional,
        20 "vsphereVolume"         Object(VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE)    Optional,
        21 "quobyte"               Object(QUOBYTE_VOLUME_SOURCE)                 Optional,
        22 "azureDisk"             Object(AZURE_DISK_VOLUME_SOURCE)              Optional,
        23 "photonPersistentDisk"  Object(PHOTON_PERSISTENT_DISK_VOLUME_SOURCE)  Optional,
        26 "projected"             Object(PROJECTED_VOLUME_SOURCE)               Optional,
        24 "portworxVolume"        Object(PORTWORX_VOLUME_SOURCE)                Optional,
        25 "scaleIO"               Object(SCALE_IO_VOLUME_SOURCE)                Optional,
        27 "storageos"             Object(STORAGE_OS_VOLUME_SOURCE)              Optional,
        28 "csi"                   Object(CSI_VOLUME_SOURCE)                     Optional,
        29 "ephemeral"             Object(EPHEMERAL_VOLUME_SOURCE)               Optional,
        30 "image"                 Object(IMAGE_VOLUME_SOURCE)                   Optional,
    }

    VOLUME = "Volume" {
         1 "name" Str                   Always,
         2 ""     Object(VOLUME_SOURCE) Inline,
    }
}
