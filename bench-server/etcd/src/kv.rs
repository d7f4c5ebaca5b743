//! The KV service, implemented without tonic, because its calls are the measured ones.

use bytes::Bytes;
use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, PutRequest, RangeRequest,
    ResponseHeader, TxnRequest,
};
use http::Response;
use store::{Store, check};
use tokio::time::Instant;
use tonic::Status;
use wire::grpc::{self, Encoding};
use wire::message_gate::MessageGate;

use super::frames::ResponseBody;
use super::long_work::on_blocking_thread;
use super::response_estimate::ResponseEstimate;
use super::{Node, range, range_stream};

/// The methods of `etcdserverpb.KV`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// A unary read.
    Range,
    /// A streamed read (etcd 3.7).
    RangeStream,
    /// Writes one key.
    Put,
    /// Deletes an interval.
    DeleteRange,
    /// Compares, then runs one of two branches.
    Txn,
    /// Drops history.
    Compact,
}

impl Method {
    /// Returns the method with this name on the wire.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "Range" => Self::Range,
            "RangeStream" => Self::RangeStream,
            "Put" => Self::Put,
            "DeleteRange" => Self::DeleteRange,
            "Txn" => Self::Txn,
            "Compact" => Self::Compact,
            _ => return None,
        })
    }
}

/// Serves one KV call, whose message may be compressed. A stream of chunks ends at the deadline;
/// the caller ends what happens before the response.
pub async fn serve<B>(
    node: &Node,
    method: Method,
    encoding: Encoding,
    deadline: Option<Instant>,
    body: B,
) -> Response<ResponseBody>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let body = MessageGate::unary(body, node.max_message_bytes());
    match handle(node, method, encoding, deadline, body).await {
        Ok(body) => grpc::response(body),
        Err(status) => grpc::error_response(&status),
    }
}

/// Handles a call. The memory of its message is held by `body` until the end.
async fn handle<B>(
    node: &Node,
    method: Method,
    encoding: Encoding,
    deadline: Option<Instant>,
    mut body: B,
) -> Result<ResponseBody, Status>
where
    B: http_body::Body<Data = Bytes, Error = Status> + Unpin,
{
    let bytes = grpc::read_message(&mut body, encoding, node.max_message_bytes()).await?;
    // Futures of calls are large and are moved often: those of the methods that take longer than an
    // allocation are kept apart.
    match method {
        Method::Range => range::range(node, grpc::decode::<RangeRequest>(bytes)?).await,
        Method::RangeStream => range_stream::range_stream(node, &grpc::decode(bytes)?, deadline),
        Method::Put => put(node, bytes).await,
        Method::DeleteRange => Box::pin(delete_range(node, bytes)).await,
        Method::Txn => Box::pin(txn(node, bytes)).await,
        Method::Compact => Box::pin(compact(node, bytes)).await,
    }
}

async fn put(node: &Node, bytes: Bytes) -> Result<ResponseBody, Status> {
    let store = &node.store;
    let request_bytes = bytes.len();
    let request: PutRequest = grpc::decode(bytes)?;
    check_write_size(node, request_bytes, || store.check_put(&request)).await?;
    let mut response = store.logged(store.put(&request)).await?;
    fill_header(node, &mut response.header);
    message(&response)
}

async fn delete_range(node: &Node, bytes: Bytes) -> Result<ResponseBody, Status> {
    let store = &node.store;
    let request_bytes = bytes.len();
    let request: DeleteRangeRequest = grpc::decode(bytes)?;
    check_write_size(node, request_bytes, || check::delete_range(&request)).await?;
    let mut estimate = ResponseEstimate::of(store);
    estimate.delete(&request);
    let room = estimate.admit(node).await?;
    let outcome = execute(node, room.is_long, move |store| {
        store.delete_range(&request)
    })
    .await?;
    let mut response = store.logged(outcome).await?;
    fill_header(node, &mut response.header);
    room.encode(node, response).await
}

async fn txn(node: &Node, bytes: Bytes) -> Result<ResponseBody, Status> {
    let store = &node.store;
    let request_bytes = bytes.len();
    let request: TxnRequest = grpc::decode(bytes)?;
    let is_read_only = check::is_read_only(&request);
    if !is_read_only {
        check_write_size(node, request_bytes, || store.check_txn(&request)).await?;
    }
    let mut estimate = ResponseEstimate::of(store);
    estimate.txn(&request);
    let room = estimate.admit(node).await?;
    let outcome = execute(node, room.is_long, move |store| store.txn(&request)).await?;
    // A read-only transaction sees only published writes, so it need not wait for the log.
    let mut response = match is_read_only {
        true => outcome?,
        false => store.logged(outcome).await?,
    };
    fill_header(node, &mut response.header);
    room.encode(node, response).await
}

async fn compact(node: &Node, bytes: Bytes) -> Result<ResponseBody, Status> {
    let store = &node.store;
    let request: CompactionRequest = grpc::decode(bytes)?;
    let compacted = store.clone();
    // Freeing a long history takes time, and this thread has other connections.
    let compaction = tokio::task::spawn_blocking(move || compacted.compact(request.revision));
    let outcome = compaction
        .await
        .map_err(|e| Status::internal(format!("compaction failed: {e}")))?;
    let revision = store.logged(outcome).await?;
    message(&CompactionResponse {
        header: Some(node.header(revision)),
    })
}

fn message(response: &impl prost::Message) -> Result<ResponseBody, Status> {
    Ok(ResponseBody::unary(grpc::message_frame(response)?))
}

/// Completes a header: the store sets only the revision; the node has the ids.
fn fill_header(node: &Node, header: &mut Option<ResponseHeader>) {
    let revision = header.as_ref().map_or(0, |h| h.revision);
    *header = Some(node.header(revision));
}

/// Runs an operation of the store, on a blocking thread if it is long.
async fn execute<T: Send + 'static>(
    node: &Node,
    is_long: bool,
    operation: impl FnOnce(&Store) -> T + Send + 'static,
) -> Result<T, Status> {
    if is_long {
        let store = node.store.clone();
        return on_blocking_thread(node, move || operation(&store)).await;
    }
    Ok(operation(&node.store))
}

/// Rejects a write whose log entry would be larger than `--max-request-bytes`. Other errors of the
/// request take precedence, so a request that is too large is checked for them first.
async fn check_write_size(
    node: &Node,
    request_bytes: usize,
    check: impl FnOnce() -> Result<(), Refusal>,
) -> Result<(), Status> {
    if log_entry_bytes(request_bytes) <= node.max_request_bytes {
        return Ok(());
    }
    // The check may raise an alarm, which the log must have before a client hears of it.
    let refused: Result<(), _> = check().and(Err(Refusal::RequestTooLarge));
    node.store.logged(refused).await.map_err(Status::from)
}

/// Returns the size that etcd checks: that of an `InternalRaftRequest`, which has the request in a
/// field with a tag of one byte, and a header with the entry's id.
fn log_entry_bytes(request_bytes: usize) -> usize {
    /// The header's tag (2) and length (1), and in it the id's tag (1) and the id. The id begins
    /// with 16 bits of the member's id, so it has nine bytes for our member and ten for others.
    const HEADER_BYTES: usize = 13;
    HEADER_BYTES + 1 + prost::length_delimiter_len(request_bytes) + request_bytes
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use http_body_util::Full;
    use store::Config;

    use super::*;
    use crate::flags::Flags;

    /// It is copied several times on its way into a task. At 7 KB, the copies took a quarter of
    /// the server's time for a put.
    #[tokio::test]
    async fn the_future_of_a_call_is_small() {
        let flags = Flags::parse_from(["bench-server"]);
        let store = Store::new(Config::default());
        let node = Node::new(store, &flags.etcd, &flags.common, Vec::new());
        let body = Full::new(Bytes::new());
        let call = serve(&node, Method::Put, Encoding::Identity, None, body);
        assert!(size_of_val(&call) <= 1_280, "{} bytes", size_of_val(&call));
    }
}
