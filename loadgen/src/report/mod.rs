//! What people look at: charts, a page, a table. Drawn only from a saved result, so that any result can be drawn again.

pub mod charts;
pub mod quantity;
pub mod row;
