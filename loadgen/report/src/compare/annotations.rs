//! The worse lines of a comparison as GitHub workflow commands, which GitHub shows at the top of a
//! job and of a pull request.

use super::{Better, Comparison, Line, wording};

/// The maximal number of errors. A job's page shows few; the summary contains all.
const MAX_ERRORS: usize = 3;

/// Returns one command per line of text for the worst lines and for cases that are gone. Empty if
/// there are none.
#[must_use]
pub fn annotations(comparison: &Comparison) -> String {
    let cost = |line: &Line| {
        let ratio = line.estimate.map_or(1.0, |estimate| estimate.ratio);
        match line.metric.better() {
            Better::Lower => ratio,
            Better::Higher => 1.0 / ratio,
        }
    };
    let mut worse: Vec<&Line> = comparison.worse().collect();
    worse.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
    let worse = worse.into_iter().map(|line| {
        let title = format!("{} of {} is worse", line.metric, line.case);
        (title, wording::values(line))
    });
    let gone = comparison.gone.iter().map(|gone| {
        let title = format!("{} is gone", gone.case);
        (title, gone.reason.clone())
    });
    let errors = worse.chain(gone).take(MAX_ERRORS);
    errors
        .map(|(title, message)| command(&title, &message))
        .collect()
}

fn command(title: &str, message: &str) -> String {
    let data = |text: &str| {
        text.replace('%', "%25")
            .replace('\r', "%0D")
            .replace('\n', "%0A")
    };
    let title = data(title).replace(':', "%3A").replace(',', "%2C");
    format!("::error title={title}::{}\n", data(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_end_its_command() {
        assert_eq!(
            command("a:b, c", "1 %\n::error::x"),
            "::error title=a%3Ab%2C c::1 %25%0A::error::x\n"
        );
    }
}
