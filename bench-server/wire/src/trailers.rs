//! The trailers that end a gRPC call.

use http::{HeaderMap, HeaderValue};
use tonic::{Code, Status};

/// Returns the trailers of a call that ended with `status`.
pub(super) fn trailers(status: Result<(), &Status>) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(2);
    match status {
        Ok(()) => {
            map.insert("grpc-status", HeaderValue::from_static("0"));
        }
        Err(status) => {
            if status.add_header(&mut map).is_err() {
                map.insert("grpc-status", HeaderValue::from(Code::Internal as i32));
            }
        }
    }
    map
}
