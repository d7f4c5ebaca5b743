//! HTTP: requests in, responses out.

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
