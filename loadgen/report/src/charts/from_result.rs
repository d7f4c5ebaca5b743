//! Makes the charts of a saved result.

mod networks;
mod open_loop;
mod shards;
mod thresholds;

use super::axis::Axis;
use super::panels::{Panel, PanelChart, PanelGroup};
use super::rows::{ChartRow, Group, Mark, MarkShape, RowChart};
use super::timeline::Timeline;
use crate::case_text;
use crate::quantity::{Quantity, Unit, step_of};
use crate::result::{Case, DataSet, Quantiles, SavedResult, ServerStart, targets_of};

/// The cases of one data set, from which charts are made.
pub(super) struct Subject<'a> {
    result: &'a SavedResult,
    data_set: &'a DataSet,
}

impl<'a> Subject<'a> {
    pub(super) fn new(result: &'a SavedResult, data_set: &'a DataSet) -> Self {
        Self { result, data_set }
    }

    fn cases(&self) -> impl Iterator<Item = &'a Case> {
        self.result
            .report
            .cases
            .iter()
            .filter(|case| case.data_set == self.data_set.name)
    }

    /// Returns the targets that have cases on the data set.
    fn targets(&self) -> Vec<&'a str> {
        targets_of(self.cases())
    }

    /// Returns the target's name, with the program that it runs.
    fn target_title(&self, target: &str) -> String {
        let servers = &self.result.report.environment.servers;
        match servers
            .iter()
            .find(|server| server.target == target)
            .map(|server| server.program.as_str())
        {
            Some(program) if !program.is_empty() && program != target => {
                format!("{target}: {program}")
            }
            _ => target.to_owned(),
        }
    }

    fn subtitle(&self, rest: &str) -> String {
        let DataSet {
            name,
            objects,
            bytes,
            ..
        } = self.data_set;
        let interrupted = if self.result.report.interrupted {
            " · INTERRUPTED RUN"
        } else {
            ""
        };
        format!(
            "{name}: {} objects, {} · {rest}{interrupted}",
            Quantity::Count(*objects),
            Quantity::bytes(*bytes)
        )
    }

    fn groups(&self, row: impl Fn(&Case, ChartRow) -> ChartRow) -> Vec<Group> {
        self.targets()
            .into_iter()
            .map(|target| Group {
                target: target.to_owned(),
                name: self.target_title(target),
                rows: self
                    .cases()
                    .filter(|case| case.target == target)
                    .map(|case| row(case, named(case)))
                    .collect(),
            })
            .collect()
    }

    fn rows(
        &self,
        title: &str,
        subtitle: &str,
        measure: &'static str,
        unit: fn(f64) -> Unit,
        mut legend: Vec<(MarkShape, &'static str)>,
        row: impl Fn(&Case, ChartRow) -> ChartRow,
    ) -> Option<RowChart> {
        let groups = self.groups(row);
        let rows = groups.iter().flat_map(|group| &group.rows);
        let marks = rows.flat_map(|row| &row.marks);
        if marks.clone().any(|mark| mark.shape == MarkShape::Range) {
            legend.push((MarkShape::Range, "lowest to highest of the server's starts"));
        }
        let axis = Axis::of(marks.flat_map(|mark| [mark.from, mark.to]), unit)?;
        Some(RowChart {
            title: title.to_owned(),
            subtitle: self.subtitle(subtitle),
            measure,
            axis,
            legend,
            groups,
        })
    }

    /// Returns the first text for a data set on which all cases are lists, otherwise the second.
    fn of_lists(&self, lists: &'static str, requests: &'static str) -> &'static str {
        if self.cases().all(times_lists) {
            lists
        } else {
            requests
        }
    }

    /// Returns whether all cases of the data set time events at watchers.
    fn is_of_events(&self) -> bool {
        self.cases().all(times_events)
    }

    /// Returns the chart of the quantiles of the time of a whole list, per strategy.
    pub(super) fn latency(&self) -> Option<RowChart> {
        let mut legend = vec![
            (MarkShape::Disc, "median"),
            (MarkShape::Span, "minimum to maximum"),
            (MarkShape::Stroke, "p90"),
            (MarkShape::Cross, "p99"),
            (MarkShape::Ring, "median without checking"),
        ];
        let mut latencies = self.cases().filter_map(|case| case.latency_ms.as_ref());
        if latencies.any(is_one_or_two) {
            legend.push((MarkShape::Square, "each, of one or two"));
        }
        let (title, measure) = match self.is_of_events() {
            true => ("Time from a write to its event", "time to one event"),
            false => (
                self.of_lists("Time of one whole list", "Time of one request"),
                self.of_lists("time of one list", "time of one request"),
            ),
        };
        self.rows(
            title,
            "lower is better; quantiles only where n carries them",
            measure,
            Unit::of_time,
            legend,
            |case, mut row| {
                let Some(latency) = &case.latency_ms else {
                    return row;
                };
                row.marks.extend(span(latency));
                row.marks
                    .extend(of_starts(case, |start| start.latency_ms.as_ref()?.p50));
                row.marks
                    .extend(latency.p90.map(|ms| Mark::at(MarkShape::Stroke, ms)));
                row.marks
                    .extend(latency.p99.map(|ms| Mark::at(MarkShape::Cross, ms)));
                row.marks.extend(
                    case.null_sink_ms
                        .as_ref()
                        .and_then(|q| q.p50)
                        .map(|ms| Mark::at(MarkShape::Ring, ms)),
                );
                row.marks
                    .extend(latency.p50.map(|ms| Mark::at(MarkShape::Disc, ms)));
                let mut number = latency.p50;
                row.number_detail = format!("n = {}", Quantity::Count(latency.n));
                if is_one_or_two(latency) {
                    let each = [latency.min, latency.max].into_iter().flatten();
                    row.marks
                        .extend(each.map(|ms| Mark::at(MarkShape::Square, ms)));
                    number = latency.max;
                    if latency.n == 2 {
                        row.number_detail = "the longer of 2".to_owned();
                    }
                }
                row.number = Quantity::or_absent(number.map(Quantity::Milliseconds));
                row
            },
        )
    }

    /// Returns the chart of the time until the first chunk, compared with the whole list.
    pub(super) fn first_chunk(&self) -> Option<RowChart> {
        if !self.cases().any(|case| case.first_chunk_ms.is_some()) {
            return None;
        }
        let legend = vec![
            (MarkShape::Disc, "first chunk, median"),
            (MarkShape::Cross, "first chunk, p99"),
            (MarkShape::Ring, "whole list, median"),
        ];
        self.rows(
            "First chunk against the whole list",
            "lower is better; first chunks of lists cancelled after it",
            "time from the start of the list",
            Unit::of_time,
            legend,
            |case, mut row| {
                let whole = case.latency_ms.as_ref().and_then(|latency| latency.p50);
                let first = case.first_chunk_ms.as_ref();
                let from = first
                    .and_then(|q| q.p50)
                    .into_iter()
                    .chain(whole)
                    .reduce(f64::min);
                row.marks
                    .extend(from.zip(whole).map(|(from, to)| Mark::span(from, to)));
                row.marks
                    .extend(whole.map(|ms| Mark::at(MarkShape::Ring, ms)));
                row.marks.extend(
                    first
                        .and_then(|q| q.p99)
                        .map(|ms| Mark::at(MarkShape::Cross, ms)),
                );
                row.marks.extend(
                    first
                        .and_then(|q| q.p50)
                        .map(|ms| Mark::at(MarkShape::Disc, ms)),
                );
                row.marks
                    .extend(of_starts(case, |start| start.first_chunk_ms.as_ref()?.p50));
                match first {
                    Some(first) => {
                        row.number = Quantity::or_absent(first.p50.map(Quantity::Milliseconds));
                        row.number_detail = format!(
                            "p99 {}, n = {}",
                            Quantity::or_absent(first.p99.map(Quantity::Milliseconds)),
                            Quantity::Count(first.n)
                        );
                    }
                    None if whole.is_some() => {
                        row.number_detail = "first chunk not measured".to_owned()
                    }
                    None => {}
                }
                row
            },
        )
    }

    /// Returns the chart of the peak of the server's memory above what it held at rest.
    pub(super) fn peak(&self) -> Option<RowChart> {
        self.rows(
            "Server memory above idle, at its peak",
            "lower is better; private memory, or what was allocated; pages of mapped files apart",
            "peak above idle",
            Unit::of_size,
            vec![
                (MarkShape::Bar, "private memory above idle"),
                (MarkShape::Cross, "pages of mapped files"),
                (MarkShape::Ring, "bytes of one list"),
            ],
            |case, mut row| {
                let Some(server) = &case.server else {
                    return row;
                };
                if case.bytes > 0 {
                    row.marks
                        .push(Mark::at(MarkShape::Ring, case.bytes as f64).as_reference());
                }
                // A value below the counter's resolution is drawn at the resolution.
                let least = server.rss_resolution.map_or(0.0, step_of);
                let above = (server.peak_above_idle as f64).max(least);
                row.marks.push(Mark::at(MarkShape::Bar, above));
                row.marks.extend(of_starts(case, |start| {
                    Some((start.peak_above_idle? as f64).max(least))
                }));
                let mapped = server.mapped_above_idle();
                row.marks
                    .extend(mapped.map(|bytes| Mark::at(MarkShape::Cross, bytes as f64)));
                let private = Quantity::bytes_within(server.peak_above_idle, server.rss_resolution);
                row.number = private.to_string();
                let ratio = case_text::per_listed_byte(case);
                let ratio = ratio.map(|ratio| format!("{ratio} the bytes in flight"));
                let files = mapped.map(Quantity::bytes);
                let files = files.map(|files| format!("+ {files} of files"));
                let details: Vec<String> = ratio.into_iter().chain(files).collect();
                row.number_detail = details.join(", ");
                row
            },
        )
    }

    /// Returns the chart of the CPU of server and generator for one list.
    pub(super) fn cpu(&self) -> Option<RowChart> {
        self.rows(
            self.of_lists("CPU time for one list", "CPU time for one request"),
            "lower is better; user and system time over the measured phase",
            self.of_lists("CPU time per list", "CPU time per request"),
            Unit::of_time,
            vec![(MarkShape::Bar, "server"), (MarkShape::Ring, "generator")],
            |case, mut row| {
                let server = case
                    .server
                    .as_ref()
                    .and_then(|server| server.cpu_s_per_request);
                let client = case
                    .client
                    .as_ref()
                    .and_then(|client| client.cpu_s_per_request);
                row.marks
                    .extend(server.map(|s| Mark::at(MarkShape::Bar, s * 1e3)));
                row.marks
                    .extend(client.map(|s| Mark::at(MarkShape::Ring, s * 1e3).as_reference()));
                row.marks.extend(of_starts(case, |start| {
                    Some(start.server_cpu_s_per_request? * 1e3)
                }));
                row.number = server.map_or_else(String::new, |s| Quantity::seconds(s).to_string());
                let client = client.map(|s| format!("generator {}", Quantity::seconds(s)));
                let rate = case.requests_per_s.map(Quantity::PerSecond);
                let rate = rate.map(|rate| format!("at {rate}"));
                let details: Vec<String> = client.into_iter().chain(rate).collect();
                row.number_detail = details.join(", ");
                row
            },
        )
    }

    /// Returns the chart of the server's memory during each case.
    pub(super) fn memory(&self) -> Option<PanelChart> {
        let groups: Vec<PanelGroup> = self
            .targets()
            .into_iter()
            .map(|target| PanelGroup {
                name: self.target_title(target),
                panels: self
                    .cases()
                    .filter(|case| case.target == target)
                    .map(|case| self.panel(case))
                    .collect(),
            })
            .collect();
        if groups
            .iter()
            .flat_map(|group| &group.panels)
            .all(|panel| panel.private.is_empty())
        {
            return None;
        }
        Some(PanelChart {
            title: "Memory over time".to_owned(),
            subtitle: self.subtitle(
                "one panel per row, from the start of its measured phase; one height per target",
            ),
            groups,
        })
    }

    fn panel(&self, case: &Case) -> Panel {
        let timeline = Timeline::of(&self.result.series, case);
        Panel {
            name: full_name(case),
            private: timeline.private,
            allocated: timeline.allocated,
            generator: timeline.generator,
            idle: case.server.as_ref().map(|server| {
                let private = server.rss_anon_idle.unwrap_or(server.rss_idle);
                private as f64
            }),
            note: case_text::warnings(case).join("; "),
            growth: case.server.as_ref().map_or_else(String::new, |server| {
                let above = Quantity::bytes_within(server.peak_above_idle, server.rss_resolution);
                format!("peak {above} above idle")
            }),
            counts: case.counts(),
        }
    }
}

/// Returns whether there are too few values for a median, so that each is shown.
fn is_one_or_two(quantiles: &Quantiles) -> bool {
    (1..=2).contains(&quantiles.n)
}

fn span(quantiles: &Quantiles) -> Option<Mark> {
    quantiles
        .min
        .zip(quantiles.max)
        .map(|(min, max)| Mark::span(min, max))
}

/// Returns the range of a metric over the starts of the server; `None` of fewer than two values.
fn of_starts(case: &Case, metric: impl Fn(&ServerStart) -> Option<f64>) -> Option<Mark> {
    let starts: Vec<f64> = case.starts.iter().filter_map(metric).collect();
    let range = Mark::range(starts.iter().copied());
    range.filter(|_| starts.len() > 1)
}

/// Returns a row with its names and notes, without marks.
fn named(case: &Case) -> ChartRow {
    let options = case.options();
    let detail = match &case.encoding {
        // What distinguishes the case from others of its name is more important than its encoding.
        _ if !options.is_empty() => options.join(", "),
        Some(encoding) => format!("{} tier, {encoding}", case.tier),
        None => format!("{} tier", case.tier),
    };
    ChartRow {
        work: case.work(),
        name: case_text::strategy_and_clients(case),
        detail,
        note: case_text::warnings(case).join("; "),
        counts: case.counts(),
        ..ChartRow::default()
    }
}

fn full_name(case: &Case) -> String {
    format!("{} ({} tier)", case_text::strategy(case), case.tier)
}

/// Returns whether a case times neither small requests nor events.
fn times_lists(case: &Case) -> bool {
    case.requests_per_s.is_none() && !times_events(case)
}

/// Returns whether a case times the events of writes at watchers: by its strategy, or by the first
/// measured load.
fn times_events(case: &Case) -> bool {
    let first = case.loads.iter().find(|load| load.measured);
    case.watchers.is_some() || first.is_some_and(|load| load.operation == "watch")
}
