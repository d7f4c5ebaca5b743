//! Estimates what RangeStream, pages and shards would save. The estimates are those that decide
//! what may be listed on a server that loadgen did not start.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use report::quantity::Quantity;
use workloads::{PlainList, Strategy, Tier};

use super::audit_log::{ApiRequests, AuditLog};
use super::{Captured, RequestRates, Resource};
use crate::safety::cost::Cost;

/// Page sizes: kube-apiserver's when it lists from etcd, and client-go's when it lists from an
/// apiserver.
const PAGES: [u64; 2] = [10_000, 500];
/// The number of workers among which the shards of the estimate are divided.
const WORKERS: u64 = 4;
/// The size below which a list as one response is no burden: many times etcd's limit of a request.
const SMALL_LIST_BYTES: u64 = 32 << 20;

/// How long client-go's watches live at most. One that neither begins nor ends in a shorter log is
/// not seen.
const WATCH_LIVES: Duration = Duration::from_mins(10);

impl fmt::Display for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "etcd {}, {} for a small read, {} nodes",
            self.version,
            Quantity::seconds(self.round_trip.as_secs_f64()),
            Quantity::Count(self.nodes)
        )?;
        match &self.requests {
            Some(Ok(rates)) => {
                writeln!(f, "{rates}")?;
                if let Some(left_out) = self.members_left_out() {
                    writeln!(f, "  of {left_out}")?;
                }
            }
            Some(Err(reason)) => writeln!(f, "requests: unknown: {reason}")?,
            None => {}
        }
        if let Some(log) = &self.audit_log {
            writeln!(
                f,
                "audit log: {} requests in {}, and {} that failed",
                Quantity::Count(log.requests),
                Quantity::seconds(log.over.as_secs_f64()),
                Quantity::Count(log.failed)
            )?;
        }
        for resource in &self.resources {
            self.resource(resource, f)?;
        }
        writeln!(
            f,
            "\nAll other resources: {} objects.",
            Quantity::Count(self.other_keys)
        )
    }
}

impl Captured {
    fn resource(&self, resource: &Resource, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Resource {
            name,
            key,
            census,
            namespaces,
        } = resource;
        let bytes = census.bytes.unwrap_or(0);
        let size = |q| Quantity::or_absent(census.sample.quantile(q).map(Quantity::bytes));
        writeln!(
            f,
            "\n{name}: {} objects in {} namespaces, half of them up to {}, nine of ten up to {}; about {} in one list",
            Quantity::Count(census.keys),
            Quantity::Count(*namespaces),
            size(0.5),
            size(0.9),
            Quantity::bytes(bytes)
        )?;
        let metadata = &census.metadata;
        if let (Some(labels), Some(share)) =
            (metadata.labels_of_each(), metadata.managed_fields_share())
        {
            writeln!(
                f,
                "  metadata: of {} objects read, {} labels each; {:.0} % of the bytes are managedFields",
                Quantity::Count(metadata.objects),
                Quantity::Number((labels * 10.0).round() / 10.0),
                share * 100.0
            )?;
        }
        if let Some(log) = &self.audit_log {
            log.resource(key, f)?;
        }
        let peak = |strategy: Strategy| {
            let cost = Cost::of(Tier::Etcd, &strategy.into(), 1, census);
            cost.peak.unwrap_or(0)
        };
        let (unary, stream) = (
            peak(Strategy::Plain(PlainList::Unary)),
            peak(Strategy::Plain(PlainList::Stream)),
        );
        writeln!(
            f,
            "  RangeStream: a client that lists by Range takes up to {} of etcd's memory, by RangeStream {}{}",
            Quantity::bytes(unary),
            Quantity::bytes(stream),
            match bytes < SMALL_LIST_BYTES {
                true => ": too little to matter",
                false => "",
            }
        )?;
        for size in PAGES {
            let pages = census.keys.div_ceil(size).max(1);
            let page = NonZeroU32::new(size as u32).unwrap_or(NonZeroU32::MIN);
            let page = peak(Strategy::Paged(page)).min(stream);
            let waits = self.round_trip.as_secs_f64() * pages as f64;
            // etcd counts the keys from the start of each page to the end.
            let visits = pages * census.keys / 2;
            writeln!(
                f,
                "  pages of {size}: {} requests, {} of waiting for them, {} keys counted by etcd in all; up to {} of its memory",
                Quantity::Count(pages),
                Quantity::seconds(waits),
                Quantity::Count(visits),
                Quantity::bytes(page)
            )?;
        }
        writeln!(
            f,
            "  shards: each of {WORKERS} workers receives {} instead of {}",
            Quantity::bytes(bytes / WORKERS),
            Quantity::bytes(bytes)
        )
    }
}

impl fmt::Display for RequestRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "requests over {}: {} Range, {} RangeStream; keys: {} created, {} updated, {} deleted; leases: {} kept alive; {} sent; {} watchers",
            Quantity::seconds(self.over.as_secs_f64()),
            Quantity::PerSecond(self.ranges),
            Quantity::PerSecond(self.range_streams),
            Quantity::PerSecond(self.creates),
            Quantity::PerSecond(self.updates),
            Quantity::PerSecond(self.deletes),
            Quantity::PerSecond(self.keep_alives),
            Quantity::BytesPerSecond(self.sent_bytes),
            Quantity::Count(self.watchers)
        )
    }
}

impl AuditLog {
    /// Writes the requests of one resource.
    fn resource(&self, key: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.over.as_secs_f64();
        let rate = |count: u64| Quantity::PerSecond(count as f64 / seconds);
        let none = ApiRequests::default();
        let of = self.resources.get(key).unwrap_or(&none);
        let lists = of.lists.iter();
        let lists: String = lists
            .map(|(strategy, count)| format!(", {} {strategy}", rate(*count)))
            .collect();
        writeln!(
            f,
            "  requests over {}: {} get, {} create, {} update, {} patch, {} delete, {} deletecollection; lists of all objects: {}{lists}; of a part: {}; watches of all objects: {}{} open, of a part: {} ended",
            Quantity::seconds(seconds),
            rate(of.gets),
            rate(of.creates),
            rate(of.updates),
            rate(of.patches),
            rate(of.deletes),
            rate(of.delete_collections),
            rate(of.lists.values().sum()),
            rate(of.partial_lists),
            match self.over < WATCH_LIVES {
                true => "at least ",
                false => "",
            },
            Quantity::Number((of.watched.as_secs_f64() / seconds).round()),
            rate(of.partial_watches)
        )
    }
}
