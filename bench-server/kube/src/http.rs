//! HTTP: from a request to the method that handles it, and from its result to the response.
//!
//! - [`service`]: every request; [`route`]: what its path names; [`resource_request`]: one for a
//!   resource
//! - [`negotiation`]: the media type of the response, by `Accept`
//! - [`response`]: status code, headers and body of every response
//! - [`body`]: the body type; [`content_encoding`]: gzip, and indentation ([`pretty_json`])
//! - [`tracked_body`]: counts a request and limits its time until its response is sent
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
