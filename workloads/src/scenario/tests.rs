use std::num::NonZeroU64;

use super::*;
use crate::strategy::{PlainList, Strategy, Tier};

const SMALL: &str = r#"
name = "small"
summary = "one"
repeats = 3

[cases]
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
    assert_eq!(scenario.cases.etcd.len() + scenario.cases.kube.len(), 8);
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
    let sizes = |table: &str| refusal("object_size = 100", &format!("object_sizes = {table}")).1;
    for (table, says) in [
        ("[]", "object_sizes: the table is empty"),
        (
            "[{ bytes = 9, weight = 0 }]",
            "object_sizes: the weights of the table sum to 0",
        ),
        ("[{ bytes = 9, weight = -1 }]", "weight = -1 must be"),
        (
            "[{ bytes = 2_000_000, weight = 1 }]",
            "bytes = 2000000 is too large",
        ),
        ("[{ bytes = 0, weight = 1 }]", "bytes = 0 is too small"),
    ] {
        let message = sizes(table);
        assert!(message.contains(says), "`{says}`: {message}");
    }
    let many = format!("[{}]", "{ bytes = 9, weight = 1 },".repeat(101));
    assert!(sizes(&many).contains("101 object_sizes are given, at most 100"));
    let both = "object_size = 100\nobject_sizes = [{ bytes = 9, weight = 1 }]";
    let (_, message) = refusal("object_size = 100", both);
    assert!(message.contains("has both"), "{message}");
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
        strategies: Some(vec![
            Strategy::Plain(PlainList::Stream),
            Strategy::Plain(PlainList::Cached),
        ]),
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
        shapes.cases,
        Cases {
            etcd: vec![Strategy::Plain(PlainList::Stream).into()],
            kube: vec![Strategy::Plain(PlainList::Cached).into()]
        }
    );

    let mut pods = Scenario::named("pods-150k").expect("built in");
    let error = pods
        .override_with(&overrides)
        .expect_err("pods have no size");
    assert!(error.to_string().contains("--object-size"), "{error}");
}

/// A scenario that uses every option of scenario files.
const WHOLE: &str = r#"
name = "whole"
summary = "all"
repeats = 3
duration = "2s"
server_cpus = "0,2-3"
client_cpus = "1"

[cases]
etcd = [
    "stream",
    { strategy = "stream", clients = 5, frame = "16KiB" },
    { strategy = "put", clients = 100, connections = 10, rate = 2000.0, duration = "10s" },
    { strategy = "stream", background = ["lists"] },
    { strategy = "stream", every = "1s" },
    { strategy = "paged:5", baseline = "checked" },
]

[[background]]
name = "lists"
strategy = "stream"
clients = 4

[[threshold]]
name = "small frames"
case = "etcd/stream/5-clients/16KiB-frames"
metric = "latency_ms.p50"
at_most = 1.5
of_case = "etcd/stream"

[[threshold]]
name = "beyond its bytes"
case = "etcd/paged:5"
metric = "yardstick.time_ratio.p50"
at_most = 1.2

[[data_set]]
name = "raw"
kind = "raw"
objects = 10
object_size = 100
seed = 7
"#;

#[test]
fn cases_have_options_backgrounds_and_thresholds() {
    let scenario = Scenario::parse(WHOLE, "whole").expect("all of it fits");
    let names: Vec<_> = scenario.cases.all().map(|(_, case)| case.name()).collect();
    let expected = [
        "stream",
        "stream/5-clients/16KiB-frames",
        "put/100-clients/10-connections/2000-per-second",
        "stream/beside-lists",
        "stream/every-1000ms",
        "paged:5",
    ];
    assert_eq!(names, expected);
    let servers = scenario.server_cpus.as_ref().map(ToString::to_string);
    assert_eq!(servers.as_deref(), Some("0,2-3"));
    let threshold = &scenario.thresholds[0];
    assert_eq!(
        (threshold.data_set(&scenario), threshold.is_of_any_size()),
        ("raw", false)
    );
    let again = Scenario::parse(&scenario.to_toml(), "again").expect("its own output");
    assert_eq!(again, scenario);
}

#[test]
fn a_case_of_loads_may_be_of_some_data_sets_only() {
    let text = r#"
name = "two"
summary = "one case of both data sets, and one of one"
repeats = 1
[cases]
etcd = ["stream"]
[[case]]
name = "gets"
data_sets = ["small"]
load = [{ name = "gets", operation = "get" }]
[[data_set]]
name = "large"
kind = "raw"
objects = 10
object_size = 100
seed = 1
[[data_set]]
name = "small"
kind = "raw"
objects = 1
object_size = 100
seed = 1
"#;
    let scenario = Scenario::parse(text, "two").expect("all of it fits");
    let names = |data_set: &str| -> Vec<_> {
        let cases = scenario.cases_on(data_set);
        cases.map(|(_, case)| case.name()).collect()
    };
    assert_eq!(names("large"), ["stream"]);
    assert_eq!(names("small"), ["stream", "gets"]);
    let again = Scenario::parse(&scenario.to_toml(), "again").expect("its own output");
    assert_eq!(again, scenario);

    let unknown = text.replace("[\"small\"]", "[\"tiny\"]");
    let error = Scenario::parse(&unknown, "two").expect_err("there is none of that name");
    assert_eq!(
        error.to_string(),
        "scenario two, line 7: case `gets`: there is no data set `tiny`"
    );
}

#[test]
fn cases_that_may_ask_for_json_do_and_are_there_once() {
    let text = r#"
name = "json"
summary = "some ask for protobuf"
repeats = 1
[cases]
etcd = ["stream"]
kube = [
    "no-lists",
    "consistent",
    { strategy = "consistent", media = "json" },
    { strategy = "paged:7", media = "protobuf", http = "h2" },
    "sharded:2",
]
[[data_set]]
name = "pods"
kind = "pods"
objects = 1
namespaces = 1
nodes = 1
seed = 1
"#;
    let mut scenario = Scenario::parse(text, "json").expect("all of it fits");
    scenario.ask_for_json();
    let names: Vec<_> = scenario.cases.all().map(|(_, case)| case.name()).collect();
    let expected = [
        "stream",
        "no-lists",
        "consistent/json",
        "paged:7/json/h2",
        "sharded:2",
    ];
    assert_eq!(names, expected);
    let again = Scenario::parse(&scenario.to_toml(), "again").expect("it can be run again");
    assert_eq!(again.cases, scenario.cases);
}

/// Scenario files that are stored with older results use the older names of keys.
#[test]
fn older_names_of_keys_are_read() {
    let older = WHOLE
        .replace("[cases]", "[rows]")
        .replace("background = [", "beside = [")
        .replace("baseline = ", "yardstick = ")
        .replace("[[threshold]]", "[[bar]]")
        .replace("\ncase = ", "\nrow = ")
        .replace("\nof_case = ", "\nof_row = ");
    let scenario = Scenario::parse(&older, "older").expect("the older keys are known");
    assert_eq!(scenario, Scenario::parse(WHOLE, "whole").expect("it fits"));
}

#[test]
fn what_a_case_a_background_or_a_threshold_names_must_be_there() {
    for (from, to, says) in [
        (
            "background = [\"lists\"]",
            "background = [\"list\"]",
            "no [[background]] named `list`",
        ),
        (
            "strategy = \"put\", clients",
            "strategy = \"unary\", clients",
            "does not take `rate`",
        ),
        (
            "of_case = \"etcd/stream\"",
            "of_case = \"etcd/unary\"",
            "there is no case `etcd/unary`",
        ),
        (
            "case = \"etcd/stream/5-clients",
            "case = \"etcd/stream/6-clients",
            "did you mean",
        ),
        ("at_most = 1.5", "", "one of `at_most` and `at_least`"),
        ("clients = 4", "watchers = 4", "background `lists`"),
        (
            "\"stream\",\n    {",
            "\"watch\",\n    {",
            "measures nothing by itself",
        ),
        ("16KiB\" }", "16\" }", "is not a size"),
        (
            ", baseline = \"checked\"",
            "",
            "case `etcd/paged:5` has no `baseline`",
        ),
        (
            "metric = \"yardstick.time_ratio.p50\"",
            "metric = \"null_sink_ms.p50\"\nof_row = \"etcd/stream/every-1000ms\"",
            "case `etcd/stream/every-1000ms` has a pace",
        ),
        ("\"checked\"", "\"read\"", "unknown variant `read`"),
        (
            "client_cpus = \"1\"",
            "client_cpus = \"1-\"",
            "not a list of CPUs",
        ),
        ("paged:5\",", "no-lists\",", "does not take `baseline`"),
        (
            "\"paged:5\",",
            "\"paged:5\", clients = 2,",
            "does not take `baseline`",
        ),
    ] {
        let text = WHOLE.replacen(from, to, 1);
        assert_ne!(text, WHOLE, "`{from}` must be there");
        let error = Scenario::parse(&text, "whole").expect_err(to).to_string();
        assert!(error.contains(says), "{to}: {error}");
    }
}

#[test]
fn the_command_line_keeps_a_strategy_s_cases_and_forgets_thresholds_without_one() {
    let mut scenario = Scenario::parse(WHOLE, "whole").expect("all of it fits");
    let strategies = Some(vec![Strategy::Put, Strategy::Plain(PlainList::Unary)]);
    let overrides = Overrides {
        strategies,
        rate: Some(50.0),
        clients: NonZeroU32::new(7),
        ..Overrides::default()
    };
    scenario.override_with(&overrides).expect("it fits");
    let names: Vec<_> = scenario.cases.all().map(|(_, case)| case.name()).collect();
    assert_eq!(names, ["put/10-connections", "unary"]);
    assert_eq!((scenario.clients, scenario.rate), (7, Some(50.0)));
    assert_eq!(
        scenario.cases.of(Tier::Etcd)[0].duration,
        Some(Duration::from_secs(10))
    );
    assert!(scenario.thresholds.is_empty());

    let mut pods = Scenario::named(DEFAULT).expect("built in");
    let of_any_size = pods
        .thresholds
        .iter()
        .filter(|threshold| threshold.is_of_any_size())
        .count();
    assert!(0 < of_any_size && of_any_size < pods.thresholds.len());
    for (objects, left) in [(150_000, pods.thresholds.len()), (10_000, of_any_size)] {
        let overrides = Overrides {
            objects: NonZeroU64::new(objects),
            ..Overrides::default()
        };
        pods.override_with(&overrides).expect("it fits");
        assert_eq!(pods.thresholds.len(), left, "{objects} objects");
    }
    let overrides = Overrides {
        rate: Some(50.0),
        ..Overrides::default()
    };
    let error = pods.override_with(&overrides).expect_err("it only lists");
    assert!(error.to_string().contains("small requests"), "{error}");
}
