//! The server under test.
