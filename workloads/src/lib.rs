//! What is replayed: object generators, data sets, scenario files.
