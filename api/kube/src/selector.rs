//! Label and field selectors: the grammar of `labelSelector` and `fieldSelector`, matched against encoded
//! objects without allocating.

mod field;
mod label;

pub use field::{FieldSelector, FieldSelectorError};
pub use label::{LabelSelector, LabelSelectorError};
