//! `/debug/opaque?bytes=N`: N bytes of stored records as one plain HTTP body.
//!
//! The yardstick of lists: the same records in the same frames through the same HTTP/2, without
//! gRPC, chunks or anything that a list does. `frame=BYTES` fills frames to another size than lists
//! do, so that their size can be chosen by measurement.

use etcd_api::keys::KeyRange;
use http::StatusCode;
use store::{Cursor, Snapshot, Store};
use tonic::Status;
use wire::body::FrameSource;
use wire::frame::TARGET_BYTES;

use super::frames::{Frame, FrameBuilder, PutRecord, RecordPiece, ResponseBody};

/// Frames that may be asked for, bytes: HTTP/2's smallest and largest.
const FRAME_BYTES: std::ops::Range<usize> = 16_384..(1 << 24);

const EVERYTHING: KeyRange<'_> = KeyRange::From(b"");

/// The body that `query` asks for.
///
/// # Errors
/// A line saying what is wrong with the query, or that nothing is stored.
pub(super) fn body(store: &Store, query: &str) -> Result<ResponseBody, (StatusCode, String)> {
    let bad = |text: String| (StatusCode::BAD_REQUEST, text);
    let mut bytes = None;
    let mut frame_bytes = TARGET_BYTES;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let number = |text: &str| {
            text.parse::<u64>()
                .map_err(|_| bad(format!("{name}={value} is not a number of bytes\n")))
        };
        match &*name {
            "bytes" => bytes = Some(number(&value)?),
            "frame" => {
                let asked = usize::try_from(number(&value)?).unwrap_or(usize::MAX);
                if !FRAME_BYTES.contains(&asked) {
                    return Err(bad(format!(
                        "frame={asked} is not within {FRAME_BYTES:?}\n"
                    )));
                }
                frame_bytes = asked;
            }
            other => return Err(bad(format!("{other:?} is none of bytes, frame\n"))),
        }
    }
    let bytes = bytes.ok_or_else(|| bad("bytes=N is needed\n".to_owned()))?;
    let snapshot = store.snapshot();
    if snapshot.count(EVERYTHING) == 0 {
        return Err((
            StatusCode::CONFLICT,
            "no record is stored to send\n".to_owned(),
        ));
    }
    let source = OpaqueSource {
        cursor: snapshot.cursor(EVERYTHING),
        snapshot,
        unread_bytes: bytes,
        frames: FrameBuilder::with_target(usize::MAX, frame_bytes),
    };
    Ok(ResponseBody::opaque(source, bytes))
}

/// Every record of the store, again and again.
struct OpaqueSource {
    snapshot: Snapshot,
    cursor: Cursor,
    /// Bytes that are not in `frames` yet.
    unread_bytes: u64,
    frames: FrameBuilder,
}

impl FrameSource<RecordPiece> for OpaqueSource {
    fn next_frame(&mut self) -> Result<Option<Frame>, Status> {
        while self.unread_bytes > 0 && !self.frames.is_full() {
            let Some(record) = self.cursor.next_ref() else {
                self.cursor = self.snapshot.cursor(EVERYTHING);
                continue;
            };
            let len = record.wire_len() as u64;
            if len <= self.unread_bytes {
                self.frames.put_record(record);
                self.unread_bytes -= len;
            } else {
                self.frames
                    .put(&record.to_bytes()[..self.unread_bytes as usize]);
                self.unread_bytes = 0;
            }
        }
        if self.frames.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.frames.take_frame()))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use etcd_api::client::config::ClientConfig;
    use etcd_api::client::raw_list::RawConnection;
    use etcd_api::proto::etcdserverpb::PutRequest;

    use crate::flags::Flags;
    use crate::tier::EtcdTier;

    #[tokio::test]
    async fn as_many_bytes_come_as_were_asked_for() {
        let flags = Flags::parse_from([
            "bench-server",
            "--listen-client-urls",
            "http://127.0.0.1:0",
            "--worker-threads=1",
            "--enable-debug-endpoints",
        ]);
        let tier = EtcdTier::start(&flags.etcd, &flags.common)
            .await
            .expect("a loopback port is free");
        let config = ClientConfig::new(&tier.urls[0]).expect("the tier's own URL");
        let client = RawConnection::connect(&config, None)
            .await
            .expect("the tier accepts");
        let refused = client.drain_opaque(1).await.unwrap_err().to_string();
        assert!(refused.contains("no record is stored"), "{refused}");
        for (i, len) in [10usize, 5_000, 300_000].into_iter().enumerate() {
            let put = PutRequest {
                key: format!("/{i}").into(),
                value: vec![7; len].into(),
                ..PutRequest::default()
            };
            tier.node.store.put(&put).expect("no quota is reached");
        }
        for bytes in [0, 1, 5_100, 305_000, 10_000_000] {
            let drained = client.drain_opaque(bytes).await;
            drained.unwrap_or_else(|e| panic!("{bytes} bytes: {e}"));
        }
    }
}
