//! Deletes the objects in a namespace when the namespace is deleted.

use kube_api::Status;

use super::body::RequestBody;
use super::delete_options::DeleteOptions;
use super::ttl_lease::EventLease;
use crate::resource_handler::ResourceHandler;

/// Deletes every object in a namespace, before the namespace itself is deleted. In a dry run,
/// deletes nothing. With kube-apiserver, kube-controller-manager does this afterwards.
///
/// # Errors
/// Those of deleting the namespace, in which case nothing is deleted, and failures of storage,
/// after which some objects may have been deleted.
pub(crate) async fn delete_contents(
    namespaces: &ResourceHandler,
    all: &[ResourceHandler],
    event_lease: &EventLease,
    name: &str,
    options: &DeleteOptions,
) -> Result<(), Status> {
    if options.dry_run() {
        return Ok(());
    }
    // If the namespace itself cannot be deleted, the objects in it must not be deleted either.
    namespaces
        .dry_run_delete(event_lease, name, options)
        .await?;
    for handler in all.iter().filter(|handler| handler.resource.namespaced) {
        handler
            .delete_collection(event_lease, name, "", &RequestBody::default())
            .await?;
    }
    Ok(())
}
