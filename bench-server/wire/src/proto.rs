//! Writes by hand the few protobuf fields around stored records.
//!
//! Field numbers are etcd's: `RangeResponse { header 1, kvs 2, more 3, count 4 }` and
//! `RangeStreamResponse { range_response 1 }`. Zero scalars are omitted as in proto3, so that the
//! bytes equal those of an ordinary encoder (tested against prost).

use etcd_api::proto::etcdserverpb::ResponseHeader;
use prost::Message;
use prost::encoding::{encode_varint, encoded_len_varint};

/// Key of `RangeResponse.header`: field 1, length-delimited.
const HEADER_KEY: u8 = 0x0a;
/// Key of `RangeStreamResponse.range_response`: field 1, length-delimited.
const RANGE_RESPONSE_KEY: u8 = 0x0a;
/// Key of `RangeResponse.more`: field 3, varint.
const MORE_KEY: u8 = 0x18;
/// Key of `RangeResponse.count`: field 4, varint.
const COUNT_KEY: u8 = 0x20;

/// Returns the encoded `header` field of a response.
pub fn header_field(header: &ResponseHeader) -> Vec<u8> {
    let mut out = Vec::with_capacity(40);
    out.push(HEADER_KEY);
    encode_varint(header.encoded_len() as u64, &mut out);
    header
        .encode(&mut out)
        .expect("a Vec grows to whatever is written");
    out
}

/// Returns the encoded `more` and `count` fields, which end a `RangeResponse`.
pub fn tail_fields(more: bool, count: i64) -> Vec<u8> {
    let mut out = Vec::with_capacity(12);
    if more {
        out.extend_from_slice(&[MORE_KEY, 1]);
    }
    if count != 0 {
        out.push(COUNT_KEY);
        encode_varint(count as u64, &mut out);
    }
    out
}

/// Returns key and length that wrap a `RangeResponse` of `inner_bytes` in a `RangeStreamResponse`.
/// They are written even for an empty message, as for any message field that is present.
pub fn range_stream_wrapper(inner_bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + encoded_len_varint(inner_bytes as u64));
    out.push(RANGE_RESPONSE_KEY);
    encode_varint(inner_bytes as u64, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use etcd_api::proto::etcdserverpb::{RangeResponse, RangeStreamResponse};

    use super::*;

    fn header() -> ResponseHeader {
        ResponseHeader {
            cluster_id: u64::MAX,
            member_id: 7,
            revision: 150_001,
            raft_term: 2,
        }
    }

    #[test]
    fn fields_equal_an_ordinary_encoders() {
        for (more, count) in [(false, 0), (true, 1), (false, 150_000), (true, i64::MAX)] {
            let mut by_hand = header_field(&header());
            by_hand.extend(tail_fields(more, count));
            let response = RangeResponse {
                header: Some(header()),
                kvs: vec![],
                more,
                count,
            };
            assert_eq!(by_hand, response.encode_to_vec());

            let mut wrapped = range_stream_wrapper(by_hand.len());
            wrapped.extend(by_hand);
            let message = RangeStreamResponse {
                range_response: Some(response),
            };
            assert_eq!(wrapped, message.encode_to_vec());
        }
    }
}
