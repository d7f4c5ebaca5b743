//! Tests result folders: they are complete or do not exist.

#[path = "support/synthetic.rs"]
mod synthetic;

use std::time::{Duration, SystemTime};

use report::result::{FolderError, ResultFolder, SavedResult, folder_name};

#[test]
fn what_is_saved_is_loaded() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let result = synthetic::result(1.0);
    let folder = ResultFolder::create(parent.path(), "a").expect("a fresh name");
    folder.write(&result).expect("a writable folder");
    let path = folder.finish().expect("a free name");
    let loaded = SavedResult::load(&path).expect("the result that was just saved");
    assert_eq!(loaded.report, result.report);
    assert_eq!(loaded.series, result.series);
    assert_eq!(loaded.scenario_toml, result.scenario_toml);
    assert_eq!(loaded.histograms.len(), result.histograms.len());
    for case in &result.report.cases {
        let values = |result: &SavedResult| {
            result
                .histogram("latency", case)
                .map(|histogram| histogram.quantiles_ms())
        };
        assert_eq!(values(&loaded), values(&result), "{}", case.id());
    }
}

#[test]
fn series_are_saved_compressed_and_read_uncompressed_too() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let result = synthetic::result(1.0);
    let folder = ResultFolder::create(parent.path(), "a").expect("a fresh name");
    folder.write(&result).expect("a writable folder");
    let path = folder.finish().expect("a free name");
    let compressed = path.join("series.csv.gz");
    let mut csv = Vec::new();
    report::result::series::write_series(&mut csv, &result.series)
        .expect("a vector takes everything");
    let size = std::fs::metadata(&compressed).expect("the series").len();
    assert!(size < csv.len() as u64 / 2, "{size} of {}", csv.len());

    // A damaged archive must be an error and not a shorter series.
    let whole = std::fs::read(&compressed).expect("the series");
    std::fs::write(&compressed, &whole[..whole.len() - 12]).expect("a writable file");
    let cut = SavedResult::load(&path);
    assert!(matches!(cut, Err(FolderError::Series { .. })), "{cut:?}");

    std::fs::remove_file(&compressed).expect("it is there");
    std::fs::write(path.join("series.csv"), csv).expect("a writable folder");
    let loaded = SavedResult::load(&path).expect("a result of an earlier version");
    assert_eq!(loaded.series, result.series);
}

#[test]
fn an_unfinished_folder_is_no_result() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let folder = ResultFolder::create(parent.path(), "a").expect("a fresh name");
    let partial = folder.path().to_owned();
    let empty = SavedResult::load(&partial);
    assert!(matches!(empty, Err(FolderError::Partial(_))), "{empty:?}");
    for _ in 0..2 {
        folder
            .write(&synthetic::result(1.0))
            .expect("a writable folder");
    }
    drop(folder);
    assert!(
        !parent.path().join("a").exists(),
        "the name is only given to what is finished"
    );
    let kept = SavedResult::load(&partial);
    assert!(matches!(kept, Err(FolderError::Unfinished(_))), "{kept:?}");
    let named = parent.path().join("a");
    std::fs::rename(&partial, &named).expect("a free name");
    SavedResult::load(&named).expect("what was measured can be read");
    let files = std::fs::read_dir(&named).expect("a folder").count();
    assert_eq!(files, 4, "nothing but the raw data is left");
}

#[test]
fn a_result_is_never_overwritten() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    ResultFolder::create(parent.path(), "a")
        .expect("a fresh name")
        .finish()
        .expect("a free name");
    let error = ResultFolder::create(parent.path(), "a").expect_err("it is there");
    assert!(error.to_string().contains("exists already"), "{error}");
    let running = ResultFolder::create(parent.path(), "b").expect("a fresh name");
    assert!(
        matches!(
            ResultFolder::create(parent.path(), "b"),
            Err(FolderError::Exists(_))
        ),
        "another run has it"
    );
    running.discard().expect("it is ours");
    assert_eq!(
        std::fs::read_dir(parent.path())
            .expect("the folder")
            .count(),
        1,
        "nothing is left of a discarded run"
    );
}

#[test]
fn another_version_says_so_instead_of_complaining_about_a_field() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(
        parent.path().join("report.json"),
        r#"{"schema_version": 99, "surprise": true}"#,
    )
    .expect("a writable folder");
    let error = SavedResult::load(parent.path()).expect_err("from the future");
    assert!(
        error
            .to_string()
            .ends_with("has schema version 99; this program reads version 2"),
        "{error}"
    );
}

#[test]
fn a_name_tells_when_where_and_what_and_suits_every_file_system() {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_248_000);
    assert_eq!(
        folder_name(time, "my host", "shapes/a"),
        "2026-11-21T080000-my_host-shapes_a"
    );
}

fn published_schema() -> jsonschema::Validator {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schema/report.schema.json");
    let schema = std::fs::read_to_string(path).expect("the published schema");
    jsonschema::validator_for(&serde_json::from_str(&schema).expect("JSON")).expect("a schema")
}

#[test]
fn a_saved_report_is_what_the_published_schema_says() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let folder = ResultFolder::create(parent.path(), "a").expect("a fresh name");
    folder
        .write(&synthetic::result(1.0))
        .expect("a writable folder");
    let json = std::fs::read(folder.path().join("report.json")).expect("the report");
    let report: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    let schema = published_schema();
    let errors: Vec<String> = schema
        .iter_errors(&report)
        .map(|error| error.to_string())
        .collect();
    assert_eq!(errors, Vec::<String>::new());
    for (pointer, wrong) in [
        ("/cases/0/requests", serde_json::json!("five")),
        ("/cases/0/tier", serde_json::json!("disk")),
        ("/cases/0/outcome/state", serde_json::json!("lucky")),
        ("/cases/0/server/rss_peak", serde_json::Value::Null),
        ("/environment", serde_json::json!({})),
    ] {
        let mut altered = report.clone();
        *altered
            .pointer_mut(pointer)
            .unwrap_or_else(|| panic!("the report has {pointer}")) = wrong;
        assert!(!schema.is_valid(&altered), "{pointer} may not be that");
    }
}
