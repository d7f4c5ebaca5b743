//! The endpoints `/healthz`, `/livez` and `/readyz`. They respond with `ok`, or with `?verbose`
//! with the result of every check.

use http::StatusCode;

/// The health endpoints.
pub(crate) const ENDPOINTS: [&str; 3] = ["healthz", "livez", "readyz"];

/// A health check and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) name: String,
    pub(crate) holds: bool,
}

impl Check {
    /// Returns the check of every endpoint: that it responds.
    pub(crate) fn ping() -> Self {
        Self {
            name: "ping".to_owned(),
            holds: true,
        }
    }
}

/// Returns the status code and body of `endpoint` (such as `readyz`). If a check fails, the code is
/// 500 and every check is listed.
pub(crate) fn report(endpoint: &str, checks: &[Check], query: &str) -> (StatusCode, String) {
    let healthy = checks.iter().all(|check| check.holds);
    let asked = |(name, _): (_, _)| name == "verbose";
    if healthy && !form_urlencoded::parse(query.as_bytes()).any(asked) {
        return (StatusCode::OK, "ok".to_owned());
    }
    let mut text = "[+]ping ok\n".to_owned();
    for Check { name, holds } in checks {
        text += &match holds {
            true => format!("[+]{name} ok\n"),
            false => format!("[-]{name} failed: reason withheld\n"),
        };
    }
    match healthy {
        true => (StatusCode::OK, format!("{text}{endpoint} check passed\n")),
        false => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("{text}{endpoint} check failed\n"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_shown_when_asked_for_or_failing() {
        let check = |holds| Check {
            name: "watch-cache/pods".to_owned(),
            holds,
        };
        let ok = (StatusCode::OK, "ok".to_owned());
        assert_eq!(report("livez", &[], ""), ok);
        assert_eq!(report("readyz", &[check(true)], "exclude=x"), ok);
        let (code, text) = report("readyz", &[check(true)], "verbose");
        assert_eq!(code, StatusCode::OK);
        assert_eq!(
            text,
            "[+]ping ok\n[+]watch-cache/pods ok\nreadyz check passed\n"
        );
        let (code, text) = report("readyz", &[check(false)], "");
        assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(
            text.ends_with("[-]watch-cache/pods failed: reason withheld\nreadyz check failed\n")
        );
    }
}
