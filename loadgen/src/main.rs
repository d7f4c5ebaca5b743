//! `loadgen`: measures what it costs to list and watch large sets of objects.
use loadgen as _;

fn main() {}
