//! A comparison as JUnit XML, which CI systems show as a list of tests. Each deciding metric is a
//! test case. `Worse` is a failure, `cannot tell` is skipped, and a case that must not be compared
//! is an error.
//!
//! Most tools count skipped tests as passed, so a CI gate must use the exit code and not this file.

use std::fmt::Write as _;

use super::{Comparison, Line, wording};

/// Name of the suite.
const SUITE: &str = "loadgen compare";

/// The result of a test case.
enum Ended {
    Passed,
    Failed(String),
    Skipped(String),
    Error(String),
}

/// One test case.
struct TestCase {
    class: String,
    name: String,
    /// Both values and their ratio.
    output: Option<String>,
    ended: Ended,
}

/// Returns the comparison as a JUnit document.
#[must_use]
pub fn junit(comparison: &Comparison) -> String {
    let cases = test_cases(comparison);
    let count = |is_so: fn(&Ended) -> bool| cases.iter().filter(|case| is_so(&case.ended)).count();
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"",
        cases.len(),
        count(|ended| matches!(ended, Ended::Failed(_))),
        count(|ended| matches!(ended, Ended::Error(_))),
        count(|ended| matches!(ended, Ended::Skipped(_))),
    );
    let sides = [&comparison.base, &comparison.new].map(wording::side);
    let properties = [
        ("base", &sides[0]),
        ("new", &sides[1]),
        ("end", &wording::headline(comparison)),
    ];
    let mut text = String::new();
    let mut write = |args: std::fmt::Arguments<'_>| {
        text.write_fmt(args).expect("a string takes everything");
    };
    write(format_args!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{SUITE}\" {counts}>\n\
         <testsuite name=\"{SUITE}\" {counts}>\n<properties>\n"
    ));
    for (name, value) in properties {
        let value = escaped(value);
        write(format_args!(
            "<property name=\"{name}\" value=\"{value}\"/>\n"
        ));
    }
    write(format_args!("</properties>\n"));
    for case in &cases {
        let (class, name) = (escaped(&case.class), escaped(&case.name));
        write(format_args!(
            "<testcase classname=\"{class}\" name=\"{name}\">\n"
        ));
        let (element, why) = match &case.ended {
            Ended::Passed => ("", ""),
            Ended::Failed(why) => ("failure", why.as_str()),
            Ended::Skipped(why) => ("skipped", why.as_str()),
            Ended::Error(why) => ("error", why.as_str()),
        };
        if !element.is_empty() {
            let why = escaped(why);
            write(format_args!("<{element} message=\"{why}\"/>\n"));
        }
        if let Some(output) = &case.output {
            let output = escaped(output);
            write(format_args!("<system-out>{output}</system-out>\n"));
        }
        write(format_args!("</testcase>\n"));
    }
    write(format_args!("</testsuite>\n</testsuites>\n"));
    text
}

fn test_cases(comparison: &Comparison) -> Vec<TestCase> {
    let has_targets = comparison.has_several_targets();
    let mut cases: Vec<TestCase> = comparison
        .deciding()
        .map(|line| of_line(line, has_targets, comparison.fail_above))
        .collect();
    let unjudged = |case: &str, ended| TestCase {
        class: case.to_owned(),
        name: "all metrics".to_owned(),
        output: None,
        ended,
    };
    for gone in &comparison.gone {
        let why = format!("gone: {}", gone.reason);
        cases.push(unjudged(&gone.case, Ended::Failed(why)));
    }
    for other in &comparison.not_comparable {
        let why = format!("not comparable: {}", other.reason);
        cases.push(unjudged(&other.case, Ended::Error(why)));
    }
    for metric in &comparison.absent {
        cases.push(TestCase {
            name: metric.to_string(),
            ..unjudged(
                "all cases",
                Ended::Skipped(format!("no {metric} in both sides")),
            )
        });
    }
    if cases.is_empty() {
        // A suite without test cases would look as if it had passed.
        let why = "nothing to decide by".to_owned();
        cases.push(unjudged("all cases", Ended::Skipped(why)));
    }
    cases
}

fn of_line(line: &Line, has_targets: bool, fail_above: Option<f64>) -> TestCase {
    let output = wording::values(line);
    let reason = line.verdict.reason().map(|reason| reason.to_string());
    let limit = wording::percent(fail_above.unwrap_or(line.margin));
    let ended = match line.is_within {
        Some(true) => Ended::Passed,
        Some(false) => Ended::Failed(format!("worse by {limit} or more: {output}")),
        None => Ended::Skipped(reason.unwrap_or_else(|| {
            format!("cannot tell whether it is worse by {limit} or more: {output}")
        })),
    };
    TestCase {
        class: match has_targets {
            true => format!("{}: {}", wording::targets(line), line.case),
            false => line.case.clone(),
        },
        name: line.metric.to_string(),
        output: Some(output),
        ended,
    }
}

/// Escapes text for an attribute or an element. Characters that XML cannot represent are removed.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' | '\r' => escaped.push(' '),
            _ if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_the_document() {
        assert_eq!(
            escaped("<a & \"b\">\n\u{1}'c'"),
            "&lt;a &amp; &quot;b&quot;&gt; 'c'"
        );
    }
}
