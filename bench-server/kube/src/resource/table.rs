//! Encodes objects as rows of a `meta.k8s.io` Table, which `kubectl get` requests, with the columns
//! and cells that kube-apiserver prints for each kind.

mod cells;
mod event;
mod message;
mod node;
mod pod;
#[cfg(test)]
mod tests;

use kube_api::put_string;

use self::cells::{AGE, Cells, Column, NAME, column};
use self::message::Message;
use super::Resource;

/// The columns of custom resources, none of which defines its own.
static DEFAULT: [Column; 2] = [
    NAME,
    Column {
        type_name: "date",
        ..AGE
    },
];

static CONFIG_MAP: [Column; 3] = [
    NAME,
    column("Data", "How many entries there are, binary ones included."),
    AGE,
];

static SECRET: [Column; 4] = [
    NAME,
    column("Type", "Says what the data is for."),
    column("Data", "How many entries there are."),
    AGE,
];

static NAMESPACE: [Column; 3] = [NAME, column("Status", "Phase of its life."), AGE];

static LEASE: [Column; 3] = [NAME, column("Holder", "Who holds it."), AGE];

fn columns(resource: &Resource) -> &'static [Column] {
    match resource.kind {
        "Pod" => &pod::COLUMNS,
        "Node" => &node::COLUMNS,
        "Event" => &event::COLUMNS,
        "ConfigMap" => &CONFIG_MAP,
        "Secret" => &SECRET,
        "Namespace" => &NAMESPACE,
        "Lease" => &LEASE,
        _ => &DEFAULT,
    }
}

/// Appends the start of a table, including its columns and the start of its rows. `version` is the
/// resourceVersion, which is the only metadata of a table of one object.
pub(crate) fn put_head(
    api_version: &str,
    resource: &Resource,
    version: &[u8],
    with_columns: bool,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(
        format!("{{\"kind\":\"Table\",\"apiVersion\":\"{api_version}\",\"metadata\":{{\"resourceVersion\":")
            .as_bytes(),
    );
    put_string(out, version);
    out.push(b'}');
    put_columns(resource, with_columns, out);
}

/// Appends the definitions of the columns (or `null`) and the start of the rows.
pub(crate) fn put_columns(resource: &Resource, with_columns: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"columnDefinitions\":");
    if with_columns {
        for (i, column) in columns(resource).iter().enumerate() {
            out.push(if i == 0 { b'[' } else { b',' });
            let Column {
                name,
                type_name,
                format,
                description,
                priority,
            } = column;
            out.extend_from_slice(
                format!("{{\"name\":\"{name}\",\"type\":\"{type_name}\",\"format\":\"{format}\",\"description\":")
                    .as_bytes(),
            );
            put_string(out, description.as_bytes());
            out.extend_from_slice(format!(",\"priority\":{priority}}}").as_bytes());
        }
        out.push(b']');
    } else {
        out.extend_from_slice(b"null");
    }
    out.extend_from_slice(b",\"rows\":[");
}

/// Appends the cells of one object's row, and the conditions of a pod that has completed.
pub(crate) fn put_cells(resource: &Resource, encoded: &[u8], out: &mut Vec<u8>) {
    let mut cells = Cells::new(out);
    cells.out.push(b'[');
    let object = Message(encoded);
    match resource.kind {
        "Pod" => pod::put(object, &mut cells),
        "Node" => node::put(object, &mut cells),
        "Event" => event::put(object, &mut cells),
        "ConfigMap" => {
            cells.name(object);
            cells.int((object.count(2) + object.count(3)) as i64);
            cells.age(object);
        }
        "Secret" => {
            cells.name(object);
            cells.text(object.text(3));
            cells.int(object.count(2) as i64);
            cells.age(object);
        }
        "Namespace" => {
            cells.name(object);
            cells.text(object.message(3).text(1));
            cells.age(object);
        }
        "Lease" => {
            cells.name(object);
            cells.text(object.message(2).text(1));
            cells.age(object);
        }
        _ => {
            cells.name(object);
            match object.metadata().seconds(8) {
                Some(_) => cells.age(object),
                None => cells.null(),
            }
        }
    }
    out.push(b']');
    if resource.kind == "Pod" {
        pod::put_conditions(object, out);
    }
}
