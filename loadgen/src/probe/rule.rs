//! A rule of a contract: what the contract says, and what is sent to check it.

/// The access that a rule needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Reading only.
    Reads,
    /// Writing below a prefix, or into a namespace, of the probe's own.
    Writes,
    /// Compacting history, which affects all clients of a server.
    OwnServer,
}

/// A rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// The name, as `txn-create`.
    pub name: &'static str,
    /// The access that the rule needs.
    pub needs: Needs,
    /// The statement of the contract.
    pub contract: &'static str,
    /// The requests that are sent to check it.
    pub sent: &'static str,
}

/// Defines rules, and `RULES` with all of them in the order of their definition.
macro_rules! rules {
    ($($id:ident = $name:literal, $needs:ident, $contract:literal, $sent:literal;)*) => {
        $(pub(super) static $id: $crate::probe::rule::Rule = $crate::probe::rule::Rule {
            name: $name,
            needs: $crate::probe::rule::Needs::$needs,
            contract: $contract,
            sent: $sent,
        };)*

        /// All rules.
        pub static RULES: [&$crate::probe::rule::Rule; [$($name),*].len()] = [$(&$id),*];
    };
}

pub(super) use rules;
