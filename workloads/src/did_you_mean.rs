//! Suggests a known name for a misspelt one.

/// Returns the candidate with the smallest edit distance (a transposition counts once); `None`
/// without candidates.
pub(crate) fn did_you_mean<'a>(name: &str, candidates: &[&'a str]) -> Option<&'a str> {
    candidates
        .iter()
        .copied()
        .min_by_key(|candidate| strsim::damerau_levenshtein(name, candidate))
}
