//! The generator: drives any target, measures, verifies, reports, compares.
//!
//! [`run`] drives it: [`seed`] → [`target`] → [`pace`] → [`record`] → [`sample`] → [`verify`] → [`result`] → [`report`] and
//! [`compare`] and [`export`]; [`bars`] are held against the figures; [`probe`] asks what an endpoint can;
//! [`shards`] says which worker has which objects; [`safety`] is what must hold before an endpoint that is not ours is written to.
//! Around them: [`cli`] (what may be typed), [`isolation`] (a run's own network and CPUs), [`exit`] (how it ends), [`progress`] (what is seen meanwhile).

pub mod bars;
pub mod cli;
pub mod command;
pub mod compare;
pub mod exit;
pub mod export;
pub mod isolation;
pub mod pace;
pub mod probe;
pub mod progress;
pub mod record;
pub mod report;
pub mod result;
pub mod run;
pub mod safety;
pub mod sample;
pub mod seed;
pub mod shards;
pub mod target;
pub mod verify;
