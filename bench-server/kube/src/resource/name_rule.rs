//! The rules for the names of objects (RFC 1123).

/// The rule for the names of a kind's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// Labels joined by dots, at most 253 bytes. For most kinds.
    Subdomain,
    /// One label, at most 63 bytes. For namespaces.
    Label,
}

pub(crate) const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

impl NameRule {
    /// Returns the reason why `name` is not allowed, worded as by kube-apiserver; `None` if it is
    /// allowed.
    pub(crate) fn refuse(self, name: &str) -> Option<String> {
        let (max, fits) = match self {
            Self::Subdomain => (SUBDOMAIN_MAX, name.split('.').all(is_label)),
            Self::Label => (LABEL_MAX, is_label(name)),
        };
        if name.len() > max {
            return Some(format!("must be no more than {max} characters"));
        }
        if fits {
            return None;
        }
        Some(match self {
            Self::Subdomain => "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
            Self::Label => "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
                and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', \
                regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        })
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
            assert!(NameRule::Subdomain.refuse(bad).is_some(), "{bad:?}");
        }
        for good in ["a", "0", "a-b.c-d", "kube-root-ca.crt", &long[1..]] {
            assert_eq!(NameRule::Subdomain.refuse(good), None, "{good:?}");
        }
        assert!(NameRule::Label.refuse("a.b").is_some());
        assert!(NameRule::Label.refuse(&long[..LABEL_MAX + 1]).is_some());
        assert_eq!(NameRule::Label.refuse(&long[..LABEL_MAX]), None);
    }
}
