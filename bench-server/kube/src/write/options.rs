//! The options of a write, from the query. DELETE has [its own options](super::delete_options).

use http::Method;
use kube_api::status::{Cause, Status};

/// The only value of `dryRun`.
const ALL_STAGES: &str = "All";

/// The handling of unknown fields: those that the kind does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    /// Drop them.
    Ignore,
    /// Drop them and add a `Warning` header. The default.
    #[default]
    Warn,
    /// Return an error.
    Strict,
}

/// The largest `fieldManager`, bytes.
const MAX_FIELD_MANAGER: usize = 128;

/// The options of POST, PUT and PATCH. `fieldManager` is checked, and has no effect; other
/// parameters are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WriteOptions {
    /// Whether to do everything except the write (`dryRun=All`).
    pub(crate) dry_run: bool,
    /// `fieldValidation`.
    pub(crate) field_validation: FieldValidation,
}

impl WriteOptions {
    /// Returns the options of a DELETE, in which the client sends no fields to validate.
    pub(super) fn of_deletion(dry_run: bool) -> Self {
        Self {
            dry_run,
            ..Self::default()
        }
    }

    /// Parses the query of a URL.
    ///
    /// # Errors
    /// 422 for an unknown value.
    pub(crate) fn parse(method: &Method, query: &str) -> Result<Self, Status> {
        let (mut stages, mut validation, mut manager) = (Vec::new(), None, None);
        let mut has_force = false;
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "dryRun" => stages.push(value.into_owned()),
                // The first of repeated parameters counts.
                "fieldValidation" => validation = validation.or(Some(value)),
                "fieldManager" => manager = manager.or(Some(value)),
                "force" => has_force = true,
                _ => {}
            }
        }
        let mut causes = Vec::new();
        if has_force && *method == Method::PATCH {
            causes.push(Cause {
                reason: "FieldValueForbidden",
                message: "Forbidden: may not be specified for non-apply patch".to_owned(),
                field: "force",
            });
        }
        causes.extend(check_field_manager(manager.as_deref().unwrap_or_default()));
        causes.extend(unsupported_stages(&stages));
        let field_validation = match validation.as_deref() {
            None | Some("" | "Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let known = "\"\", \"Ignore\", \"Strict\", \"Warn\"";
                let value = format!("{other:?}");
                causes.push(unsupported("fieldValidation", &value, known));
                FieldValidation::default()
            }
        };
        if !causes.is_empty() {
            let kind = match *method {
                Method::POST => "CreateOptions",
                Method::PUT => "UpdateOptions",
                _ => "PatchOptions",
            };
            return Err(Status::invalid(kind, "meta.k8s.io", "", causes));
        }
        Ok(Self {
            dry_run: !stages.is_empty(),
            field_validation,
        })
    }
}

/// Returns the errors of a `fieldManager`.
fn check_field_manager(manager: &str) -> Vec<Cause> {
    let field = "fieldManager";
    let too_long = (manager.len() > MAX_FIELD_MANAGER).then(|| Cause {
        reason: "FieldValueTooLong",
        message: format!("Too long: may not be more than {MAX_FIELD_MANAGER} bytes"),
        field,
    });
    let letters = manager.char_indices();
    let unprintable = letters.filter(|(_, letter)| !is_printable(*letter));
    let unprintable = unprintable.map(|(position, letter)| Cause {
        reason: "FieldValueInvalid",
        message: format!(
            "Invalid value: {}: invalid character U+{:04X} (at position {position})",
            quoted_by_go(manager),
            u32::from(letter)
        ),
        field,
    });
    too_long.into_iter().chain(unprintable).collect()
}

/// Returns about what Go's `unicode.IsPrint` does: of white space, only the ASCII space is
/// printable.
fn is_printable(letter: char) -> bool {
    matches!(letter, ' ' | '"' | '\'' | '\\')
        || letter.escape_debug().len() == 1 && !letter.is_whitespace()
}

/// Returns a text in quotation marks, with escapes as Go's `%q` writes them.
fn quoted_by_go(text: &str) -> String {
    let escaped = text.chars().map(|letter| match letter {
        '"' | '\\' => format!("\\{letter}"),
        letter if is_printable(letter) => letter.to_string(),
        '\u{7}' => r"\a".to_owned(),
        '\u{8}' => r"\b".to_owned(),
        '\u{b}' => r"\v".to_owned(),
        '\u{c}' => r"\f".to_owned(),
        '\n' => r"\n".to_owned(),
        '\r' => r"\r".to_owned(),
        '\t' => r"\t".to_owned(),
        letter => match u32::from(letter) {
            code @ ..=0x7f => format!("\\x{code:02x}"),
            code @ ..=0xffff => format!("\\u{code:04x}"),
            code => format!("\\U{code:08x}"),
        },
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// Returns whether a query requests a dry run, even if other parameters are invalid.
pub(crate) fn is_dry_run(query: &str) -> bool {
    let mut stages = form_urlencoded::parse(query.as_bytes())
        .filter(|(name, _)| name == "dryRun")
        .map(|(_, stage)| stage)
        .peekable();
    stages.peek().is_some() && stages.all(|stage| stage == ALL_STAGES)
}

/// Returns the error for the values of `dryRun` unless all of them are `All`, the only supported
/// one.
pub(super) fn unsupported_stages(stages: &[String]) -> Option<Cause> {
    let known = stages.iter().all(|stage| stage == ALL_STAGES);
    (!known).then(|| unsupported("dryRun", &format!("[{}]", quoted(stages)), "\"All\""))
}

fn unsupported(field: &'static str, value: &str, known: &str) -> Cause {
    Cause {
        reason: "FieldValueNotSupported",
        message: format!("Unsupported value: {value}: supported values: {known}"),
        field,
    }
}

fn quoted(texts: &[String]) -> String {
    let quoted: Vec<_> = texts.iter().map(|text| format!("{text:?}")).collect();
    quoted.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_run_is_a_parameter_and_not_a_part_of_one() {
        for (query, expected) in [
            ("dryRun=All", true),
            ("fieldManager=a&dryRun=All&dryRun=All", true),
            ("dry%52un=%41ll", true),
            ("dryRun=All&fieldValidation=bogus", true),
            ("", false),
            ("dryRun=", false),
            ("dryRun=Allow", false),
            ("dryRun=All&dryRun=x", false),
            ("notdryRun=All", false),
            ("labelSelector=dryRun=All", false),
        ] {
            assert_eq!(is_dry_run(query), expected, "{query}");
        }
    }

    #[test]
    fn a_field_manager_is_short_and_printable() {
        let refuse = |method: &Method, query: &str| {
            let status = WriteOptions::parse(method, query).expect_err(query);
            status.message
        };
        let long = format!("fieldManager={}", "m".repeat(129));
        assert!(refuse(&Method::PUT, &long).contains("may not be more than 128 bytes"));
        let bell = refuse(&Method::POST, "fieldManager=a%07");
        assert!(
            bell.contains("\"a\\a\": invalid character U+0007 (at position 1)"),
            "{bell}"
        );
        let forced = refuse(&Method::PATCH, "force=false");
        assert!(
            forced.contains("may not be specified for non-apply patch"),
            "{forced}"
        );
        assert!(WriteOptions::parse(&Method::PUT, "force=true").is_ok());
        assert!(WriteOptions::parse(&Method::PUT, "fieldManager=my%20tool").is_ok());
    }

    #[test]
    fn queries_of_real_clients_are_read() {
        let kubectl = WriteOptions::parse(
            &Method::POST,
            "fieldManager=kubectl-client-side-apply&fieldValidation=Strict&dryRun=All",
        );
        let expected = WriteOptions {
            dry_run: true,
            field_validation: FieldValidation::Strict,
        };
        assert_eq!(kubectl, Ok(expected));
        assert_eq!(
            WriteOptions::parse(&Method::POST, "&pretty=1"),
            Ok(WriteOptions::default())
        );
        let repeated = WriteOptions::parse(
            &Method::PUT,
            "fieldValidation=Ignore&fieldValidation=Strict&fieldValidation=bogus",
        );
        let first = repeated.expect("the first counts").field_validation;
        assert_eq!(first, FieldValidation::Ignore);
        for bad in [
            "dryRun=Some",
            "dryRun=",
            "dryRun=All&dryRun=x",
            "fieldValidation=strict",
        ] {
            assert_eq!(
                WriteOptions::parse(&Method::POST, bad).expect_err(bad).code,
                422
            );
        }
    }
}
