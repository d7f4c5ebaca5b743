//! Rules of lists: their resourceVersion, their pages, and their selectors.

use kube_api::client::KubeError;

use super::list::List;
use super::requests::{CheckError, in_query, key_of, version_of};
use super::rules::*;
use super::{Checked, Probe, try_rules};
use crate::probe::{Observation, judged};

/// A limit that is less than the number of objects.
const LIMIT_OF_TWO: usize = 2;
/// The number of pages in which a list is read, and the number at which reading stops even if there
/// is a token.
const PAGES_WANTED: usize = 3;
const MAX_PAGES: usize = 12;

/// Tries these rules.
///
/// # Errors
/// The error with which the API was lost.
pub(super) async fn try_all(probe: &mut Probe) -> Result<(), KubeError> {
    try_rules! { probe:
        LIST_SHAPE by shape;
        LIST_ORDER by order;
        LIST_CONSISTENT by consistent;
        LIST_CACHED by cached;
        LIST_CACHED_LIMIT by cached_limit;
        LIST_NOT_OLDER by not_older;
        LIST_NOT_OLDER_LIMIT by not_older_limit;
        LIST_VERSION by version;
        LIST_VERSION_LIMIT by version_limit;
        LIST_EXACT by exact;
        LIST_EXACT_LIMIT by exact_limit;
        LIMIT by limit;
        REMAINING by remaining;
        REMAINING_SELECTOR by remaining_selector;
    }
    match pages(probe).await {
        Ok((pages, whole)) => {
            probe.note(&PAGES, Ok(joined(&pages, &whole)))?;
            probe.note(&PAGES_REMAINING, Ok(counted(&pages, &whole)))?;
        }
        Err(trouble) => {
            probe.note(&PAGES, Err(trouble))?;
        }
    }
    try_rules! { probe:
        PAGES_LIMIT by other_limit;
        PAGES_CACHED by cached_page;
        SELECT_NONE by none;
        SELECT_NAME by name;
        SELECT_NOT_NAME by not_name;
        GET by get;
        GET_CACHED by get_cached;
    }
    Ok(())
}

async fn shape(probe: &mut Probe) -> Checked {
    let base = &probe.collection.base;
    let kind = base.json["kind"].as_str().unwrap_or_default();
    let version = base.json["metadata"]["resourceVersion"].clone();
    let newest = base.items.iter().map(|(_, version)| *version).max();
    let newest = newest.unwrap_or(0);
    let holds = kind.ends_with("List")
        && base.json["apiVersion"].is_string()
        && version.as_str() == Some(base.version.to_string().as_str())
        && base.items.iter().all(|(_, version)| *version > 0)
        && (1..=base.version).contains(&newest);
    Ok(judged(
        holds,
        format!("a {kind} at {version}, its newest item at {newest}"),
    ))
}

async fn order(probe: &mut Probe) -> Checked {
    let items = &probe.collection.base.items;
    let wrong = items.windows(2).find(|pair| pair[0].0 >= pair[1].0);
    Ok(match wrong {
        Some(pair) => judged(false, format!("{} before {}", pair[0].0, pair[1].0)),
        None => judged(true, format!("{} in order", items.len())),
    })
}

async fn consistent(probe: &mut Probe) -> Checked {
    let list = probe.list("").await?;
    let before = probe.collection.base.version;
    let received = format!("{}, after {before}", list.shown());
    Ok(judged(list.version >= before, received))
}

async fn cached(probe: &mut Probe) -> Checked {
    let cached = probe.list("resourceVersion=0").await?;
    let latest = probe.list("").await?;
    Ok(judged(
        (1..=latest.version).contains(&cached.version),
        format!("{}; the latest is {}", cached.shown(), latest.version),
    ))
}

async fn cached_limit(probe: &mut Probe) -> Checked {
    let list = probe.list("resourceVersion=0&limit=2").await?;
    let whole = probe.exact(list.version).await?;
    let holds = match list.token {
        None => list.items == whole.items,
        Some(_) => list.items == first(&whole, LIMIT_OF_TWO),
    };
    let total = whole.items.len();
    Ok(judged(holds, format!("{} of {total}", list.shown())))
}

async fn not_older(probe: &mut Probe) -> Checked {
    at_least(probe, "&resourceVersionMatch=NotOlderThan").await
}

async fn version(probe: &mut Probe) -> Checked {
    at_least(probe, "").await
}

/// Checks that a list is at the resourceVersion of the first list or later.
async fn at_least(probe: &mut Probe, options: &str) -> Checked {
    let base = probe.collection.base.version;
    let query = format!("resourceVersion={base}{options}");
    let list = probe.list(&query).await?;
    let holds = list.version >= base && list.token.is_none();
    Ok(judged(holds, format!("{}, N is {base}", list.shown())))
}

async fn not_older_limit(probe: &mut Probe) -> Checked {
    let base = probe.collection.base.version;
    let query = format!("resourceVersion={base}&resourceVersionMatch=NotOlderThan&limit=2");
    let list = probe.list(&query).await?;
    let holds = list.version >= base && list.items.len() == LIMIT_OF_TWO && list.token.is_some();
    Ok(judged(holds, format!("{}, N is {base}", list.shown())))
}

async fn exact(probe: &mut Probe) -> Checked {
    let list = probe.exact(probe.collection.base.version).await?;
    let base = &probe.collection.base;
    let holds = list.version == base.version && list.items == base.items;
    let received = format!("{}, where {} were due", list.shown(), base.shown());
    Ok(judged(holds, received))
}

async fn version_limit(probe: &mut Probe) -> Checked {
    first_page(probe, "").await
}

async fn exact_limit(probe: &mut Probe) -> Checked {
    first_page(probe, "&resourceVersionMatch=Exact").await
}

/// Checks that a page is at exactly the resourceVersion of the first list.
async fn first_page(probe: &mut Probe, options: &str) -> Checked {
    let base = probe.collection.base.version;
    let query = format!("resourceVersion={base}&limit=2{options}");
    let list = probe.list(&query).await?;
    let holds = list.version == base
        && list.items == first(&probe.collection.base, LIMIT_OF_TWO)
        && list.token.is_some();
    Ok(judged(holds, format!("{}, N is {base}", list.shown())))
}

async fn limit(probe: &mut Probe) -> Checked {
    let list = probe.list("limit=2").await?;
    let holds = list.items.len() == LIMIT_OF_TWO && list.token.is_some();
    Ok(judged(holds, list.shown()))
}

async fn remaining(probe: &mut Probe) -> Checked {
    let list = probe.list("limit=2").await?;
    let total = probe.exact(list.version).await?.items.len();
    let behind = (total - LIMIT_OF_TWO.min(total)) as u64;
    Ok(judged(
        list.remaining == Some(behind),
        format!("{}, of {total}", list.shown()),
    ))
}

async fn remaining_selector(probe: &mut Probe) -> Checked {
    let selector = in_query("!loadgen.test/none");
    let query = format!("limit=2&labelSelector={selector}");
    let list = probe.list(&query).await?;
    let holds = list.token.is_some() && list.remaining.is_none();
    Ok(judged(holds, list.shown()))
}

/// Reads all pages, and the whole list at the resourceVersion of the first page.
async fn pages(probe: &mut Probe) -> Result<(Vec<List>, List), CheckError> {
    let limit = probe.collection.base.items.len().div_ceil(PAGES_WANTED);
    let mut pages = vec![probe.list(&format!("limit={limit}")).await?];
    while pages.len() < MAX_PAGES {
        let token = pages.last().and_then(|page| page.token.as_deref());
        let Some(token) = token else { break };
        let next = format!("limit={limit}&continue={}", in_query(token));
        pages.push(probe.list(&next).await?);
    }
    let whole = probe.exact(pages[0].version).await?;
    Ok((pages, whole))
}

fn joined(pages: &[List], whole: &List) -> Observation {
    let items: Vec<_> = pages.iter().flat_map(|page| page.items.clone()).collect();
    let versions = pages.iter().map(|page| page.version);
    let versions: Vec<_> = versions.collect();
    let holds = pages.len() >= LIMIT_OF_TWO
        && items == whole.items
        && versions.iter().all(|version| *version == whole.version);
    let received = format!(
        "{} items of {} in {} pages at {versions:?}",
        items.len(),
        whole.items.len(),
        pages.len()
    );
    judged(holds, received)
}

fn counted(pages: &[List], whole: &List) -> Observation {
    let mut read = 0;
    let holds = pages.iter().all(|page| {
        read += page.items.len();
        let behind = whole.items.len().saturating_sub(read) as u64;
        match behind {
            0 => page.remaining.is_none() && page.token.is_none(),
            behind => page.remaining == Some(behind) && page.token.is_some(),
        }
    });
    let counts: Vec<_> = pages.iter().map(|page| page.remaining).collect();
    let counts = counts.iter().map(|count| match count {
        Some(count) => count.to_string(),
        None => "none".to_owned(),
    });
    let counts = counts.collect::<Vec<_>>().join(", ");
    judged(holds, format!("remain {counts}, of {}", whole.items.len()))
}

async fn other_limit(probe: &mut Probe) -> Checked {
    third(probe, "").await
}

async fn cached_page(probe: &mut Probe) -> Checked {
    third(probe, "&resourceVersion=0").await
}

/// Checks the page after a first page of two items, read with a different limit. With
/// resourceVersion 0, its limit may be ignored.
async fn third(probe: &mut Probe, options: &str) -> Checked {
    let page = probe.list("limit=2").await?;
    let whole = probe.exact(page.version).await?;
    let token = in_query(page.token.as_deref().unwrap_or_default());
    let query = format!("limit=1&continue={token}{options}");
    let next = probe.list(&query).await?;
    let rest = whole.items.get(LIMIT_OF_TWO..).unwrap_or_default();
    let holds = next.version == page.version
        && match next.items.len() {
            1 => next.items.first() == rest.first(),
            _ => !options.is_empty() && next.items == rest,
        };
    let received = format!("{}, after a page at {}", next.shown(), page.version);
    Ok(judged(holds, received))
}

async fn none(probe: &mut Probe) -> Checked {
    let selector = in_query("loadgen.test/none=any");
    let list = probe.list(&format!("labelSelector={selector}")).await?;
    let holds = list.items.is_empty() && list.version > 0 && list.token.is_none();
    Ok(judged(holds, list.shown()))
}

async fn name(probe: &mut Probe) -> Checked {
    let name = probe.collection.name(1);
    let selector = in_query(&format!("metadata.name={name}"));
    let list = probe.list(&format!("fieldSelector={selector}")).await?;
    let key = &probe.collection.base.items[1].0;
    let holds = matches!(list.items.as_slice(), [(only, _)] if only == key);
    Ok(judged(holds, list.shown()))
}

async fn not_name(probe: &mut Probe) -> Checked {
    let name = probe.collection.name(1);
    let selector = in_query(&format!("metadata.name!={name}"));
    let list = probe.list(&format!("fieldSelector={selector}")).await?;
    let mut others = probe.exact(list.version).await?.items;
    others.retain(|(key, _)| *key != probe.collection.base.items[1].0);
    let received = format!("{}, where {} were due", list.shown(), others.len());
    Ok(judged(list.items == others, received))
}

async fn get(probe: &mut Probe) -> Checked {
    object(probe, "").await
}

async fn get_cached(probe: &mut Probe) -> Checked {
    object(probe, "?resourceVersion=0").await
}

/// Checks a GET of the second object of the first list.
async fn object(probe: &mut Probe, query: &str) -> Checked {
    let path = format!("{}{query}", probe.object(&probe.collection.name(1)));
    let response = probe.requests.get(&path).await?.success()?;
    let (key, version) = &probe.collection.base.items[1];
    let object = &response.json;
    let holds = key_of(object) == *key
        && object["kind"] == probe.collection.kind.as_str()
        && object["apiVersion"].is_string()
        // The object in the cache may be older, but has a resourceVersion.
        && (version_of(object) >= *version || (!query.is_empty() && version_of(object) > 0));
    Ok(judged(holds, response.shown()))
}

/// Returns the first items of a list.
fn first(list: &List, count: usize) -> &[(String, u64)] {
    &list.items[..count.min(list.items.len())]
}
