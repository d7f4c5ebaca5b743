//! Saved results: what a run found as it is kept on disk, and everything that is made of it:
//! statistics, thresholds, comparison, charts, pages and tables. Works from saved results alone, so
//! that any result can be judged, compared and drawn again.
//!
//! - [`result`]: the structs of `report.json` and the folder around it
//! - [`latency`]: distributions, and which quantiles a sample may claim
//! - [`threshold`]: promised limits, compared with a result; [`threshold_table`]: how they are
//!   shown; `history`: how often each was met before; [`suite`]: those of several runs
//! - [`compare`]: two sides compared; [`export`]: results for other programs
//! - [`mod@merge`]: the results of several generators as one; [`generator_lines`]: what is said of
//!   them
//! - [`draw`]: a result drawn into its folder: [`charts`], [`flame_graph`], `page`
//! - [`at_rest`]: whether servers hold at rest what they held before; [`at_rest_table`]: how that
//!   is shown
//! - [`terminal`]: the table of a result, made of [`case_text`], [`load_table`], [`warm_up`],
//!   [`growth`] and [`machine`]
//! - [`profile_lines`]: what is said of profiles; [`quantity`]: numbers with their units

pub mod at_rest;
pub mod at_rest_table;
pub mod case_text;
pub mod charts;
pub mod compare;
pub mod draw;
pub mod export;
pub mod flame_graph;
pub mod generator_lines;
pub mod growth;
mod history;
pub mod latency;
pub mod load_table;
pub mod machine;
pub mod merge;
mod page;
pub mod profile_lines;
#[cfg(test)]
mod published_schema;
pub mod quantity;
pub mod result;
pub mod suite;
pub mod terminal;
pub mod threshold;
pub mod threshold_table;
pub mod warm_up;
