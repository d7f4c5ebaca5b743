//! The generator: drives any target, measures, verifies, reports, compares.
//!
//! `scenario` → `target` → `pace` → [`record`] → [`sample`] → `verify` → [`result`] → `report` and `compare`.

pub mod record;
pub mod result;
pub mod sample;
