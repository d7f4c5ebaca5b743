//! The generator: drives any target, measures, verifies, reports, compares.
//!
//! `scenario` → `target` → `pace` → [`record`] → [`sample`] → `verify` → [`result`] → `report` and `compare`.
//! Around them: [`cli`] (what may be typed), [`exit`] (how it ends), [`progress`] (what is seen meanwhile).

pub mod cli;
pub mod exit;
pub mod progress;
pub mod record;
pub mod report;
pub mod result;
pub mod sample;
