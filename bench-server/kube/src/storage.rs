//! What the tier reads from storage, and when storage forgets.

pub(crate) mod bulk_load;
pub(crate) mod compaction;
pub(crate) mod decoder;
pub(crate) mod error;
pub mod list_reader;
