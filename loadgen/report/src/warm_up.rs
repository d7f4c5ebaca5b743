//! A line about the warm-up: how many lists it took.

use crate::case_text;
use crate::result::Case;

/// The maximal number of cases that the line names. If there are more, it contains only their
/// number.
const NAMED: usize = 4;

/// Returns how many lists it took until time and memory were steady, and the cases in which they
/// were not; `None` where no case was warmed up in this way.
#[must_use]
pub fn line<'a>(cases: impl Iterator<Item = &'a Case>) -> Option<String> {
    let warmed = cases.filter_map(|case| {
        let warm_up = case.warm_up?;
        Some((case, warm_up, warm_up.stands_still?))
    });
    let warmed: Vec<_> = warmed.collect();
    let lists = || warmed.iter().map(|(_, warm_up, _)| warm_up.lists);
    let (least, most) = (lists().min()?, lists().max()?);
    let restless = warmed.iter().filter(|(.., stands_still)| !stands_still);
    let restless: Vec<String> = restless
        .map(|(case, ..)| format!("{} {}", case.target, case_text::strategy(case)))
        .collect();
    let lists = match least == most {
        true => least.to_string(),
        false => format!("{least} to {most}"),
    };
    let beginning = format!(
        "Warm-up: {lists} lists a case, until time (10 %) and peak memory (2 %) stood still"
    );
    Some(match restless.len() {
        0 => format!("{beginning}, which they did in each."),
        n if n <= NAMED => format!("{beginning}; they did not in {}.", restless.join(", ")),
        n => format!("{beginning}; they did not in {n} of {}.", warmed.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Outcome, WarmUp};
    use workloads::strategy::Tier;

    fn case(lists: u32, stands_still: Option<bool>) -> Case {
        let mut case = Case::new("pods", "etcd", Tier::Etcd, "unary", Outcome::Measured);
        case.warm_up = Some(WarmUp {
            lists,
            s: 1.0,
            stands_still,
        });
        case
    }

    #[test]
    fn cases_that_never_stood_still_are_named() {
        let line_of = |cases: &[Case]| line(cases.iter());
        let warm = [case(3, Some(true)), case(7, Some(true)), case(1, None)];
        let beginning =
            "Warm-up: 3 to 7 lists a case, until time (10 %) and peak memory (2 %) stood still";
        let text = format!("{beginning}, which they did in each.");
        assert_eq!(line_of(&warm), Some(text));
        let mut restless = warm.to_vec();
        restless[1].warm_up = case(7, Some(false)).warm_up;
        let text = format!("{beginning}; they did not in etcd unary.");
        assert_eq!(line_of(&restless), Some(text));
        let many = vec![case(7, Some(false)); NAMED + 1];
        assert!(line_of(&many).is_some_and(|line| line.ends_with("they did not in 5 of 5.")));
        assert_eq!(line_of(&warm[2..]), None, "as many as the scenario says");
    }
}
