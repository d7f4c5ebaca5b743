//! Debug endpoints, which exist for measurements, are served only if a flag enables them.

use crate::victim::{BOTH, Victim};

#[test]
fn debug_endpoints_need_a_flag() {
    for (flags, expected) in [(&[][..], "404"), (&["--enable-debug-endpoints"], "200")] {
        let victim = Victim::start(flags);
        for port in BOTH {
            let answer = victim.http(port, "POST", "/debug/settle", "");
            assert_eq!(answer.get(9..12), Some(expected), "{port:?} {answer}");
        }
    }
}
