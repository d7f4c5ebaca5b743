//! A line about the machine: how much of its CPU the run had.

use crate::result::{Case, MachineLoad, Spread};

/// The part of the machine's CPU used by others from which a case counts as disturbed.
pub(crate) const DISTURBED: f64 = 0.05;

/// Returns how idle the machine was otherwise while these cases were measured; `None` where that is
/// not known for any case.
#[must_use]
pub fn line<'a>(cases: impl Iterator<Item = &'a Case>) -> Option<String> {
    let cases: Vec<MachineLoad> = cases.filter_map(|case| case.machine).collect();
    let of = |part: fn(&MachineLoad) -> Option<f64>| Spread::of(cases.iter().filter_map(part));
    let mut facts = Vec::new();
    if let Some(others) = of(|load| load.others_cpu_part) {
        let known = || cases.iter().filter_map(|load| load.others_cpu_part);
        facts.push(format!(
            "other processes had {} of its CPU (median of {} cases; at worst {}; more than {} in {})",
            percent(others.p50),
            known().count(),
            percent(others.max),
            percent(DISTURBED),
            known().filter(|&part| part > DISTURBED).count(),
        ));
    }
    let rest = [
        (of(|load| load.stolen_cpu_part), "its host kept", " of it"),
        (
            of(|load| load.waiting_part),
            "a task of this or another process waited for a core",
            " of the time",
        ),
    ];
    for (parts, begin, end) in rest {
        facts.extend(parts.map(|parts| {
            let [median, worst] = [parts.p50, parts.max].map(percent);
            format!("{begin} {median}{end} (at worst {worst})")
        }));
    }
    (!facts.is_empty()).then(|| format!("The machine: {}.", facts.join("; ")))
}

/// Returns a part as a percentage, or `< 0.1 %` if it is smaller.
pub(crate) fn percent(part: f64) -> String {
    match part * 100.0 {
        0.0 => "0 %".to_owned(),
        percent if percent < 0.1 => "< 0.1 %".to_owned(),
        percent if percent < 9.95 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Outcome;
    use workloads::strategy::Tier;

    fn line_of(loads: &[Option<MachineLoad>]) -> Option<String> {
        let case = |machine: &Option<MachineLoad>| {
            let mut case = Case::new("pods", "bench", Tier::Etcd, "stream", Outcome::Measured);
            case.machine = *machine;
            case
        };
        let cases: Vec<Case> = loads.iter().map(case).collect();
        line(cases.iter())
    }

    #[test]
    fn all_cases_come_to_one_line() {
        let load = |others, stolen| {
            Some(MachineLoad {
                others_cpu_part: Some(others),
                stolen_cpu_part: Some(stolen),
                waiting_part: None,
            })
        };
        let loads = [load(0.004, 0.0), load(0.31, 0.0), load(0.06, 0.02), None];
        assert_eq!(
            line_of(&loads).as_deref(),
            Some(
                "The machine: other processes had 6.0 % of its CPU (median of 3 cases; at worst 31 %; \
                 more than 5.0 % in 2); its host kept 0 % of it (at worst 2.0 %)."
            )
        );
    }

    #[test]
    fn of_short_cases_nothing_is_said() {
        assert_eq!(line_of(&[None, None]), None);
        assert_eq!(line_of(&[Some(MachineLoad::default())]), None);
    }
}
