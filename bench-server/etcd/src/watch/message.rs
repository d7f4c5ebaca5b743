//! Encodes the responses of a watch as gRPC messages, a part at a time.
//!
//! Large records are referenced where the store keeps them, as in lists, and the length of a
//! message is known from its events' sizes. A response of any size therefore costs no more memory
//! than the frame that is being filled. The bytes equal those of an ordinary encoder.

use std::collections::VecDeque;

use etcd_api::proto::etcdserverpb::WatchResponse;
use prost::Message as _;
use prost::encoding::{encode_varint, encoded_len_varint};
use store::Record;
use store::history::Event;
use store::watch_hub::Delivery;
use tonic::Status;
use wire::grpc;

use crate::frames::{FrameBuilder, PutRecord as _};

/// Key of `WatchResponse.events`: field 11, length-delimited.
const EVENTS_KEY: u8 = 0x5a;
/// `Event.type` of a deletion: field 1, varint 1. That of a put is 0, and is omitted.
const DELETE: [u8; 2] = [0x08, 1];
/// Key of `Event.prev_kv`: field 3, length-delimited. That of `Event.kv` is 2, with which records
/// are stored.
const PREV_KV_KEY: u8 = 0x1a;

/// A response that is being sent: one gRPC message, or several if it may be split.
pub(super) struct WatchMessages {
    parts: VecDeque<Part>,
    delivery: Option<Delivery>,
    /// Number of events sent so far, in all parts.
    sent: usize,
}

/// A gRPC message.
struct Part {
    /// The message's prefix, and its fields before the events; empty once they are sent.
    head: Vec<u8>,
    /// Number of events that are not sent yet.
    events: usize,
}

impl Part {
    /// Returns a message with the fields of `response` and `events` events, whose fields take
    /// `bytes`.
    fn new(response: &WatchResponse, events: usize, bytes: usize) -> Result<Self, Status> {
        let fields = response.encoded_len();
        let mut head = Vec::with_capacity(grpc::PREFIX_BYTES + fields);
        head.extend(grpc::message_prefix((fields + bytes) as u64)?);
        response
            .encode(&mut head)
            .expect("a Vec grows to whatever is written");
        Ok(Self { head, events })
    }
}

impl WatchMessages {
    /// Returns a response without events.
    ///
    /// # Errors
    /// As [`grpc::message_prefix`].
    pub(super) fn without_events(response: &WatchResponse) -> Result<Self, Status> {
        Ok(Self {
            parts: VecDeque::from([Part::new(response, 0, 0)?]),
            delivery: None,
            sent: 0,
        })
    }

    /// Returns `response` with the events of `delivery`. If these may be split, a response of at
    /// least `limit_bytes` becomes several messages below that size, with at least one event each.
    ///
    /// # Errors
    /// As [`grpc::message_prefix`].
    pub(super) fn with_events(
        mut response: WatchResponse,
        delivery: Delivery,
        limit_bytes: usize,
    ) -> Result<Self, Status> {
        let sizes = delivery.events().map(|(event, prev)| {
            let len = event_len(event, prev);
            1 + encoded_len_varint(len as u64) + len
        });
        let parts = match delivery.fragment {
            true => split(&mut response, sizes, limit_bytes)?,
            false => {
                let (events, bytes) = sizes.fold((0, 0), |(n, sum), size| (n + 1, sum + size));
                VecDeque::from([Part::new(&response, events, bytes)?])
            }
        };
        Ok(Self {
            parts,
            delivery: Some(delivery),
            sent: 0,
        })
    }

    /// Returns the size of a frame that starts with this response, if it is small.
    pub(super) fn expected_bytes(&self) -> usize {
        let records = self.delivery.as_ref().map_or(0, Delivery::bytes);
        let heads: usize = self.parts.iter().map(|part| part.head.len()).sum();
        let events: usize = self.parts.iter().map(|part| part.events).sum();
        // The keys, lengths and types of the events.
        heads + records + 8 * events
    }

    /// Appends bytes to `frame` until it is full. Returns whether nothing is left to send.
    pub(super) fn fill(&mut self, frame: &mut FrameBuilder) -> bool {
        while let Some(part) = self.parts.front_mut() {
            frame.put(&std::mem::take(&mut part.head));
            let events = self.delivery.iter().flat_map(Delivery::events);
            for (event, prev) in events.skip(self.sent).take(part.events) {
                if frame.is_full() {
                    return false;
                }
                put_event(frame, event, prev);
                self.sent += 1;
                part.events -= 1;
            }
            self.parts.pop_front();
            if frame.is_full() {
                break;
            }
        }
        self.parts.is_empty()
    }
}

/// Divides events, whose fields have these sizes, into messages below `limit_bytes`. All but the
/// last are marked as fragments.
fn split(
    response: &mut WatchResponse,
    sizes: impl Iterator<Item = usize>,
    limit_bytes: usize,
) -> Result<VecDeque<Part>, Status> {
    let sizes: Vec<usize> = sizes.collect();
    let fields = response.encoded_len();
    let total = sizes.iter().sum();
    if sizes.len() < 2 || fields + total < limit_bytes {
        return Ok(VecDeque::from([Part::new(response, sizes.len(), total)?]));
    }
    response.fragment = true;
    let overhead = response.encoded_len();
    let mut parts = VecDeque::new();
    let (mut events, mut bytes) = (0, 0);
    for size in sizes {
        if events > 0 && overhead + bytes + size >= limit_bytes {
            parts.push_back(Part::new(response, events, bytes)?);
            (events, bytes) = (0, 0);
        }
        events += 1;
        bytes += size;
    }
    response.fragment = false;
    parts.push_back(Part::new(response, events, bytes)?);
    Ok(parts)
}

/// Returns the length of an event's message, bytes.
fn event_len(event: &Event, prev: Option<&Record>) -> usize {
    let kind = match event.record.is_tombstone() {
        true => DELETE.len(),
        false => 0,
    };
    kind + event.record.wire_len() + prev.map_or(0, Record::wire_len)
}

fn put_event(frame: &mut FrameBuilder, event: &Event, prev: Option<&Record>) {
    frame.put_encoded(|out| {
        out.push(EVENTS_KEY);
        encode_varint(event_len(event, prev) as u64, out);
        if event.record.is_tombstone() {
            out.extend(DELETE);
        }
    });
    frame.put_record(&event.record);
    if let Some(prev) = prev {
        frame.put_with_key(PREV_KV_KEY, prev);
    }
}
