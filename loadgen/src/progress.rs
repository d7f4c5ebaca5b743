//! Shows progress to people on standard error: bars on a terminal, plain lines otherwise.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::live::LiveLoads;

/// Redraws per second of a bar.
const REDRAWS_HZ: u8 = 8;
/// The interval between reports on loads: on a terminal, where each replaces the last, and in plain
/// lines.
const TOLD_EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// The unit that a phase counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Objects written or read.
    Objects,
    /// Whole lists.
    Lists,
    /// Rounds, in each of which every worker has one turn.
    Rounds,
    /// Puts that must be delivered to watchers.
    Puts,
    /// Small requests: they end after a time, so there is no total to show.
    Requests,
    /// Writes of watched objects: likewise without a total.
    Writes,
    /// Namespaces removed.
    Namespaces,
}

/// The progress output of a run. Clones share the terminal.
#[derive(Debug, Clone)]
pub struct Progress {
    bars: Option<MultiProgress>,
    quiet: bool,
    loads: LiveLoads,
}

/// A phase that is shown. If it is dropped without [`Phase::done`], it leaves no line.
#[derive(Debug, Clone)]
pub struct Phase {
    bar: ProgressBar,
    progress: Progress,
    title: String,
}

impl Progress {
    /// Returns an output with bars if standard error is a terminal that can redraw, and with lines
    /// otherwise. Without colours if `NO_COLOR` is set.
    #[must_use]
    pub fn new() -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        let can_redraw = std::io::stderr().is_terminal() && !is_dumb;
        let target = || ProgressDrawTarget::stderr_with_hz(REDRAWS_HZ);
        let bars = can_redraw.then(|| MultiProgress::with_draw_target(target()));
        Self {
            bars,
            quiet: false,
            loads: LiveLoads::default(),
        }
    }

    /// Returns an output that prints nothing: for tests and benches.
    #[must_use]
    pub fn silent() -> Self {
        Self {
            bars: None,
            quiet: true,
            loads: LiveLoads::default(),
        }
    }

    /// Returns the loads that have begun, for callers that show them while they run.
    #[must_use]
    pub fn loads(&self) -> &LiveLoads {
        &self.loads
    }

    /// Begins a phase with `total` units. Counting is cheap enough per chunk, not per object.
    #[must_use]
    pub fn phase(&self, title: &str, total: u64, counted: Counted) -> Phase {
        let bar = match &self.bars {
            Some(bars) => bars.add(ProgressBar::new(total)),
            None => ProgressBar::hidden(),
        };
        bar.set_length(total);
        bar.set_style(style(counted));
        bar.set_prefix(title.to_owned());
        if self.bars.is_some() {
            bar.enable_steady_tick(Duration::from_secs(1) / u32::from(REDRAWS_HZ));
        } else {
            self.say(&format!("{title} …"));
        }
        Phase {
            bar,
            progress: self.clone(),
            title: title.to_owned(),
        }
    }

    /// Prints a permanent line.
    pub fn say(&self, line: &str) {
        match &self.bars {
            _ if self.quiet => {}
            // A closed terminal must not end the run.
            Some(bars) => bars.println(line).unwrap_or_default(),
            None => eprintln!("{line}"),
        }
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Phase {
    /// Adds `by` to the count.
    pub fn advance(&self, by: u64) {
        self.bar.inc(by);
    }

    /// Returns the count.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.bar.position()
    }

    /// Returns the interval at which to call [`Self::tell`].
    #[must_use]
    pub fn told_every(&self) -> Duration {
        match self.progress.bars {
            Some(_) => TOLD_EVERY.0,
            None => TOLD_EVERY.1,
        }
    }

    /// Reports the state `seconds` after the beginning of the phase: in the bar, or as a permanent
    /// line.
    pub fn tell(&self, seconds: u64, text: &str) {
        match self.progress.bars {
            Some(_) => self.bar.set_message(text.to_owned()),
            None => self
                .progress
                .say(&format!("{}: {seconds} s: {text}", self.title)),
        }
    }

    /// Ends the phase and prints a permanent line: its title and the outcome.
    pub fn done(self, outcome: &str) {
        self.bar.finish_and_clear();
        self.progress.say(&format!("{}: {outcome}", self.title));
    }
}

fn style(counted: Counted) -> ProgressStyle {
    let bar = "{bar:28.cyan} {human_pos}/{human_len}";
    let count = match counted {
        Counted::Objects => format!("{bar} objects, {{per_sec}}"),
        Counted::Lists => format!("{bar} lists"),
        Counted::Rounds => format!("{bar} rounds"),
        Counted::Puts => format!("{bar} puts"),
        Counted::Requests => "requests".to_owned(),
        Counted::Writes => "writes".to_owned(),
        Counted::Namespaces => format!("{bar} namespaces"),
    };
    let template = format!("{{spinner}} {{prefix:<40!}} {count} {{elapsed}} {{wide_msg}}");
    ProgressStyle::with_template(&template).expect("the template is constant but for its count")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_is_well_formed_and_counts() {
        for counted in [
            Counted::Objects,
            Counted::Lists,
            Counted::Rounds,
            Counted::Puts,
            Counted::Requests,
            Counted::Writes,
            Counted::Namespaces,
        ] {
            let phase = Progress::silent().phase("seeding", 10, counted);
            phase.advance(4);
            phase.clone().advance(3);
            assert_eq!(phase.position(), 7);
            phase.done("7 of 10");
        }
    }
}
