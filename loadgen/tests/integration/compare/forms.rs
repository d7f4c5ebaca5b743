//! The program: the folders that it reads, and its output formats.

use super::*;

#[test]
fn a_run_that_is_there_twice_counts_once() {
    let mut base = side(0, 1.0, 3);
    base.push(base[1].clone());
    let folder = saved(&base, &side(1, 1.0, 4));
    assert_refused(
        folder.path(),
        &["base", "new"],
        &["the run of 2026-01-02T03:02:00Z on nowhere is given twice"],
    );
}

#[test]
fn what_is_no_result_or_damaged_is_named() {
    let folder = saved(&side(0, 1.0, 2), &side(1, 1.0, 2));
    let path = folder.path();
    assert_refused(
        path,
        &["missing", "new"],
        &["missing is not a result: it holds no report.json"],
    );
    fs::create_dir(path.join("empty")).expect("a folder");
    assert_refused(path, &["base", "empty"], &["empty is not a result"]);
    let (code, _, log) = loadgen(path, &["base"]);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("<NEW>"), "{log}");

    let report = path.join("new/run-1/report.json");
    let whole = fs::read_to_string(&report).expect("it was written");
    fs::write(&report, &whole[..whole.len() / 2]).expect("it can be written");
    assert_refused(
        path,
        &["base", "new"],
        &["run-1/report.json", "EOF while parsing"],
    );
    fs::write(&report, "").expect("it can be written");
    assert_refused(
        path,
        &["base", "new"],
        &["run-1/report.json", "EOF while parsing"],
    );
    let newer = whole.replacen("\"schema_version\": 2", "\"schema_version\": 99", 1);
    fs::write(&report, newer).expect("it can be written");
    let words = ["run-1/report.json", "schema version 99"];
    assert_refused(path, &["base", "new"], &words);
}

#[test]
fn a_chart_that_cannot_be_written_and_a_metric_that_is_none_are_refused() {
    let folder = saved(&side(0, 1.0, 1), &side(1, 1.0, 1));
    let args = ["base", "new", "--chart", "missing/ratios.svg"];
    assert_refused(folder.path(), &args, &["cannot write missing/ratios.svg"]);
    let (code, _, log) = loadgen(folder.path(), &["base", "new", "--metric", "p51"]);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("peak_memory"), "{log}");
    let (code, _, log) = loadgen(folder.path(), &["base", "--base", "etcd"]);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("--new"), "{log}");
}

#[test]
fn two_targets_of_one_folder_and_a_chart_of_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    save(&folder.path().join("runs"), &side(0, 1.0, 6));
    let args = [
        "runs",
        "--base",
        "etcd",
        "--new",
        "be",
        "--metric",
        "p50,peak_memory",
        "--chart",
        "ratios.svg",
    ];
    let (code, out, log) = loadgen(folder.path(), &args);
    assert_eq!(code, Some(0), "{out}{log}");
    assert!(out.contains("base: etcd; etcd 3.7.1; 6 runs"), "{out}");
    assert!(
        out.contains("OK: none of 6 deciding metrics is worse; 6 better."),
        "{out}"
    );
    let svg = fs::read_to_string(folder.path().join("ratios.svg")).expect("it was drawn");
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("role=\"img\"") && svg.contains("prefers-color-scheme: dark"));
    assert!(svg.len() < 40_000, "{} bytes", svg.len());
}

#[test]
fn json_is_what_its_schema_says() {
    let mut new = side(1, 1.3, 4);
    for result in &mut new {
        stream(result).encoding = Some("other".into());
        for case in &mut result.report.cases {
            if case.tier == Tier::Kube && case.strategy == "cached" {
                let reason = "no watch cache".to_owned();
                case.outcome = Outcome::NotApplicable { reason };
            }
        }
    }
    let folder = saved(&side(0, 1.0, 4), &new);
    let (code, out, log) = loadgen(folder.path(), &["base", "new", "--format", "json"]);
    assert_eq!(code, Some(1), "{log}");
    let document: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let schema = include_str!("../../../report/schema/compare.schema.json");
    let schema: serde_json::Value = serde_json::from_str(schema).expect("JSON");
    jsonschema::validate(&schema, &document).expect("as published");
    assert_eq!(document["end"], "worse");
    assert_eq!(document["gone"][0]["case"], "pods-150k/kube/cached");
    assert_eq!(document["not_comparable"][0]["case"], STREAM);
    let line = &document["lines"][0];
    assert_eq!(line["metric"], "p50");
    assert_eq!(line["verdict"], "worse");
    assert_eq!(line["base"]["n"], 4);
    assert_eq!(line["method"], "unpaired");
    let one = compared(&side(0, 1.0, 1), &side(1, 1.0, 1), &Options::default());
    let document = serde_json::to_value(Document::from(&one)).expect("plain data");
    jsonschema::validate(&schema, &document).expect("as published");
    assert_eq!(document["lines"][0]["lower"], serde_json::Value::Null);
    assert_eq!(document["lines"][0]["more_starts"], 3);
}

#[test]
fn markdown_says_the_answer_first_and_stays_within_a_comment() {
    let comparison = compared(&side(0, 1.0, 4), &side(1, 1.3, 4), &Options::default());
    let shown = markdown::markdown(&comparison, "loadgen compare base new");
    let first = shown.lines().next().expect("a line");
    assert!(first.starts_with("**WORSE: 2"), "{first}");
    assert!(shown.contains("| ▲ **worse** |"), "{shown}");
    assert!(shown.contains("<details><summary>"), "{shown}");
    assert!(
        shown.contains("Made by `loadgen compare base new`."),
        "{shown}"
    );

    let table = shown.find("| case |").expect("a table");
    let folded = shown.find("<details>").expect("it is folded");
    let machine = shown.find("Machine: nowhere, 2 cores").expect("a machine");
    assert!(table < folded && folded < machine, "{shown}");

    let mut many = comparison;
    let lines = many.lines.clone();
    for n in 0..200 {
        many.lines.extend(lines.iter().cloned().map(|line| Line {
            case: format!("{}/{n}", line.case),
            // Each line has its own reason, which is printed below the table.
            verdict: Verdict::CannotTell(Reason::TooFewStarts {
                base: n,
                new: n + 1,
                least: n + 2,
                is_paired: false,
            }),
            ..line
        }));
        let long = "*_`".repeat(n * 10);
        many.notes.push(long.clone());
        many.gone.push(Unjudged {
            case: long.clone(),
            reason: long.clone(),
        });
        many.not_comparable.push(many.gone[n].clone());
        many.new.commits.push(long.clone());
        many.base.machines.push(long);
    }
    let shown = markdown::markdown(&many, &"long ".repeat(10_000));
    assert!(shown.len() < 60_000, "{} bytes", shown.len());
    assert!(
        shown.contains(" rows left out; ") && shown.contains("- and 188 more\n"),
        "what is cut is said"
    );
    let opened = |tag: &str| shown.matches(tag).count();
    assert_eq!(opened("<details>"), opened("</details>"));
    let drawn = chart::svg(&many);
    assert!(drawn.len() < 120_000, "{} bytes", drawn.len());
}

#[test]
fn the_worst_three_are_annotations() {
    let folder = saved(&side(0, 1.0, 4), &side(1, 1.5, 4));
    let (code, _, log) = loadgen(folder.path(), &["base", "new", "--annotate"]);
    assert_eq!(code, Some(1), "{log}");
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 3, "{log}");
    for line in lines {
        assert!(line.starts_with("::error title="), "{line}");
        assert!(
            line.contains(" is worse::base ") && line.contains("new/base 1.5"),
            "{line}"
        );
    }
    let (code, _, log) = loadgen(folder.path(), &["new", "base", "--annotate"]);
    assert_eq!((code, log.as_str()), (Some(0), ""), "nothing is worse");
}

#[test]
fn junit_is_printed_with_the_same_exit_code() {
    let folder = saved(&side(0, 1.0, 4), &side(1, 1.5, 4));
    let (code, out, log) = loadgen(folder.path(), &["base", "new", "--format", "junit"]);
    assert_eq!(code, Some(1), "{log}");
    assert!(
        out.starts_with("<?xml ") && out.contains("<failure message=\"worse by 5 % or more: "),
        "{out}"
    );
}
