//! Deleting a namespace deletes what is in it.

use kube_api::Status;

use super::body::RequestBody;
use super::delete_options::DeleteOptions;
use super::ttl_lease::EventLease;
use crate::resource_handler::ResourceHandler;

/// Deletes every object of a namespace, before the namespace itself is deleted; nothing in a dry
/// run. An apiserver leaves that to kube-controller-manager, which does it afterwards.
///
/// # Errors
/// Those of deleting the namespace, in which case nothing is deleted; storage's, after which some
/// objects may be gone.
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
    // If the namespace itself may not be deleted, neither may the objects in it.
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
