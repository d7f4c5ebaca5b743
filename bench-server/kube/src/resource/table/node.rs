//! Columns and cells of nodes.

use super::cells::{AGE, Cells, Column, NAME, column, wide};
use super::message::Message;

pub(super) static COLUMNS: [Column; 10] = [
    NAME,
    column("Status", "Whether the node is ready, and takes new pods."),
    column("Roles", "Roles that its labels give it."),
    AGE,
    column("Version", "Version of its kubelet."),
    wide("Internal-IP", "Its address within the cluster."),
    wide("External-IP", "Its address from outside."),
    wide("OS-Image", "Its operating system."),
    wide("Kernel-Version", "Its kernel."),
    wide("Container-Runtime", "What runs its containers."),
];

/// The labels that give a node a role: the rest of the key after this prefix, or the value of this
/// label.
const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE: &str = "kubernetes.io/role";

pub(super) fn put(node: Message<'_>, cells: &mut Cells<'_>) {
    let (spec, status) = (node.message(2), node.message(3));
    let info = status.message(7);
    cells.name(node);
    let ready = status.all(4).find(|condition| condition.text(1) == "Ready");
    let mut state = match ready.map(|condition| condition.text(2)) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if spec.flag(4) {
        state += ",SchedulingDisabled";
    }
    cells.text(&state);
    cells.or_none(&roles(node).join(","));
    cells.age(node);
    cells.text(info.text(7));
    for kind in ["InternalIP", "ExternalIP"] {
        let address = status.all(5).find(|address| address.text(1) == kind);
        cells.or_none(address.map_or("", |address| address.text(2)));
    }
    let known = |number| match info.text(number) {
        "" => "<unknown>",
        text => text,
    };
    cells.text(known(5));
    match info.text(10) {
        "" => cells.text(known(4)),
        architecture => cells.text(&format!("{} ({architecture})", known(4))),
    }
    cells.text(known(6));
}

fn roles(node: Message<'_>) -> Vec<&str> {
    let mut roles: Vec<_> = node
        .metadata()
        .all(11)
        .filter_map(|label| match label.text(1) {
            ROLE => Some(label.text(2)),
            key => key.strip_prefix(ROLE_PREFIX),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    roles
}
