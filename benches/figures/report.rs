//! The figures, as lines while they are measured and as a table at the end.

use std::fmt::Write as _;
use std::time::Duration;

/// One measured figure.
#[derive(Debug)]
pub(crate) struct Figure {
    name: String,
    measured: String,
    aim: Option<Aim>,
}

#[derive(Debug)]
struct Aim {
    words: String,
    is_met: bool,
}

/// All of them, in the order in which they were measured.
#[derive(Debug)]
pub(crate) struct Report {
    machine: String,
    figures: Vec<Figure>,
}

impl Figure {
    /// A figure that only informs.
    pub(crate) fn new(name: impl Into<String>, measured: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            measured: measured.into(),
            aim: None,
        }
    }

    /// The same with the aim it has.
    pub(crate) fn aim(mut self, words: impl Into<String>, is_met: bool) -> Self {
        self.aim = Some(Aim {
            words: words.into(),
            is_met,
        });
        self
    }

    /// A count whose aim is zero.
    pub(crate) fn none_of(name: impl Into<String>, count: usize, of: &str) -> Self {
        Self::new(name, format!("{count} ({of})")).aim("0", count == 0)
    }

    fn row(&self) -> String {
        let (aim, verdict) = match &self.aim {
            Some(aim) => (aim.words.as_str(), if aim.is_met { "yes" } else { "NO" }),
            None => ("", ""),
        };
        format!("| {} | {} | {aim} | {verdict} |", self.name, self.measured)
    }
}

impl Report {
    /// An empty one that names this machine.
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
        Self {
            machine: format!(
                "{cores} cores, {} {}",
                std::env::consts::OS,
                std::env::consts::ARCH
            ),
            figures: Vec::new(),
        }
    }

    /// Takes one in and shows it.
    pub(crate) fn add(&mut self, figure: Figure) {
        say(&figure.row());
        self.figures.push(figure);
    }

    /// The whole table, in Markdown.
    pub(crate) fn table(&self) -> String {
        let mut table = format!(
            "Measured on {}.\n\n| figure | measured | aim | met |\n| --- | --- | --- | --- |\n",
            self.machine
        );
        for figure in &self.figures {
            let _ = writeln!(table, "{}", figure.row());
        }
        table
    }
}

/// A duration with three digits.
pub(crate) fn shown(duration: Duration) -> String {
    let us = duration.as_micros();
    match us {
        0..1_000 => format!("{us} us"),
        1_000..10_000 => format!("{:.2} ms", duration.as_secs_f64() * 1e3),
        10_000..1_000_000 => format!("{:.0} ms", duration.as_secs_f64() * 1e3),
        1_000_000.. => format!("{:.2} s", duration.as_secs_f64()),
    }
}

#[expect(
    clippy::print_stdout,
    reason = "a benchmark's result is for its terminal"
)]
pub(crate) fn say(line: &str) {
    println!("{line}");
}
