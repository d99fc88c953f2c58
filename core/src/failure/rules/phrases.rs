//! What providers write where they expose nothing better, in lower case.
//!
//! Each is narrow enough not to fire on its neighbours: "context limit", "capacity exceeded",
//! "too many connections", "rate-limited" and "billing details" mean something else.

use std::iter;
use std::sync::OnceLock;

use aho_corasick::packed::Searcher;

/// Phrases that mean the same, all looked for in one pass over a message.
pub(super) struct Phrases {
    all: &'static [&'static str],
    /// Made when it is first needed. `None` where the processor has no vectors for it.
    search: OnceLock<Option<Searcher>>,
}

impl Phrases {
    pub(super) const fn new(all: &'static [&'static str]) -> Self {
        Self {
            all,
            search: OnceLock::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> &'static [&'static str] {
        self.all
    }

    /// Whether one of them is in `message`.
    pub(super) fn are_in(&self, message: &str) -> bool {
        self.first_end(message).is_some()
    }

    /// What follows each of them in `message`.
    pub(super) fn tails<'m>(&self, message: &'m str) -> impl Iterator<Item = &'m str> {
        let mut rest = message;
        iter::from_fn(move || {
            rest = rest.get(self.first_end(rest)?..)?;
            Some(rest)
        })
    }

    /// Where the first of them ends.
    fn first_end(&self, message: &str) -> Option<usize> {
        if let Some(search) = self.search() {
            return search.find(message).map(|found| found.end());
        }
        let ends = self.all.iter().filter_map(|phrase| {
            let start = message.find(phrase)?;
            Some((start, start + phrase.len()))
        });
        ends.min().map(|(_, end)| end)
    }

    fn search(&self) -> Option<&Searcher> {
        let search = || Searcher::new(self.all);
        self.search.get_or_init(search).as_ref()
    }
}

/// The account is out of credit or over a cap.
pub(super) static QUOTA: Phrases = Phrases::new(&[
    "credit balance",
    "spend limit",
    "api usage limits",
    "prepayment credits",
    "credits are depleted",
    "spending cap",
    "requires billing to be enabled",
    "key limit exceeded",
    "account is not active",
]);

/// Too much for now.
pub(super) static RATE: Phrases = Phrases::new(&[
    "rate limit",
    "rate_limit",
    "ratelimit",
    "too many requests",
    "too_many_requests",
    "quota exceeded",
    "quota_exceeded",
    "request limit",
    "throttled",
    "throttling",
    "rate exceeded",
    "limit exceeded",
    "requests per",
    "rpm exceeded",
    "tpm exceeded",
    "tokens per minute",
    "usage limit",
    "concurrent requests limit",
    "burst_rate",
    "rate increased",
]);

/// The location is refused.
pub(super) static REGION: Phrases = Phrases::new(&[
    "unsupported countries",
    "location is not supported",
    "not available in your country",
]);

/// The key itself is refused.
pub(super) static KEY: Phrases = Phrases::new(&[
    "api key not valid",
    "api_key_invalid",
    "api key expired",
    "api key is valid",
    "invalid api key",
    "security token",
]);

/// The model went away.
pub(super) static RETIREMENT: Phrases = Phrases::new(&[
    "deprecated",
    "deprecation",
    "decommissioned",
    "retired",
    "end of its life",
    "end-of-life",
    "no longer available",
    "was removed",
    "has been removed",
]);

/// A guardrail refused this request's content. A block of the whole account speaks of a policy as
/// well, so that word is not among them.
pub(super) static MODERATION: Phrases = Phrases::new(&[
    "moderation",
    "guardrail",
    "safety_check",
    "violates usage guidelines",
    "input was flagged",
    "prompt was flagged",
    "content was flagged",
    "request was flagged",
]);

/// An AWS exception about how a request names its model.
pub(super) static USE_OF_MODEL: Phrases =
    Phrases::new(&["model id", "on-demand throughput", "inference profile"]);
