//! Wording that text and Markdown share: a ratio, its interval as a bar, and the end of a
//! comparison.

use super::{Comparison, End, Estimate, Line, Side, Verdict};
use crate::quantity::Quantity;

/// The width of a bar in characters.
const BAR: usize = 21;
/// The least upper end of a bar's axis. The lower end is its reciprocal.
const BAR_REACHES: f64 = 1.2;

/// Returns a ratio and its interval, with only as many digits as the interval justifies: `1.10
/// [1.07, 1.13]`. Without an interval it is the ratio alone.
pub(super) fn ratio(estimate: &Estimate) -> String {
    let Some(interval) = estimate.interval else {
        return number(estimate.ratio, 2);
    };
    let (lower, upper) = (interval.lower, interval.upper);
    let decimals = match upper - lower {
        width if width >= 10.0 => 0,
        width if width >= 1.0 => 1,
        width if width >= 0.01 => 2,
        _ => 3,
    };
    let [ratio, lower, upper] = [estimate.ratio, lower, upper].map(|it| number(it, decimals));
    format!("{ratio} [{lower}, {upper}]")
}

/// Returns both values and their ratio: `base 640 ms, new 832 ms, new/base 1.30 [1.27, 1.33]`.
pub(super) fn values(line: &Line) -> String {
    let value = |starts: &[f64]| {
        let value = Line::value(starts).map(|value| line.metric.quantity(value));
        Quantity::or_absent(value)
    };
    let ratio = line.estimate.as_ref().map(ratio);
    let ratio = ratio.map_or_else(String::new, |ratio| format!(", new/base {ratio}"));
    let (base, new) = (value(&line.base), value(&line.new));
    format!("base {base}, new {new}{ratio}")
}

/// Returns a number with so many decimals; below a tenth, with two significant digits.
fn number(value: f64, decimals: usize) -> String {
    if value <= 0.0 || value >= 0.1 {
        return format!("{value:.decimals$}");
    }
    let zeros = (-value.log10()).ceil() as usize;
    format!("{value:.*}", zeros + 1)
}

/// Returns a change as a percentage, without digits that are rounding errors.
pub(super) fn percent(part: f64) -> String {
    format!("{} %", (part * 1e5).round() / 1e3)
}

/// Returns a side's description in one line.
pub(super) fn side(side: &Side) -> String {
    let Side {
        targets,
        programs,
        runs,
        first,
        last,
        commits,
        machines: _,
    } = side;
    let mut words = vec![targets.join(", ")];
    words.extend((!programs.is_empty()).then(|| programs.join(", ")));
    words.push(match runs {
        1 => format!("one run, {first}"),
        _ => format!("{runs} runs, {first} to {last}"),
    });
    words.extend((!commits.is_empty()).then(|| format!("commit {}", commits.join(", "))));
    words.join("; ")
}

/// Returns the machines of both sides, where they are known. There are several only where that was
/// allowed.
pub(super) fn machines(comparison: &Comparison) -> Option<String> {
    let (base, new) = (&comparison.base.machines, &comparison.new.machines);
    let mut machines = base.clone();
    machines.extend(new.iter().filter(|it| !base.contains(it)).cloned());
    (!machines.is_empty()).then(|| machines.join("; "))
}

/// Returns what a reader should do next; `None` where nothing needs to be done, or where the
/// headline contains it.
pub(super) fn next_step(comparison: &Comparison) -> Option<&'static str> {
    let is_worse = comparison.worse().next().is_some();
    match comparison.end() {
        End::Worse if is_worse => Some(
            "Measure again what is ▲ worse before acting on it (`loadgen ab --confirm` does): of \
             many lines one may be worse by chance.",
        ),
        End::Worse => Some("See below what the new side no longer does."),
        End::CannotTell if !comparison.not_comparable.is_empty() => {
            Some("See below what cannot be compared, and why.")
        }
        End::CannotTell | End::Within => None,
    }
}

/// Returns the target of a line, or both targets where they differ.
pub(super) fn targets(line: &Line) -> String {
    match line.base_target == line.new_target {
        true => line.new_target.clone(),
        false => format!("{} → {}", line.base_target, line.new_target),
    }
}

/// Returns the end of the comparison in one or two sentences.
pub(super) fn headline(comparison: &Comparison) -> String {
    let deciding = comparison.deciding().count();
    let count = |is_so: &dyn Fn(&&Line) -> bool| comparison.deciding().filter(is_so).count();
    let worse = count(&|line| line.is_within == Some(false));
    let open = count(&|line| line.is_within.is_none());
    let better = count(&|line| line.verdict == Verdict::Better);
    let limit = comparison.fail_above.map_or_else(String::new, |limit| {
        format!(" by {} or more", percent(limit))
    });
    let mut parts = Vec::new();
    if worse > 0 {
        parts.push(format!(
            "{worse} of {deciding} deciding metrics worse{limit}"
        ));
    }
    let gone = comparison.gone.len();
    if gone > 0 {
        parts.push(format!("{gone} of the base's cases gone"));
    }
    if open > 0 {
        parts.push(format!(
            "{open} of {deciding} deciding metrics cannot be told"
        ));
    }
    let unjudged = comparison.not_comparable.len();
    if unjudged > 0 {
        parts.push(format!("{unjudged} not comparable"));
    }
    for metric in &comparison.absent {
        parts.push(format!("no {metric} in both"));
    }
    if deciding == 0 && comparison.absent.is_empty() {
        parts.push("nothing to decide by".to_owned());
    }
    if better > 0 {
        parts.push(format!("{better} better"));
    }
    let end = match comparison.end() {
        End::Worse => "WORSE",
        End::CannotTell => "CANNOT TELL",
        End::Within => {
            parts.insert(
                0,
                format!("none of {deciding} deciding metrics is worse{limit}"),
            );
            "OK"
        }
    };
    let advice = match more_starts(comparison) {
        Some(more) if comparison.end() == End::CannotTell => {
            format!(". To decide most of them, measure about {more} more starts per side")
        }
        _ => String::new(),
    };
    format!("{end}: {}{advice}.", parts.join("; "))
}

/// Returns how many more starts per side would yield a verdict for about half of the undecided
/// deciding lines; `None` where that is not known for any of them.
fn more_starts(comparison: &Comparison) -> Option<usize> {
    let open = comparison
        .deciding()
        .filter(|line| line.is_within.is_none());
    let needed = open.filter_map(|line| line.verdict.reason()?.more_starts());
    let mut needed: Vec<usize> = needed.collect();
    needed.sort_unstable();
    needed.get(needed.len() / 2).copied()
}

/// The axis that all bars of a table share. It is logarithmic and symmetrical about 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    reaches: f64,
}

impl Axis {
    /// Returns an axis that contains nine of ten ratios. The others are drawn at its ends.
    pub(super) fn of<'a>(lines: impl Iterator<Item = &'a Line>) -> Self {
        let estimates = lines.filter_map(|line| line.estimate);
        let mut distances: Vec<f64> = estimates
            .map(|estimate| estimate.ratio.ln().abs())
            .filter(|distance| distance.is_finite())
            .collect();
        distances.sort_by(f64::total_cmp);
        let most = distances.get(distances.len() * 9 / 10).copied();
        Self {
            reaches: (1.3 * most.unwrap_or_default()).max(BAR_REACHES.ln()),
        }
    }

    /// Returns the interval as characters: `·····┊·├─●─┤·······`, `┊` at 1.
    pub(super) fn bar(self, estimate: &Estimate) -> String {
        let middle = BAR / 2;
        let at = |ratio: f64| {
            let part = (ratio.ln() / self.reaches).clamp(-1.0, 1.0);
            (middle as f64 * (1.0 + part)).round() as usize
        };
        let mut bar = vec!['·'; BAR];
        bar[middle] = '┊';
        if let Some(interval) = estimate.interval {
            let (lower, upper) = (at(interval.lower), at(interval.upper));
            bar[lower..=upper].fill('─');
            (bar[lower], bar[upper]) = ('├', '┤');
        }
        bar[at(estimate.ratio)] = '●';
        bar.into_iter().collect()
    }

    /// Returns the ratios at both ends: `0.83 … 1.20`, `0.0029 … 339`.
    pub(super) fn label(self) -> String {
        let end = self.reaches.exp();
        let decimals = if end < 10.0 { 2 } else { 0 };
        format!("{} … {}", number(1.0 / end, 2), number(end, decimals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Interval, Method};

    fn estimate(ratio: f64, interval: Option<(f64, f64)>) -> Estimate {
        Estimate {
            ratio,
            interval: interval.map(|(lower, upper)| Interval {
                lower,
                upper,
                level: 0.95,
            }),
            p_value: None,
            method: Method::Paired,
            base_starts: 6,
            new_starts: 6,
        }
    }

    #[test]
    fn digits_follow_the_interval() {
        let text = |value, interval| ratio(&estimate(value, interval));
        assert_eq!(text(1.1015, Some((1.0686, 1.1386))), "1.10 [1.07, 1.14]");
        assert_eq!(text(1.0001, Some((0.9996, 1.0004))), "1.000 [1.000, 1.000]");
        assert_eq!(text(10.2, Some((8.4, 12.3))), "10.2 [8.4, 12.3]");
        assert_eq!(text(100.2, Some((84.0, 123.0))), "100 [84, 123]");
        assert_eq!(
            text(0.000_512, Some((0.000_48, 0.000_55))),
            "0.00051 [0.00048, 0.00055]"
        );
        assert_eq!(text(1.234, None), "1.23");
        assert_eq!(percent(0.1), "10 %");
        assert_eq!(percent(0.07), "7 %");
        assert_eq!(percent(0.025), "2.5 %");
    }

    #[test]
    fn a_bar_has_its_interval_where_the_axis_has_it() {
        let axis = Axis {
            reaches: 2.0_f64.ln(),
        };
        assert_eq!(axis.bar(&estimate(1.0, None)), "··········●··········");
        let slower = axis.bar(&estimate(1.41, Some((1.2, 1.7))));
        assert_eq!(slower, "··········┊··├─●──┤··");
        let outside = axis.bar(&estimate(9.0, Some((0.01, 10.0))));
        assert_eq!(outside, "├───────────────────●");
        assert_eq!(axis.label(), "0.50 … 2.00");
        let wide = Axis {
            reaches: 339.0_f64.ln(),
        };
        assert_eq!(wide.label(), "0.0029 … 339");
    }
}
