//! A case of deliveries: puts, one after the other. Each put must reach every watcher before the
//! next one is sent.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use etcd_api::client::Client;
use etcd_api::error::Error as EtcdError;
use etcd_api::proto::etcdserverpb::PutRequest;
use load::operation::watch::{Deliveries, Watched, Watchers};
use tokio::time::timeout;

use super::{CaseRun, EarlyEnd, ListedData, Measured};
use crate::progress::Counted;
use crate::servers::running::Running;
use crate::timeouts::in_time;
use crate::to_result;

/// The default number of watchers.
const WATCHERS: u32 = 1_000;
/// How long a put may take to reach all watchers.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(30);
/// Size of a put's value, which is sent to each watcher.
const VALUE_BYTES: usize = 100;

impl CaseRun<'_> {
    /// Runs the measured part of a case of deliveries.
    pub(super) async fn deliveries(
        &self,
        listed: &ListedData,
        running: &mut Running,
        measured: &mut Measured,
    ) -> Result<(), EarlyEnd> {
        let failed = |error: EtcdError| EarlyEnd::Failed(error.to_string());
        let Some(config) = &listed.endpoint.etcd else {
            return Err(EarlyEnd::NotApplicable(
                "the target has no etcd API".to_owned(),
            ));
        };
        let watchers = self.spec.watchers.map_or(WATCHERS, NonZeroU32::get);
        let connections = self.connections();
        measured.case.watchers = Some(watchers);
        measured.case.connections = Some(connections);
        let prefix = format!("{}fan-out/", listed.verifier.root);
        // Warm-up puts are numbered, too.
        let (warm_up, repeats) = (self.scenario.warmup, self.scenario.repeats);
        let deliveries = Deliveries::new(warm_up, repeats);
        let title = format!("{}/{}", self.target.name, self.spec.name());
        let phase = self
            .progress
            .phase(&title, u64::from(repeats), Counted::Puts);
        let client = self.unless_stopped(in_time(Client::connect(config.clone())));
        let client = client.await?;
        let client = client.map_err(failed)?;
        let fan_out = FanOut {
            client,
            key: format!("{prefix}key"),
            watchers,
            deliveries: Arc::clone(&deliveries),
        };

        let mut meter = self.settled(running, measured).await?;
        meter.generator_keeps_events();
        let watched = Watched::Together(prefix.clone());
        let created = Watchers::create(config, &watched, watchers, connections, &deliveries);
        let created = self.unless_stopped(created).await?.map_err(failed)?;
        for number in 0..warm_up {
            let put = self.unless_stopped(fan_out.put(number));
            put.await?.map_err(failed)?;
        }
        meter.begin().await?;
        let begun = Instant::now();
        let mut outcome = Ok(());
        let mut requests = 0;
        for number in warm_up..warm_up + repeats {
            outcome = async {
                meter.begin_round()?;
                let put = self.unless_stopped(fan_out.put(number));
                put.await?.map_err(failed)
            }
            .await;
            meter.end_of_round(outcome.is_ok()).await;
            if outcome.is_err() {
                break;
            }
            requests += 1;
            phase.advance(1);
        }
        let span = self.since(begun);
        meter.end(0, requests, measured).await;
        measured.case.requests = requests;
        let received = created.close().await;
        match received {
            // Includes the puts before one that failed.
            Ok(histogram) => {
                measured.case.latency_ms = Some(to_result::quantiles_of_ms(&histogram, requests));
                measured.keep("latency", span, histogram);
            }
            Err(error) => outcome = outcome.and(Err(failed(error))),
        }
        outcome?;
        measured.case.valid = true;
        phase.done(&format!("{requests} puts to {watchers} watchers"));
        Ok(())
    }
}

/// Puts of one key, each of which must reach every watcher.
struct FanOut {
    client: Client,
    key: String,
    watchers: u32,
    deliveries: Arc<Deliveries>,
}

impl FanOut {
    /// Makes put number `number`, from 0, and waits until every watcher has its event.
    ///
    /// # Errors
    /// The put's, and [`EtcdError::Timeout`] for watchers without an event.
    async fn put(&self, number: u32) -> Result<(), EtcdError> {
        let request = PutRequest {
            key: self.key.clone().into(),
            value: self.deliveries.send(number, VALUE_BYTES),
            ..PutRequest::default()
        };
        let events = u64::from(self.watchers) * u64::from(number + 1);
        let delivered = async {
            self.client.kv().put(request).await?;
            self.deliveries.reached(events).await
        };
        let delivered = timeout(DELIVERY_TIMEOUT, delivered).await;
        delivered.unwrap_or_else(|_| {
            let missing = events - self.deliveries.received();
            Err(EtcdError::Timeout(format!(
                "{missing} of {} watchers had no event of a put after {} s",
                self.watchers,
                DELIVERY_TIMEOUT.as_secs()
            )))
        })
    }
}
