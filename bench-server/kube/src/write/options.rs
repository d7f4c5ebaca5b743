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

/// The options of POST, PUT and PATCH. `fieldManager` and other parameters are ignored.
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
        let (mut stages, mut validation) = (Vec::new(), None);
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "dryRun" => stages.push(value.into_owned()),
                // The first of repeated parameters counts.
                "fieldValidation" => validation = validation.or(Some(value)),
                _ => {}
            }
        }
        let mut causes = Vec::from_iter(unsupported_stages(&stages));
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
