use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn profile(text: &str) -> Profile {
    #[derive(Deserialize)]
    struct Load {
        arrivals: Profile,
    }
    let load: Load = toml::from_str(&format!("arrivals = {text}")).expect("a profile");
    load.arrivals.check().expect("it makes sense");
    load.arrivals
}

/// One profile of each kind.
fn all() -> Vec<Profile> {
    [
        "{ poisson = 1000 }",
        "{ constant = 300 }",
        "{ ramp = { from = 0, to = 1000, within = '10s' } }",
        "{ ramp = { from = 1000, to = 0, within = '10s' } }",
        "{ ramp = { from = 70, to = 70, within = '10s' } }",
        "{ steps = { rates = [500, 0, 1500], each = '3s' } }",
        "{ steps = { rates = [10, 20, 30, 40], each = '1s', shuffled = true } }",
        "{ burst = { size = 7, every = '250ms' } }",
        "{ sine = { mean = 200, amplitude = 200, period = '4s' } }",
    ]
    .map(profile)
    .to_vec()
}

fn connection(profile: &Profile, connection: u64, connections: u64) -> Arrivals {
    Arrivals::new(profile, 7, 0, connection, connections)
}

#[test]
fn the_inverse_undoes_the_count() {
    for profile in all().iter().filter(|profile| profile.is_random()) {
        let total = profile.due_by(Duration::from_secs(9));
        for part in 1..100 {
            let x = total * f64::from(part) / 100.0;
            let Some(t) = inverse::start(profile, x) else {
                continue;
            };
            let back = inverse::due_by(profile, t);
            assert!((back - x).abs() < 1e-6 * x, "{profile:?}: {x}, {t}, {back}");
        }
    }
}

#[test]
fn starts_rise_and_are_as_many_as_the_profile_says() {
    for profile in all() {
        for connections in [1, 10] {
            let mut count = 0_u64;
            for number in 0..connections {
                let mut before = Duration::ZERO;
                for at in connection(&profile, number, connections).take_while(|at| *at < MINUTE) {
                    assert!(at >= before, "{profile:?}: {at:?} after {before:?}");
                    before = at;
                    count += 1;
                }
            }
            let expected = profile.ordered(7).due_by(MINUTE);
            // Within six standard deviations of a Poisson count; even arrivals are exact to a
            // burst.
            let slack = match profile.is_random() {
                true => 6.0 * expected.sqrt(),
                false => 7.0,
            };
            assert!(
                (count as f64 - expected).abs() <= slack,
                "{profile:?} on {connections} connections: {count} of {expected}"
            );
        }
    }
}

#[test]
fn random_gaps_are_exponential() {
    let gaps: Vec<f64> = connection(&Profile::Poisson(100.0), 0, 1)
        .zip(connection(&Profile::Poisson(100.0), 0, 1).skip(1))
        .take(20_000)
        .map(|(a, b)| (b - a).as_secs_f64())
        .collect();
    let n = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / n;
    let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n).sqrt();
    assert!((mean * 100.0 - 1.0).abs() < 0.03, "{mean}");
    assert!(
        (deviation / mean - 1.0).abs() < 0.05,
        "{deviation} of {mean}"
    );
    // In an exponential distribution a fraction of 1/e is longer than the mean.
    let long = gaps.iter().filter(|gap| **gap > mean).count() as f64 / n;
    assert!((long - (-1.0_f64).exp()).abs() < 0.02, "{long}");
}

#[test]
fn even_connections_take_turns_and_nothing_adds_up() {
    let profile = Profile::Constant(30_000.0);
    let mut merged: Vec<Duration> = (0..64)
        .flat_map(|number| connection(&profile, number, 64).take(100))
        .collect();
    merged.sort();
    let alone: Vec<Duration> = connection(&profile, 0, 1).take(6_400).collect();
    assert_eq!(merged, alone);
    // After a billion operations a gap of 33,333.3 ns has not become one of 33,333.
    let late = inverse::even_start(&profile, 3_000_000_000);
    assert_eq!(late, Duration::from_secs(100_000));
}

#[test]
fn bursts_come_together() {
    let burst = profile("{ burst = { size = 3, every = '1s' } }");
    let starts: Vec<u64> = connection(&burst, 0, 1)
        .take(7)
        .map(|at| at.as_secs())
        .collect();
    assert_eq!(starts, [0, 0, 0, 1, 1, 1, 2]);
}

#[test]
fn a_shuffled_ladder_has_the_same_steps_in_the_seeds_order() {
    let rates = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let order = |seed| {
        let mut rates = rates.clone();
        shuffle(&mut rates, seed);
        rates
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
    let mut sorted = order(1);
    sorted.sort_by(f64::total_cmp);
    assert_eq!(sorted, rates);
}

#[test]
fn a_profile_that_ends_at_no_rate_has_an_end() {
    let down = profile("{ ramp = { from = 10, to = 0, within = '10s' } }");
    let starts: Vec<Duration> = connection(&down, 0, 1).collect();
    assert!((20..=80).contains(&starts.len()), "{}", starts.len());
    assert!(starts.iter().all(|at| *at <= Duration::from_secs(10)));
}

#[test]
fn connections_and_parts_are_independent_and_the_same_every_time() {
    let profile = Profile::Poisson(1_000.0);
    let first = |part, number| Arrivals::new(&profile, 7, part, number, 2).next();
    assert_ne!(first(0, 0), first(0, 1));
    assert_ne!(first(0, 0), first(1, 0));
    // Golden values of this code; another value is another schedule.
    let starts: Vec<u128> = connection(&profile, 0, 1)
        .take(4)
        .map(|at| at.as_nanos())
        .collect();
    assert_eq!(starts, GOLDEN);
}

const GOLDEN: [u128; 4] = [2_955_834, 3_376_277, 3_800_529, 4_049_699];

#[test]
fn what_cannot_be_sent_is_refused_with_its_field() {
    let refused = |profile: Profile| profile.check().expect_err("refused").to_string();
    assert_eq!(
        refused(Profile::Poisson(0.0)),
        "arrivals: poisson = 0 must be a number above 0"
    );
    assert!(refused(Profile::Constant(f64::NAN)).contains("NaN"));
    assert!(refused(Profile::Constant(f64::INFINITY)).contains("inf"));
    let steps = |rates: &[f64]| Profile::Steps {
        rates: rates.to_vec(),
        each: MINUTE,
        shuffled: false,
    };
    assert!(refused(steps(&[])).contains("no step"));
    assert!(refused(steps(&[0.0])).contains("no step"));
    assert!(refused(steps(&[1.0, -1.0])).contains("rates = -1"));
    let sine = Profile::Sine {
        mean: 1.0,
        amplitude: 2.0,
        period: MINUTE,
    };
    assert!(refused(sine).contains("at most `mean`"));
    let burst = Profile::Burst {
        size: 1,
        every: Duration::ZERO,
    };
    assert!(refused(burst).contains("every must be longer"));
    let text = "arrivals = { poison = 1 }";
    let unknown = toml::from_str::<toml::Table>(text)
        .and_then(|table| table["arrivals"].clone().try_into::<Profile>())
        .expect_err("unknown");
    assert!(unknown.to_string().contains("poisson"), "{unknown}");
}

#[test]
fn scaling_multiplies_what_is_due() {
    for profile in all() {
        let (once, twice) = (profile.due_by(MINUTE), profile.scaled(2.0).due_by(MINUTE));
        assert!((twice / once - 2.0).abs() < 1e-9, "{profile:?}");
    }
}
