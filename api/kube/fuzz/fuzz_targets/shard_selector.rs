//! Parses any text as a shard selector: it is rejected without a panic, or the selector is written
//! as a text that parses to the same selector.

#![no_main]

use kube_api::ShardSelector;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(selector) = ShardSelector::parse(text) {
        let again = ShardSelector::parse(&selector.to_string());
        assert_eq!(again, Ok(selector));
    }
});
