//! Fuzz targets for the responses of measured servers: the body of a list over gRPC.

use etcd_api::client::list_validator::{ListRpc, ListValidator, Object};
use etcd_api::proto::etcdserverpb::{RangeResponse, RangeStreamResponse};
use prost::Message;

/// Checks a body of gRPC messages. The first byte chooses the call and the size of frames. If the
/// validator accepts a body, prost must decode it to the same objects, for any size of frames.
/// Fields with a wrong wire type are refused by prost. Go skips them, and so does the validator,
/// which counts them.
///
/// # Panics
/// If a rule is broken.
pub fn list_validator(bytes: &[u8]) {
    let Some((&choice, body)) = bytes.split_first() else {
        return;
    };
    let rpc = [ListRpc::Range, ListRpc::RangeStream][usize::from(choice & 1)];
    let whole = validated(rpc, body, body.len().max(1));
    let cut = validated(rpc, body, usize::from(choice >> 1).max(1));
    assert_eq!(whole, cut, "frames make a difference");
    if let Some((found, irregular)) = whole {
        match decoded(rpc, body) {
            Some(decoded) => assert_eq!(found, decoded),
            None => assert!(
                irregular > 0,
                "prost refuses what the validator finds regular"
            ),
        }
    }
}

/// The keys of a list in order, and the sum of the lengths of its values.
type Found = (Vec<Vec<u8>>, usize);

/// Returns the objects that the validator finds in a body in frames of this size, and the number of
/// irregular parts; `None` if it refuses the body.
fn validated(rpc: ListRpc, body: &[u8], frame_bytes: usize) -> Option<(Found, u64)> {
    let mut validator = ListValidator::new(rpc);
    let (mut keys, mut values) = (Vec::new(), 0);
    for frame in body.chunks(frame_bytes) {
        let mut visit = |object: Object<'_>| {
            keys.push(object.key.to_vec());
            values += object.value.len();
        };
        validator.feed(frame, &mut visit).ok()?;
    }
    let irregular = validator.finish().ok()?.irregular;
    Some(((keys, values), irregular))
}

/// Returns the objects that prost finds in a body; `None` if it refuses the body.
fn decoded(rpc: ListRpc, mut body: &[u8]) -> Option<Found> {
    let (mut keys, mut values) = (Vec::new(), 0);
    while let Some((prefix, rest)) = body.split_first_chunk::<5>() {
        let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
        let (message, rest) = rest.split_at_checked(length as usize)?;
        let response = match rpc {
            ListRpc::Range => Some(RangeResponse::decode(message).ok()?),
            ListRpc::RangeStream => RangeStreamResponse::decode(message).ok()?.range_response,
        };
        for object in response.into_iter().flat_map(|response| response.kvs) {
            keys.push(object.key);
            values += object.value.len();
        }
        body = rest;
    }
    Some((keys.into_iter().map(Into::into).collect(), values))
}

/// Returns bodies of both calls.
pub fn list_responses() -> Vec<Vec<u8>> {
    use etcd_api::proto::etcdserverpb::ResponseHeader;
    use etcd_api::proto::mvccpb::KeyValue;

    let object = |key: &str| KeyValue {
        key: key.as_bytes().to_vec().into(),
        create_revision: 2,
        mod_revision: 300,
        version: 4,
        value: vec![b'v'; 200].into(),
        lease: 0,
    };
    let header = ResponseHeader {
        cluster_id: 1,
        member_id: 2,
        revision: 300,
        raft_term: 2,
    };
    let last = RangeResponse {
        header: Some(header),
        kvs: vec![object("a"), object("b")],
        more: false,
        count: 3,
    };
    let first = RangeResponse {
        kvs: vec![object("0")],
        ..RangeResponse::default()
    };
    let framed = |message: Vec<u8>| {
        let length = u32::try_from(message.len()).expect("a small message");
        [&[0], length.to_be_bytes().as_slice(), &message].concat()
    };
    let chunk = |response: RangeResponse| {
        framed(
            RangeStreamResponse {
                range_response: Some(response),
            }
            .encode_to_vec(),
        )
    };
    let unary = [&[14], framed(last.encode_to_vec()).as_slice()].concat();
    let stream = [&[15], chunk(first).as_slice(), &chunk(last)].concat();
    vec![unary, stream]
}
