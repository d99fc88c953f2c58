//! Verdicts and how they are told.

/// What became of one promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    promise: &'static str,
    kept: bool,
    /// What was measured, or what went wrong.
    figures: String,
}

/// All verdicts of a story.
#[derive(Clone, Debug, Default)]
pub struct Verdicts(Vec<Verdict>);

impl Verdict {
    pub(super) fn new(promise: &'static str, outcome: anyhow::Result<String>) -> Self {
        let kept = outcome.is_ok();
        let figures = outcome.unwrap_or_else(|error| format!("{error:#}"));
        Self {
            promise,
            kept,
            figures,
        }
    }

    /// The promise, whether it was kept, and the figures.
    #[must_use]
    pub fn line(&self) -> String {
        let word = if self.kept { "ok    " } else { "FAILED" };
        format!("{word} {}: {}", self.promise, self.figures)
    }
}

impl Verdicts {
    pub(super) fn push(&mut self, verdict: Verdict) {
        self.0.push(verdict);
    }

    /// Whether every promise was kept.
    #[must_use]
    pub fn all_kept(&self) -> bool {
        self.0.iter().all(|verdict| verdict.kept)
    }

    /// How many were kept.
    #[must_use]
    pub fn summary(&self) -> String {
        let kept = self.0.iter().filter(|verdict| verdict.kept).count();
        format!("{kept} of {} promises kept", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_broken_promise_is_enough() {
        let mut verdicts = Verdicts::default();
        verdicts.push(Verdict::new("it runs", Ok("in 1 s".to_owned())));
        assert!(verdicts.all_kept());
        verdicts.push(Verdict::new(
            "it stays",
            Err(anyhow::anyhow!("gone").context("n1")),
        ));
        assert!(!verdicts.all_kept());
        assert_eq!(verdicts.summary(), "1 of 2 promises kept");
        assert_eq!(verdicts.0[1].line(), "FAILED it stays: n1: gone");
    }
}
