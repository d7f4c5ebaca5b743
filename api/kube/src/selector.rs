//! Label and field selectors: parses `labelSelector` and `fieldSelector`, and matches encoded
//! objects without allocations.

mod field;
mod label;

pub use field::{FieldSelector, FieldSelectorError};
pub use label::{LabelSelector, LabelSelectorError};
