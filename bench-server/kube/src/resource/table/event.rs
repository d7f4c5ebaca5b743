//! Columns and cells of events.

use super::cells::{Cells, Column, NAME, column, wide};
use super::message::Message;

pub(super) static COLUMNS: [Column; 10] = [
    column("Last Seen", "When it happened last."),
    column("Type", "Normal, or a warning."),
    column("Reason", "What happened, in a word."),
    column("Object", "What it happened to."),
    wide("Subobject", "Which part of it."),
    wide("Source", "Who says so."),
    column("Message", "What happened."),
    wide("First Seen", "When it happened first."),
    wide("Count", "How often it happened."),
    Column {
        priority: 1,
        ..NAME
    },
];

pub(super) fn put(event: Message<'_>, cells: &mut Cells<'_>) {
    let event_time = event.seconds(10);
    let series = event.find(11);
    let first = event.seconds(6).or(event_time);
    let last = match series {
        Some(series) => series.seconds(2),
        None => event.seconds(7),
    };
    let object = event.message(2);
    let source = event.message(5);
    cells.since(last.or(first));
    cells.text(event.text(9));
    cells.text(event.text(3));
    let kind = object.text(1).to_lowercase();
    cells.text(&format!("{kind}/{}", object.text(3)));
    cells.text(object.text(7));
    cells.text(&match (source.text(1), source.text(2)) {
        ("", "") => match (event.text(14), event.text(15)) {
            (component, "") => component.to_owned(),
            (component, instance) => format!("{component}, {instance}"),
        },
        (component, "") => component.to_owned(),
        (component, host) => format!("{component}, {host}"),
    });
    cells.text(event.text(4).trim());
    cells.since(first);
    cells.int(series.map_or(event.int(8), |series| series.int(1)).max(1));
    cells.name(event);
}
