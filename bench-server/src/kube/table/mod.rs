//! Objects as rows of printed columns, as `kubectl get` asks for them (`meta.k8s.io` Table).

use kube_api::put_string;

use super::resource::Resource;

/// A column of a kind's table.
struct Column {
    name: &'static str,
    /// `string`, `integer` or `date`.
    type_name: &'static str,
    /// `name` for the column that identifies the object.
    format: &'static str,
    description: &'static str,
    /// Above 0: only with `-o wide`.
    priority: u8,
}

const NAME: Column = Column {
    name: "Name",
    type_name: "string",
    format: "name",
    description: "Name must be unique within a namespace.",
    priority: 0,
};

const CREATED_AT: Column = Column {
    name: "Created At",
    type_name: "date",
    format: "",
    description: "When the object was created.",
    priority: 0,
};

static DEFAULT: [Column; 2] = [NAME, CREATED_AT];

/// Appends a table up to its rows: `version` is its resourceVersion, the only metadata that a table of one
/// object has.
pub(crate) fn put_head(
    api_version: &str,
    resource: &Resource,
    version: &[u8],
    columns: bool,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(
        format!("{{\"kind\":\"Table\",\"apiVersion\":\"{api_version}\",\"metadata\":{{\"resourceVersion\":")
            .as_bytes(),
    );
    put_string(out, version);
    out.push(b'}');
    put_columns(resource, columns, out);
}

/// Appends the definitions of the columns and the beginning of the rows.
pub(crate) fn put_columns(_resource: &Resource, columns: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"columnDefinitions\":");
    if columns {
        for (i, column) in DEFAULT.iter().enumerate() {
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

/// Appends the cells of one object's row.
pub(crate) fn put_cells(_resource: &Resource, encoded: &[u8], out: &mut Vec<u8>) {
    let metadata = kube_api::Metadata::read(encoded).unwrap_or_default();
    out.push(b'[');
    put_string(out, metadata.name);
    out.extend_from_slice(b",\"\"]");
}
