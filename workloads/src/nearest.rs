//! The known name that a misspelt one was probably meant to be.

/// The candidate with the smallest edit distance (transpositions count once); `None` without candidates.
pub(crate) fn nearest<'a>(name: &str, candidates: &[&'a str]) -> Option<&'a str> {
    candidates
        .iter()
        .copied()
        .min_by_key(|candidate| strsim::damerau_levenshtein(name, candidate))
}
