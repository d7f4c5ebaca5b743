//! Any text as a shard selector: it is refused without a panic, or what is read of it is written as a text that reads the same.

#![no_main]

use kube_api::ShardSelector;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(selector) = ShardSelector::parse(text) {
        let again = ShardSelector::parse(&selector.to_string());
        assert_eq!(again, Ok(selector));
    }
});
