//! Generates names for `metadata.generateName`.

use crate::resource::name_rule::LABEL_MAX;

/// The length of the suffix, and the maximum length of the part of `generateName` before it.
const SUFFIX: usize = 5;
const BASE_MAX: usize = LABEL_MAX - SUFFIX;
/// apiserver's alphabet. It has no vowels, so that no suffix is a word, and no characters that look
/// alike.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns a name that begins with `base` (`metadata.generateName`) and ends with a random suffix.
pub(crate) fn generate(base: &str) -> String {
    let mut end = base.len().min(BASE_MAX);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let mut random = uuid::Uuid::new_v4().as_u128();
    let mut name = base[..end].to_owned();
    for _ in 0..SUFFIX {
        let letter = (random % ALPHABET.len() as u128) as usize;
        random /= ALPHABET.len() as u128;
        name.push(char::from(ALPHABET[letter]));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::name_rule::NameRule;

    #[test]
    fn made_up_names_are_allowed_and_differ() {
        let one = generate("web-");
        assert!(one.starts_with("web-") && one.len() == 9, "{one}");
        assert!(NameRule::Subdomain.refuse(&one).is_empty());
        assert_ne!(one, generate("web-"));
        assert_eq!(
            generate(&"ä".repeat(40)).chars().count(),
            BASE_MAX / 2 + SUFFIX
        );
        assert_eq!(generate(&"a".repeat(90)).len(), LABEL_MAX);
    }
}
