//! Rules of shards (KEP-5866), an optional feature: a server without it ignores the selector.

use std::num::NonZeroU32;

use kube_api::client::KubeError;
use kube_api::shard_selector::{ShardKey, ShardRange, ShardSelector};

use super::list::List;
use super::requests::{CheckError, in_query};
use super::rules::*;
use super::{Checked, Probe};
use crate::probe::{Observation, judged, lacking};

const HALVES: NonZeroU32 = NonZeroU32::new(2).expect("not zero");

/// Tries these rules. If the server has no shards, the first rule is recorded as lacking and the
/// others are not tried.
///
/// # Errors
/// The error with which the API was lost.
pub(super) async fn try_all(probe: &mut Probe) -> Result<(), KubeError> {
    let selectors = ShardSelector::equal_shards(ShardKey::Uid, HALVES);
    let mut halves = Vec::new();
    for selector in &selectors {
        match half(probe, selector).await {
            Ok(list) => halves.push(list),
            Err(trouble) => {
                probe.note(&SHARDS, Err(trouble))?;
                return Ok(());
            }
        }
    }
    let ignored = |list: &List| list.json["metadata"]["shardInfo"].is_null();
    if halves.iter().all(ignored) {
        let received = "no shardInfo: the selector is ignored";
        probe.note(&SHARDS, Ok(lacking(received)))?;
        return Ok(());
    }
    let whole = whole(probe, &halves, &selectors);
    probe.note(&SHARDS, Ok(whole))?;
    let members = members(&halves, &selectors);
    probe.note(&SHARD_MEMBERS, Ok(members))?;
    let checked = page(probe).await;
    probe.note(&SHARD_REMAINING, checked)?;
    Ok(())
}

async fn half(probe: &mut Probe, selector: &ShardSelector) -> Result<List, CheckError> {
    let n = probe.collection.base.version;
    let selector = in_query(&selector.to_string());
    let query = format!("resourceVersion={n}&resourceVersionMatch=Exact&shardSelector={selector}");
    probe.list(&query).await
}

fn whole(probe: &Probe, halves: &[List], selectors: &[ShardSelector]) -> Observation {
    let mut items: Vec<_> = halves.iter().flat_map(|half| half.items.clone()).collect();
    items.sort();
    let mut base = probe.collection.base.items.clone();
    base.sort();
    let is_told = |(half, selector): (&List, &ShardSelector)| {
        half.json["metadata"]["shardInfo"]["selector"] == selector.to_string()
    };
    let holds = items == base && halves.iter().zip(selectors).all(is_told);
    let sizes: Vec<_> = halves.iter().map(|half| half.items.len()).collect();
    judged(holds, format!("{sizes:?} of {} items", base.len()))
}

fn members(halves: &[List], selectors: &[ShardSelector]) -> Observation {
    let mut wrong = 0;
    let mut all = 0;
    for (half, selector) in halves.iter().zip(selectors) {
        for item in half.objects() {
            let uid = item["metadata"]["uid"].as_str().unwrap_or_default();
            let hash = ShardKey::Uid.hash(uid.as_bytes(), b"");
            all += 1;
            wrong += u64::from(!selector.selects(hash));
        }
    }
    let received = format!("{wrong} of {all} objects are in the wrong half");
    judged(wrong == 0 && all > 0, received)
}

async fn page(probe: &mut Probe) -> Checked {
    let selector = ShardSelector::new(ShardKey::Uid, ShardRange::WHOLE);
    let selector = in_query(&selector.to_string());
    let query = format!("limit=1&shardSelector={selector}");
    let page = probe.list(&query).await?;
    let holds = page.token.is_some() && page.remaining.is_none();
    Ok(judged(holds, page.shown()))
}
