//! The rules for the names of objects (RFC 1123).

/// The rule for the names of a kind's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// Labels joined by dots, at most 253 bytes. For most kinds.
    Subdomain,
    /// One label, at most 63 bytes. For namespaces.
    Label,
    /// Whatever can be a segment of a path. For events, whose names begin with those of any object.
    PathSegment,
}

pub(crate) const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
    and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', \
    regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

impl NameRule {
    /// Returns the reasons why `name` is not allowed, worded as by kube-apiserver; empty if it is
    /// allowed.
    pub(crate) fn refuse(self, name: &str) -> Vec<String> {
        match self {
            Self::PathSegment if matches!(name, "." | "..") => vec![format!("may not be '{name}'")],
            rule => rule.refuse_prefix(name),
        }
    }

    /// Returns the reasons why names cannot be generated from `generate_name`. What is generated is
    /// appended, so it may end with a dash.
    pub(crate) fn refuse_generate_name(self, generate_name: &str) -> Vec<String> {
        match generate_name.strip_suffix('-') {
            // kube-apiserver replaces the last two characters by one that is allowed
            // (`maskTrailingDash`).
            Some(before) if !before.is_empty() && self != Self::PathSegment => {
                let mut masked = before.to_owned();
                match masked.pop() {
                    Some(letter) if letter.is_ascii() => masked.push('a'),
                    _ => return self.refuse_prefix(before),
                }
                self.refuse_prefix(&masked)
            }
            _ => self.refuse_prefix(generate_name),
        }
    }

    fn refuse_prefix(self, name: &str) -> Vec<String> {
        let (max, fits, format) = match self {
            Self::Subdomain => (SUBDOMAIN_MAX, name.split('.').all(is_label), SUBDOMAIN),
            Self::Label if name.contains('.') && name.split('.').all(is_label) => {
                (LABEL_MAX, false, "must not contain dots")
            }
            Self::Label => (LABEL_MAX, is_label(name), LABEL),
            Self::PathSegment => {
                let held = ["/", "%"].into_iter().filter(|held| name.contains(held));
                return held
                    .map(|held| format!("may not contain '{held}'"))
                    .collect();
            }
        };
        let too_long = format!("must be no more than {max} characters");
        let too_long = (name.len() > max).then_some(too_long);
        let misshapen = (!fits).then(|| format.to_owned());
        too_long.into_iter().chain(misshapen).collect()
    }
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|byte| inner(*byte))
        && bytes.last().is_some_and(|byte| inner(*byte))
        && bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_for_host_names() {
        let long = "a".repeat(SUBDOMAIN_MAX + 1);
        for bad in ["", "X", "a_b", "-a", "a-", "a..b", ".a", "ä", "a/b", &long] {
            assert!(!NameRule::Subdomain.refuse(bad).is_empty(), "{bad:?}");
        }
        for good in ["a", "0", "a-b.c-d", "kube-root-ca.crt", &long[1..]] {
            assert!(NameRule::Subdomain.refuse(good).is_empty(), "{good:?}");
        }
        assert_eq!(NameRule::Label.refuse("a.b"), ["must not contain dots"]);
        assert_eq!(NameRule::Label.refuse("a..b"), [LABEL]);
        assert!(!NameRule::Label.refuse(&long[..LABEL_MAX + 1]).is_empty());
        assert!(NameRule::Label.refuse(&long[..LABEL_MAX]).is_empty());
        let both = NameRule::Subdomain.refuse(&"A".repeat(SUBDOMAIN_MAX + 1));
        assert_eq!(both.len(), 2, "{both:?}");
    }

    #[test]
    fn names_of_events_are_segments_of_a_path() {
        let refuse = |name| NameRule::PathSegment.refuse(name);
        assert!(refuse("system:node_A.17a3").is_empty());
        assert_eq!(refuse(".."), ["may not be '..'"]);
        assert_eq!(
            refuse("a/%"),
            ["may not contain '/'", "may not contain '%'"]
        );
    }

    #[test]
    fn a_prefix_of_names_may_end_with_a_dash() {
        let refuse = |prefix| NameRule::Subdomain.refuse_generate_name(prefix);
        for good in ["a-", "a.b-", "a"] {
            assert!(refuse(good).is_empty(), "{good:?}");
        }
        for bad in ["-", "UP-", "a..b-"] {
            assert_eq!(refuse(bad), [SUBDOMAIN], "{bad:?}");
        }
    }
}
