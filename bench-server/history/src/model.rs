//! The states of the store, by revision, as the log describes them.

use std::collections::BTreeMap;

use crate::record::{Change, KeyRange, KeyValue, OpResponse, Txn, Watch};
use crate::violation::{Rule, Violation};

/// Every state of the store, by revision.
#[derive(Default)]
pub(crate) struct Model {
    commits: BTreeMap<i64, Vec<KeyValue>>,
    /// The changes of each key, by ascending revision.
    keys: BTreeMap<String, Vec<KeyValue>>,
}

/// The effect of a transaction on a state.
pub(crate) struct Effect {
    pub(crate) succeeded: bool,
    pub(crate) responses: Vec<OpResponse>,
    /// Changed keys, as events of the log.
    pub(crate) events: Vec<KeyValue>,
}

impl Model {
    /// Replays the log.
    pub(crate) fn replay(log: &Watch, found: &mut Vec<Violation>) -> Self {
        let mut model = Self::default();
        for event in log.events() {
            let kv = &event.kv;
            let last = model.last();
            if kv.mod_revision > last + 1 {
                let missing = last + 1..kv.mod_revision;
                let detail = format!("no event has revision {missing:?}");
                found.push(Violation::new(Rule::LogGap, detail));
            }
            let expected = model.follow(kv);
            if expected.as_ref() != Some(kv) {
                let detail = format!("{kv:?}, which should be {expected:?}");
                found.push(Violation::new(Rule::LogEvent, detail));
            }
            let commit = model.commits.entry(kv.mod_revision).or_default();
            commit.push(kv.clone());
            let changes = model.keys.entry(kv.key.clone()).or_default();
            changes.push(kv.clone());
            // A log out of order is reported as a violation; lookups still need the order.
            changes.sort_by_key(|kv| kv.mod_revision);
        }
        model
    }

    /// Returns the event that must follow the current state for the key, value, lease and revision
    /// of `kv`; `None` if no event of this key can follow.
    fn follow(&self, kv: &KeyValue) -> Option<KeyValue> {
        let revision = kv.mod_revision;
        let changed = self.commit(revision).unwrap_or_default();
        if revision < 2 || changed.iter().any(|earlier| earlier.key == kv.key) {
            return None;
        }
        let before = self.at(&kv.key, revision - 1);
        match kv.version {
            0 => before.map(|before| tombstone(&before.key, revision)),
            _ => Some(KeyValue {
                lease: kv.lease,
                ..changed_to(before, &kv.key, &kv.value, revision)
            }),
        }
    }

    /// Returns the number of revisions.
    pub(crate) fn len(&self) -> usize {
        self.commits.len()
    }

    /// Returns the last revision.
    pub(crate) fn last(&self) -> i64 {
        self.commits.last_key_value().map_or(1, |(last, _)| *last)
    }

    /// Returns the changes of a revision, in the log's order.
    pub(crate) fn commit(&self, revision: i64) -> Option<&[KeyValue]> {
        self.commits.get(&revision).map(Vec::as_slice)
    }

    /// Iterates over all revisions and their changes.
    pub(crate) fn commits(&self) -> impl Iterator<Item = (i64, &[KeyValue])> {
        self.commits.iter().map(|(at, events)| (*at, &events[..]))
    }

    /// Iterates over the changes between two revisions, both included.
    pub(crate) fn between(&self, first: i64, last: i64) -> impl Iterator<Item = &KeyValue> {
        let commits = (first <= last).then(|| self.commits.range(first..=last));
        commits.into_iter().flatten().flat_map(|(_, kvs)| kvs)
    }

    /// Returns a key as of a revision.
    pub(crate) fn at(&self, key: &str, revision: i64) -> Option<&KeyValue> {
        current(self.keys.get(key)?, revision)
    }

    /// Iterates over the keys of a range as of a revision, in order.
    pub(crate) fn range<'a>(
        &'a self,
        range: &'a KeyRange,
        revision: i64,
    ) -> impl Iterator<Item = &'a KeyValue> {
        let from = self.keys.range(range.from.clone()..);
        let within = from.take_while(|(key, _)| range.contains(key));
        within.filter_map(move |(_, changes)| current(changes, revision))
    }

    /// Evaluates a transaction on the state of `revision`, as the next revision.
    pub(crate) fn evaluate(&self, revision: i64, txn: &Txn) -> Effect {
        let holds = txn.compares.iter().all(|compare| {
            let found = self.at(&compare.key, revision);
            found.map_or(0, |kv| kv.mod_revision) == compare.mod_revision
        });
        let branch = if holds { &txn.success } else { &txn.failure };
        let mut changed: BTreeMap<String, KeyValue> = BTreeMap::new();
        let mut events = Vec::new();
        let mut responses = Vec::new();
        for change in branch {
            let visible = |range: &KeyRange, changed: &BTreeMap<String, KeyValue>| {
                let mut kvs: BTreeMap<String, KeyValue> = BTreeMap::new();
                let stored = self.range(range, revision).cloned();
                kvs.extend(stored.map(|kv| (kv.key.clone(), kv)));
                let own = changed.iter().filter(|(key, _)| range.contains(key));
                kvs.extend(own.map(|(key, kv)| (key.clone(), kv.clone())));
                kvs.retain(|_, kv| kv.version > 0);
                kvs.into_values().collect::<Vec<_>>()
            };
            match change {
                Change::Put(key, value, lease) => {
                    let before = visible(&KeyRange::one(key), &changed).pop();
                    let mut kv = changed_to(before.as_ref(), key, value, revision + 1);
                    kv.lease = *lease;
                    changed.insert(key.clone(), kv.clone());
                    events.push(kv);
                    responses.push(OpResponse::Put(before));
                }
                Change::Revoke(lease) => {
                    let keys = self.keys.values();
                    let all = keys.filter_map(|changes| current(changes, revision));
                    let attached = all.filter(|kv| kv.lease == *lease);
                    events.extend(attached.map(|kv| tombstone(&kv.key, revision + 1)));
                    responses.push(OpResponse::Revoke);
                }
                Change::Delete(range) => {
                    let before = visible(range, &changed);
                    for kv in &before {
                        let gone = tombstone(&kv.key, revision + 1);
                        changed.insert(kv.key.clone(), gone.clone());
                        events.push(gone);
                    }
                    responses.push(OpResponse::Delete(before));
                }
                Change::Get(range) => responses.push(OpResponse::Get(visible(range, &changed))),
            }
        }
        Effect {
            succeeded: holds,
            responses,
            events,
        }
    }
}

/// Returns the last of a key's changes up to a revision, unless it is a deletion.
fn current(changes: &[KeyValue], revision: i64) -> Option<&KeyValue> {
    let until = changes.partition_point(|kv| kv.mod_revision <= revision);
    let last = changes[..until].last()?;
    (last.version > 0).then_some(last)
}

fn tombstone(key: &str, revision: i64) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        mod_revision: revision,
        ..KeyValue::default()
    }
}

fn changed_to(before: Option<&KeyValue>, key: &str, value: &str, revision: i64) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: value.to_owned(),
        create_revision: before.map_or(revision, |kv| kv.create_revision),
        mod_revision: revision,
        version: before.map_or(0, |kv| kv.version) + 1,
        lease: 0,
    }
}
