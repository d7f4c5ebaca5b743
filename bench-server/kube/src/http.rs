//! HTTP: dispatches requests to the methods that handle them, and encodes the results as responses.
//!
//! - [`service`]: handles every request; [`route`]: parses its path; [`resource_request`]: handles
//!   a request for a resource
//! - [`negotiation`]: chooses the media type of the response by `Accept`
//! - [`response`]: status code, headers and body of every response
//! - [`body`]: the body type; [`content_encoding`]: gzip, and indentation ([`pretty_json`])
//! - [`tracked_body`]: counts a request, and limits its time, until its response is sent
//! - [`health`]: `/healthz`, `/livez`, `/readyz`

pub mod body;
mod content_encoding;
mod health;
mod negotiation;
mod pretty_json;
mod resource_request;
mod response;
mod route;
pub mod service;
pub mod tracked_body;
