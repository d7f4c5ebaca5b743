//! Compares received events with writes.

use super::*;

fn writes(revisions: &[i64], at: Instant) -> Vec<AcknowledgedWrite> {
    revisions
        .iter()
        .map(|&revision| AcknowledgedWrite {
            revision,
            intended: at,
        })
        .collect()
}

/// Returns the result of `finish` for one watcher with these events, without other writers.
async fn finished(seen: &[i64], written: &[i64]) -> Result<Delivered, DeliveryError> {
    finished_beside(seen, written, ExtraEvents::Nothing).await
}

async fn finished_beside(
    seen: &[i64],
    written: &[i64],
    beside: ExtraEvents,
) -> Result<Delivered, DeliveryError> {
    finished_with(seen, &[], written, beside).await
}

/// Finishes a watcher that listed again. Each pair of `lists` has the revision that the watcher had
/// reached, and that of the list.
async fn finished_with(
    seen: &[i64],
    lists: &[(i64, i64)],
    written: &[i64],
    beside: ExtraEvents,
) -> Result<Delivered, DeliveryError> {
    let begun = Instant::now();
    let (last, _) = watch::channel(None);
    let (answer, ended) = oneshot::channel();
    let at = begun + Duration::from_millis(7);
    let mut watcher = Watcher::behind(0, 0);
    let mut lists = lists.iter().peekable();
    for &revision in seen {
        if let Some((_, list)) = lists.next_if(|(after, _)| *after < revision) {
            watcher.listed(*list);
        }
        watcher.note(revision, at).expect("in order");
    }
    for (_, list) in lists {
        watcher.listed(*list);
    }
    let received = Received {
        watchers: vec![watcher],
        ..Received::default()
    };
    answer.send(Ok(vec![received])).expect("it waits");
    let watchers = DeliveryWatchers { last, ended };
    watchers.finish(writes(written, begun), begun, beside).await
}

#[tokio::test]
async fn beside_the_writes_of_others_only_ones_own_are_looked_at() {
    let delivered = finished_beside(&[4, 5, 6, 9, 10], &[5, 9], ExtraEvents::Anything).await;
    let delivered = delivered.expect("both came");
    assert_eq!((delivered.events, delivered.writes), (2, 2));
    for seen in [&[4, 5, 6, 10][..], &[4, 6, 9]] {
        let wrong = finished_beside(seen, &[5, 9], ExtraEvents::Anything).await;
        let wrong = wrong.expect_err("one of them is lost");
        let found = matches!(wrong, DeliveryError::Wrong { writes: 2, .. });
        assert!(found, "{wrong}");
    }
}

#[tokio::test]
async fn a_write_that_failed_may_have_an_event_and_no_other_may() {
    let delivered = finished_beside(&[5, 6, 9], &[5, 9], ExtraEvents::UpTo(1)).await;
    assert_eq!(delivered.expect("6 failed, and was done").events, 2);
    let delivered = finished_beside(&[5, 9], &[5, 9], ExtraEvents::UpTo(1)).await;
    assert_eq!(delivered.expect("it was not done").events, 2);
    for (seen, failed) in [(&[5, 6, 7, 9][..], 1), (&[5, 6, 9], 0), (&[5, 6], 1)] {
        let wrong = finished_beside(seen, &[5, 9], ExtraEvents::UpTo(failed)).await;
        assert!(wrong.is_err(), "{seen:?}");
    }
}

#[tokio::test]
async fn what_a_watcher_missed_since_it_listed_again_is_counted_and_nothing_else_is_missing() {
    let written = [3, 5, 6, 9, 12];
    // The watcher had reached 3, and listed at 6.
    let delivered = finished_with(&[3, 9, 12], &[(3, 6)], &written, ExtraEvents::Nothing).await;
    let delivered = delivered.expect("5 and 6 are in the list");
    let Delivered {
        events,
        relists,
        missed,
        ..
    } = delivered;
    assert_eq!((events, relists, missed), (3, 1, 2));
    // If nothing was written meanwhile, nothing is missed.
    let whole = finished_with(&written, &[(3, 4)], &written, ExtraEvents::Nothing).await;
    assert_eq!(whole.map(|d| (d.relists, d.missed)).ok(), Some((1, 0)));
    for seen in [&[3, 12][..], &[3, 9]] {
        let wrong = finished_with(seen, &[(3, 6)], &written, ExtraEvents::Nothing).await;
        assert!(wrong.is_err(), "the list does not make up for it: {seen:?}");
    }
}

#[test]
fn an_event_that_a_list_has_shown_is_a_repeat() {
    let mut watcher = Watcher::behind(0, 2);
    let at = Instant::now();
    watcher.note(3, at).expect("the first");
    watcher.listed(6);
    assert!(matches!(
        watcher.note(6, at),
        Err(DeliveryError::Order {
            revision: 6,
            before: 6
        })
    ));
    assert!(matches!(
        Watcher::behind(0, 2).note(2, at),
        Err(DeliveryError::Order { .. })
    ));
    watcher.note(7, at).expect("behind the list");
}

#[tokio::test]
async fn every_event_is_timed_from_the_intended_start_of_its_write() {
    let delivered = finished(&[5, 6, 9], &[9, 5, 6]).await.expect("all came");
    assert_eq!((delivered.events, delivered.writes), (3, 3));
    assert_eq!(delivered.latency.n(), 3);
    assert_eq!(delivered.watchers[0].latency.n(), 3);
}

#[tokio::test]
async fn a_lost_a_doubled_and_a_strange_event_are_found() {
    for seen in [&[5, 9][..], &[5, 6, 7, 9], &[5, 7, 9]] {
        let wrong = finished(seen, &[5, 6, 9])
            .await
            .expect_err("not what was written");
        assert!(
            matches!(wrong, DeliveryError::Wrong { writes: 3, .. }),
            "{wrong}"
        );
    }
}
