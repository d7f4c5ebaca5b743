//! Compares each list with what was written or, if that is not known, with the lists before it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use workloads::Fingerprint;

use super::{Contents, Expected, InvalidResponse, Listed};

/// What lists are checked against.
#[derive(Debug, Clone)]
pub struct Verifier {
    /// The prefix that keys are relative to.
    pub root: String,
    /// What was written, if that is known.
    pub expected: Option<Expected>,
    /// The expected contents by node, for lists that request one node after the other.
    pub by_node: HashMap<String, Fingerprint>,
    /// The contents of the latest list, used if the expected contents are not known: two lists of
    /// the same revision must be equal.
    pub latest: Arc<Mutex<Option<(i64, Contents)>>>,
}

impl Verifier {
    /// Returns the expected contents of a list of this node, or of everything.
    pub(crate) fn of(&self, node: Option<&str>) -> Option<Expected> {
        let mut expected = self.expected.clone()?;
        if let Some(node) = node {
            expected.fingerprint = self.by_node.get(node).copied().unwrap_or_default();
        }
        Some(expected)
    }

    /// Returns the revision of the latest list, if lists are compared with each other because the
    /// expected contents are not known.
    pub(crate) fn latest_revision(&self) -> Option<i64> {
        let latest = self.latest.lock();
        latest.as_ref().map(|(revision, _)| *revision)
    }

    /// Compares a list with the latest one of the same revision, and checks that its revision is at
    /// least `at_least`. Does nothing if the expected contents are known.
    pub(crate) fn agree(
        &self,
        listed: &Listed,
        contents: &Contents,
        at_least: Option<i64>,
    ) -> Result<(), InvalidResponse> {
        if self.expected.is_some() {
            return Ok(());
        }
        let revision = listed.revision;
        if let Some(at_least) = at_least.filter(|&at_least| revision < at_least) {
            let found = revision;
            return Err(InvalidResponse::Stale { found, at_least });
        }
        let mut latest = self.latest.lock();
        match &*latest {
            Some((same, before)) if *same == revision && before != contents => {
                let what = contents.difference(before);
                return Err(InvalidResponse::Contradiction { revision, what });
            }
            // Overlapping lists may end in another order than that of their revisions.
            Some((newer, _)) if *newer > revision => return Ok(()),
            _ => {}
        }
        *latest = Some((revision, contents.clone()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_overlap_do_not_make_the_latest_revision_go_back() {
        let verifier = Verifier {
            root: "/r/".to_owned(),
            expected: None,
            by_node: HashMap::new(),
            latest: Arc::default(),
        };
        let agree = |revision, revisions, at_least| {
            let listed = Listed {
                revision,
                ..Listed::default()
            };
            let found = Contents {
                revisions,
                ..Contents::default()
            };
            verifier.agree(&listed, &found, at_least)
        };
        agree(9, 90, None).expect("the first");
        agree(8, 80, None).expect("it began before the other had ended");
        assert_eq!(verifier.latest_revision(), Some(9));
        let other = agree(9, 91, None);
        assert!(matches!(
            other,
            Err(InvalidResponse::Contradiction { revision: 9, .. })
        ));
        let stale = agree(8, 80, verifier.latest_revision());
        assert!(matches!(
            stale,
            Err(InvalidResponse::Stale {
                found: 8,
                at_least: 9
            })
        ));
    }
}
