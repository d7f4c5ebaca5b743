//! The saved results of runs and everything that is derived from them: statistics, thresholds,
//! comparisons, charts, pages and tables. Reads only saved results, so that any result can be
//! judged, compared and drawn again.
//!
//! - [`result`]: the structs of `report.json` and the result folder
//! - [`latency`]: distributions, and which quantiles a sample size supports
//! - [`threshold`]: thresholds, and their evaluation against a result; [`threshold_table`]: their
//!   text; `history`: the thresholds of earlier results; [`suite`]: the thresholds of several runs
//! - [`compare`]: the comparison of two sides; [`export`]: results in the formats of other programs
//! - [`mod@merge`]: merges the results of several generators into one; [`generator_lines`]: the
//!   text about those generators
//! - [`draw`]: draws a result into its folder: [`charts`], [`flame_graph`], `page`
//! - [`at_rest`]: whether what servers hold at rest returns to its earlier level;
//!   [`at_rest_table`]: the text about it
//! - [`terminal`]: the table of a result, built from [`case_text`], [`load_table`], [`warm_up`],
//!   [`growth`] and [`machine`]
//! - [`profile_lines`]: the text about CPU profiles; [`quantity`]: numbers with their units

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
