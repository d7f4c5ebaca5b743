//! How far apart the clocks of two generators are, found through the target: the one puts a key,
//! the other watches for it and puts the time that it has then, and the first sees how long that
//! took.
//!
//! The middle of that time is when the other's clock was read, within half of it (NTP's formula).
//! Of several tries the shortest one says most.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use etcd_api::error::Error as EtcdError;
use etcd_api::keys::prefix_end;
use etcd_api::proto::etcdserverpb::watch_request::RequestUnion;
use etcd_api::proto::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use futures::stream::{self, StreamExt as _};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use tonic::Streaming;

use super::keys::Keys;
use super::meeting::WHILE_OPEN;
use crate::timeouts::in_time;

/// Tries, of which the shortest counts.
const TRIES: u32 = 20;
/// How long one may take.
const TOLD_WITHIN: Duration = Duration::from_secs(5);
/// Below the prefix: what is asked, by number of the generator that asks.
const ASKED: &str = "clock/asked/";
/// Below the prefix: what the first generator's clock said.
const TOLD: &str = "clock/told/";

/// How far a clock is ahead of the first generator's.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in crate::run) struct ClockDifference {
    /// Negative where it is behind; ms.
    pub(in crate::run) ahead_ms: f64,
    /// How far that may be from the truth; ms.
    pub(in crate::run) within_ms: f64,
}

impl ClockDifference {
    /// Returns how far apart the clocks are at most, in ms: what was found, and how far that may be
    /// from the truth.
    pub(in crate::run) fn at_most_ms(self) -> f64 {
        self.ahead_ms.abs() + self.within_ms
    }

    /// Returns what this clock shows when the first generator's shows `at`.
    pub(super) fn here(self, at: SystemTime) -> SystemTime {
        let by = Duration::from_secs_f64(self.ahead_ms.abs() / 1e3);
        match self.ahead_ms < 0.0 {
            true => at - by,
            false => at + by,
        }
    }
}

/// One try.
#[derive(Debug, Clone, Copy)]
struct Try {
    asked: SystemTime,
    told: SystemTime,
    took: Duration,
}

impl Try {
    fn difference(self) -> ClockDifference {
        let middle = self.asked + self.took / 2;
        let ahead_ms = match middle.duration_since(self.told) {
            Ok(ahead) => ahead.as_secs_f64() * 1e3,
            Err(behind) => -behind.duration().as_secs_f64() * 1e3,
        };
        ClockDifference {
            ahead_ms,
            within_ms: self.took.as_secs_f64() * 1e3 / 2.0,
        }
    }
}

/// Tells the time to every generator that asks, until it is dropped; the server has confirmed the
/// watch when this returns.
///
/// # Errors
/// When the server does not.
pub(super) async fn tell(keys: &Keys) -> Result<AbortOnDropHandle<()>, EtcdError> {
    let asked = format!("{}{ASKED}", keys.prefix);
    let create = WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(WatchCreateRequest {
            range_end: prefix_end(asked.as_bytes()).into(),
            key: asked.clone().into(),
            ..WatchCreateRequest::default()
        })),
    };
    // The stream lasts as long as its requests do.
    let requests = stream::iter([create]).chain(stream::pending());
    let mut watch = keys.client.watch();
    let opened = async {
        let mut responses = watch.watch(requests).await?.into_inner();
        let created = responses.message().await?;
        match created.is_some_and(|created| created.created && !created.canceled) {
            true => Ok(responses),
            false => Err(EtcdError::Protocol(
                "no watch was created for the generators' clocks".to_owned(),
            )),
        }
    };
    let responses = in_time::<_, EtcdError>(opened).await?;
    let telling = tell_each(keys.clone(), asked, responses);
    Ok(AbortOnDropHandle::new(tokio::spawn(telling)))
}

async fn tell_each(keys: Keys, asked: String, mut responses: Streaming<WatchResponse>) {
    // Who gets no answer says so; this end has nobody to tell.
    while let Ok(Some(response)) = responses.message().await {
        let now = since_1970(SystemTime::now());
        for event in response.events {
            let Some(kv) = event.kv.filter(|kv| !kv.value.is_empty()) else {
                continue;
            };
            let (key, number) = (String::from_utf8_lossy(&kv.key), kv.value);
            let Some(generator) = key.strip_prefix(&asked) else {
                continue;
            };
            let number = String::from_utf8_lossy(&number).into_owned();
            let told = format!("{TOLD}{generator}");
            let time = format!("{number} {}", now.as_nanos());
            if keys.put_if(&[WHILE_OPEN], &told, time).await.is_err() {
                return;
            }
        }
    }
}

/// Asks the first generator for its time.
///
/// # Errors
/// When the target fails, or nobody tells the time.
pub(super) async fn ask(keys: &Keys, generator: u32) -> Result<ClockDifference, EtcdError> {
    let mut best: Option<Try> = None;
    for number in 0..TRIES {
        let one = timeout(TOLD_WITHIN, ask_once(keys, generator, number)).await;
        let one = one.map_err(|_| {
            EtcdError::Protocol(format!(
                "generator 0 did not tell its time within {} s",
                TOLD_WITHIN.as_secs()
            ))
        })??;
        if best.is_none_or(|best| one.took < best.took) {
            best = Some(one);
        }
    }
    Ok(best.map(Try::difference).unwrap_or_default())
}

async fn ask_once(keys: &Keys, generator: u32, number: u32) -> Result<Try, EtcdError> {
    let asked = SystemTime::now();
    let begun = Instant::now();
    let key = format!("{ASKED}{generator}");
    if !keys.put_if(&[WHILE_OPEN], &key, number.to_string()).await? {
        return Err(EtcdError::Protocol("generator 0 has gone".to_owned()));
    }
    let key = format!("{TOLD}{generator}");
    loop {
        let value = keys.get(&key).await?;
        let took = begun.elapsed();
        if let Some(told) = value.and_then(|value| told(&value, number)) {
            return Ok(Try { asked, told, took });
        }
    }
}

/// Returns the time that was told for the try of this number; `None` where it was for another.
fn told(value: &[u8], number: u32) -> Option<SystemTime> {
    let (told_for, nanos) = std::str::from_utf8(value).ok()?.split_once(' ')?;
    let is_for_it = told_for.parse() == Ok(number);
    let nanos = nanos.parse().ok().filter(|_| is_for_it)?;
    UNIX_EPOCH.checked_add(Duration::from_nanos(nanos))
}

fn since_1970(at: SystemTime) -> Duration {
    at.duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(ms)
    }

    #[test]
    fn the_middle_of_a_try_is_held_against_what_was_told() {
        let ahead = Try {
            asked: at(10_000),
            told: at(9_705),
            took: Duration::from_millis(10),
        };
        let ahead = ahead.difference();
        assert!((ahead.ahead_ms - 300.0).abs() < 1e-6, "{ahead:?}");
        assert!((ahead.within_ms - 5.0).abs() < 1e-6, "{ahead:?}");
        assert_eq!(ahead.here(at(20_000)), at(20_300));
        assert!((ahead.at_most_ms() - 305.0).abs() < 1e-6, "{ahead:?}");
        let behind = Try {
            asked: at(10_000),
            told: at(10_205),
            took: Duration::from_millis(10),
        };
        let behind = behind.difference();
        assert!((behind.ahead_ms + 200.0).abs() < 1e-6, "{behind:?}");
        assert_eq!(behind.here(at(20_000)), at(19_800));
        assert!((behind.at_most_ms() - 205.0).abs() < 1e-6, "{behind:?}");
    }

    #[test]
    fn only_the_answer_to_a_try_counts() {
        assert_eq!(told(b"3 5000000", 3), Some(at(5)));
        assert_eq!(told(b"2 5000000", 3), None);
        for text in ["", "3", "3 ", "3 x", "x 5", "3 -5"] {
            assert_eq!(told(text.as_bytes(), 3), None, "{text}");
        }
    }
}
