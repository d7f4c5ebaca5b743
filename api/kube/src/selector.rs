//! Label and field selectors: parses `labelSelector` and `fieldSelector`, and matches encoded
//! objects without allocating.

mod field;
mod label;

pub use field::{FieldSelector, FieldSelectorError};
pub use label::{LabelSelector, LabelSelectorError};
