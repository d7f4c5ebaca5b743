//! The notes of a case whose objects were shared among workers.

use super::milliseconds;
use crate::quantity::Quantity;
use crate::result::{Case, Sharding};

/// Returns how the objects were shared, and the metrics of the shards.
pub(super) fn shared(case: &Case, shards: &Sharding) -> Vec<String> {
    let cpu = |seconds: Option<f64>| Quantity::or_absent(seconds.map(Quantity::seconds));
    let mut notes = vec![format!(
        "shards by {}, {}: the largest has {} objects, {} the mean, {}; busiest worker {} CPU, largest {}",
        shards.key,
        shards.plan,
        Quantity::Count(shards.objects_max),
        Quantity::PerByte(shards.objects_skew),
        Quantity::bytes(shards.bytes_max),
        cpu(Some(shards.worker_cpu_s_max)),
        Quantity::or_absent(shards.worker_memory_max.map(Quantity::bytes)),
    )];
    if let Some((most, whole)) = shards.server_cpu_s_max.zip(shards.server_cpu_s_whole) {
        let part = shards.server_cpu_part_max.map(Quantity::PerByte);
        notes.push(format!(
            "one shard by itself: up to {} of server CPU, {} everything's {} in {} rounds of both",
            cpu(Some(most)),
            Quantity::or_absent(part),
            cpu(Some(whole)),
            shards.alone_rounds,
        ));
    }
    if let Some(events) = &shards.events {
        notes.push(format!(
            "state at the last worker after {} and {} of server CPU",
            milliseconds(shards.synced_ms.as_ref().and_then(|q| q.p50.or(q.mean))),
            cpu(shards.sync_server_cpu_s),
        ));
        notes.push(format!(
            "{} writes at {}, {} events delivered, {} dropped, {} thrown away; {} at the worker with most; {} reconnected",
            Quantity::Count(events.writes),
            Quantity::or_absent(case.requests_per_s.map(Quantity::PerSecond)),
            Quantity::Count(events.delivered),
            Quantity::Count(events.dropped),
            Quantity::Count(events.filtered),
            Quantity::bytes(events.bytes_max),
            Quantity::Count(events.reconnects),
        ));
        if events.ended > 0 {
            notes.push(format!(
                "{} watches fell behind, were ended by the server and resumed",
                Quantity::Count(events.ended)
            ));
        }
    }
    let part = |part: f64| format!("{:.1} %", part * 100.0);
    if let Some(resharding) = &shards.resharding {
        notes.push(format!(
            "one worker more ({}) moved {} of the objects: {} listed again, {}, the last new shard synced after {}",
            resharding.plan,
            part(resharding.moved),
            Quantity::Count(resharding.objects_listed),
            Quantity::bytes(resharding.bytes_listed),
            milliseconds(Some(resharding.synced_ms)),
        ));
        return notes;
    }
    if let Some((moved, least)) = shards.moved_to_next.zip(shards.least_moved) {
        notes.push(format!(
            "one worker more moves {} of the objects, {} where it takes from each",
            part(moved),
            part(least)
        ));
    }
    notes
}
