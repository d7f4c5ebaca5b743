use super::*;

const SMALL: &str = r#"
name = "small"
summary = "one"
repeats = 3

[rows]
etcd = ["stream"]

[[data_set]]
name = "raw"
kind = "raw"
objects = 10
object_size = 100
seed = 7
"#;

fn refusal(from: &str, to: &str) -> (usize, String) {
    let text = SMALL.replace(from, to);
    assert_ne!(text, SMALL, "the test must change something");
    match Scenario::parse(&text, "small.toml") {
        Err(ScenarioError::Invalid {
            origin,
            line,
            message,
        }) => {
            assert_eq!(origin, "small.toml");
            (line, message)
        }
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[test]
fn built_in_scenarios_are_named_after_their_files() {
    for ((name, _), scenario) in BUILT_IN.iter().zip(built_in()) {
        assert_eq!(*name, scenario.name);
        assert_eq!(Scenario::named(name).expect("built in"), scenario);
        assert!(!scenario.description.is_empty());
    }
    assert_eq!(built_in()[0].name, DEFAULT);
}

#[test]
fn the_default_is_what_the_thresholds_say() {
    let scenario = Scenario::named(DEFAULT).expect("built in");
    let pods = &scenario.data_sets[0];
    assert_eq!(pods.objects.get(), 150_000);
    assert_eq!(pods.namespaces.map(NonZeroU32::get), Some(50));
    assert_eq!(pods.nodes.map(NonZeroU32::get), Some(5_000));
    assert_eq!(scenario.rows.etcd.len() + scenario.rows.kube.len(), 8);
}

#[test]
fn a_misspelt_scenario_gets_its_neighbour() {
    let error = Scenario::named("pods-15k").expect_err("no such scenario");
    assert!(
        error.to_string().contains("did you mean `pods-150k`"),
        "{error}"
    );
}

#[test]
fn an_error_names_its_line() {
    assert_eq!(refusal("repeats = 3", "repeats = 3\nrepeat = 4").0, 5);
    let (line, message) = refusal("[\"stream\"]", "[\"steam\"]");
    assert_eq!(line, 7);
    assert!(message.contains("did you mean `stream`"), "{message}");
    let (line, message) = refusal("[\"stream\"]", "[\"cached\"]");
    assert!(
        message.contains("the etcd tier has no strategy `cached`"),
        "{line}: {message}"
    );
    assert_eq!(refusal("objects = 10", "objects = 0").0, 12);
    assert_eq!(refusal("seed = 7", "seed = 7\nnode = 3").0, 15);
    let (line, message) = refusal("seed = 7", "seed = 7\nnodes = 3");
    assert_eq!(line, 9, "a contradiction is shown at its data set");
    assert!(message.contains("does not take `nodes`"), "{message}");
    let (_, message) = refusal("object_size = 100\n", "");
    assert!(message.contains("needs `object_size`"), "{message}");
    let (_, message) = refusal("= 100\n", "= 2_000_000\n");
    assert!(message.contains("too large"), "{message}");
}

#[test]
fn what_was_run_can_be_run_again() {
    for mut scenario in built_in() {
        scenario
            .override_with(&Overrides {
                objects: NonZeroU64::new(1000),
                seed: Some(9),
                ..Overrides::default()
            })
            .expect("objects and seed fit every scenario");
        let again = Scenario::parse(&scenario.to_toml(), "again").expect("its own output");
        assert_eq!(again, scenario);
    }
}

#[test]
fn overrides_reach_every_data_set_or_are_refused() {
    let mut shapes = Scenario::named("stream-shapes").expect("built in");
    let overrides = Overrides {
        object_size: NonZeroU64::new(64),
        strategies: Some(vec![Strategy::Stream, Strategy::Cached]),
        ..Overrides::default()
    };
    shapes
        .override_with(&overrides)
        .expect("raw values have a size");
    assert!(
        shapes
            .data_sets
            .iter()
            .all(|spec| spec.object_size == NonZeroU64::new(64))
    );
    assert_eq!(
        shapes.rows,
        Rows {
            etcd: vec![Strategy::Stream],
            kube: vec![Strategy::Cached]
        }
    );

    let mut pods = Scenario::named("pods-150k").expect("built in");
    let error = pods
        .override_with(&overrides)
        .expect_err("pods have no size");
    assert!(error.to_string().contains("--object-size"), "{error}");
}
