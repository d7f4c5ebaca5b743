//! A rule of a contract: what it says, and what is sent to see whether it is kept.

/// What a rule needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing but to read.
    Reads,
    /// To write below a prefix, or into a namespace, of our own.
    Writes,
    /// To compact history, which is everybody's.
    OwnServer,
}

/// A rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// What it is called, as `txn-create`.
    pub name: &'static str,
    /// What it needs.
    pub needs: Needs,
    /// What the contract says.
    pub contract: &'static str,
    /// What is sent.
    pub sent: &'static str,
}

/// Defines rules, and `RULES`: all of them in the order in which they are written.
macro_rules! rules {
    ($($id:ident = $name:literal, $needs:ident, $contract:literal, $sent:literal;)*) => {
        $(pub(super) static $id: $crate::probe::rule::Rule = $crate::probe::rule::Rule {
            name: $name,
            needs: $crate::probe::rule::Needs::$needs,
            contract: $contract,
            sent: $sent,
        };)*

        /// All of them.
        pub static RULES: [&$crate::probe::rule::Rule; [$($name),*].len()] = [$(&$id),*];
    };
}

pub(super) use rules;
