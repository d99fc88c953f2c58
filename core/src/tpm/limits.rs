//! What an answer says of token limits, in its headers and, where it refuses, in its words.

use std::time::UNIX_EPOCH;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{LONGEST_MS, SHORTEST_MS, UNSTATED_MS};
use crate::failure::Facts;
use crate::time::WallMs;

/// A part of a limit below which it counts as dry: an average request is refused.
const DRY_SHARE: f64 = 0.02;

/// The same where the limit itself is not stated, in tokens: no chat request is content with less.
const DRY_TOKENS: f64 = 100.0;

/// A part of a limit above which it counts as refilled. Well above [`DRY_SHARE`], or a route would go back
/// and forth.
const AMPLE_SHARE: f64 = 0.1;

/// The same where the limit itself is not stated.
const AMPLE_TOKENS: f64 = 2_000.0;

/// Headers of one limit: its size, what is left of it, when it is full again.
struct Names {
    limit: &'static str,
    remaining: &'static str,
    reset: &'static str,
}

const fn names(limit: &'static str, remaining: &'static str, reset: &'static str) -> Names {
    Names {
        limit,
        remaining,
        reset,
    }
}

/// Limits of requests are not among them: they say nothing of tokens.
const NAMES: [Names; 13] = [
    // OpenAI, Azure, Groq, xAI and most that are compatible.
    names(
        "x-ratelimit-limit-tokens",
        "x-ratelimit-remaining-tokens",
        "x-ratelimit-reset-tokens",
    ),
    names(
        "x-ratelimit-limit-project-tokens",
        "x-ratelimit-remaining-project-tokens",
        "x-ratelimit-reset-project-tokens",
    ),
    // Cerebras, Mistral.
    names(
        "x-ratelimit-limit-tokens-minute",
        "x-ratelimit-remaining-tokens-minute",
        "x-ratelimit-reset-tokens-minute",
    ),
    names(
        "x-ratelimit-limit-tokens-day",
        "x-ratelimit-remaining-tokens-day",
        "x-ratelimit-reset-tokens-day",
    ),
    names(
        "ratelimitbysize-limit",
        "ratelimitbysize-remaining",
        "ratelimitbysize-reset",
    ),
    // Fireworks.
    names(
        "x-ratelimit-limit-tokens-prompt",
        "x-ratelimit-remaining-tokens-prompt",
        "x-ratelimit-reset-tokens-prompt",
    ),
    names(
        "x-ratelimit-limit-tokens-generated",
        "x-ratelimit-remaining-tokens-generated",
        "x-ratelimit-reset-tokens-generated",
    ),
    // Together.
    names(
        "x-tokenlimit-limit",
        "x-tokenlimit-remaining",
        "x-tokenlimit-reset",
    ),
    // Anthropic.
    names(
        "anthropic-ratelimit-tokens-limit",
        "anthropic-ratelimit-tokens-remaining",
        "anthropic-ratelimit-tokens-reset",
    ),
    names(
        "anthropic-ratelimit-input-tokens-limit",
        "anthropic-ratelimit-input-tokens-remaining",
        "anthropic-ratelimit-input-tokens-reset",
    ),
    names(
        "anthropic-ratelimit-output-tokens-limit",
        "anthropic-ratelimit-output-tokens-remaining",
        "anthropic-ratelimit-output-tokens-reset",
    ),
    names(
        "anthropic-priority-input-tokens-limit",
        "anthropic-priority-input-tokens-remaining",
        "anthropic-priority-input-tokens-reset",
    ),
    names(
        "anthropic-priority-output-tokens-limit",
        "anthropic-priority-output-tokens-remaining",
        "anthropic-priority-output-tokens-reset",
    ),
];

/// Phrases of a rate limit that is about tokens, in lower case.
const OF_TOKENS: [&str; 9] = [
    "tokens per",
    "tokens_per",
    "tokens-per",
    "token rate limit",
    "token limit",
    "too many tokens",
    "too_many_tokens",
    "token_quota",
    "token_count",
];

/// Words that stand alone: as a part of another they mean nothing.
const OF_TOKENS_AS_WORDS: [&str; 2] = ["tpm", "tpd"];

/// One request asked for more than there ever is: nothing is said of what is left.
const OF_ONE_REQUEST: [&str; 2] = ["too large", "size limit"];

/// What an answer's headers say of token limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Whether one has run dry; none where nothing is stated, or it is neither dry nor ample.
    pub level: Option<Level>,
    /// When all of them are full again, in milliseconds from now; bounded.
    pub reset_ms: Option<u64>,
}

/// How a token limit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// There is too little left for a request.
    Dry {
        /// Until it is refilled; bounded.
        wait_ms: u64,
    },
    /// There is plenty left, of every limit that is stated.
    Ample,
}

/// How the names of all of them begin.
const FAMILIES: [&str; 5] = [
    "x-ratelimit-",
    "ratelimitbysize-",
    "x-tokenlimit-",
    "anthropic-ratelimit-",
    "anthropic-priority-",
];

impl Limits {
    /// Whether a header, by its name in lower case, may be of those that are read: most answers have none.
    #[must_use]
    pub fn may_tell(name: &str) -> bool {
        FAMILIES.iter().any(|family| name.starts_with(family))
    }

    /// Reads the headers of an answer. `header` looks one up by its name in lower case; `now` is the
    /// local wall clock, used for instants where the answer has no date of its own.
    #[must_use]
    pub fn read<'a>(header: impl Fn(&'static str) -> Option<&'a str>, now: WallMs) -> Self {
        let mut read = Self::default();
        let (mut dry_ms, mut ample, mut low) = (None, false, false);
        let mut clock = None;
        for names in &NAMES {
            let reset = header(names.reset).and_then(|text| {
                let now =
                    *clock.get_or_insert_with(|| header("date").map_or(now, |d| date(d, now)));
                reset_ms(text, now)
            });
            read.reset_ms = read.reset_ms.max(reset);
            let Some(remaining) = header(names.remaining).and_then(number) else {
                continue;
            };
            let limit = header(names.limit).and_then(number);
            match stands(remaining, limit) {
                Stands::Dry => dry_ms = dry_ms.max(Some(reset.unwrap_or(UNSTATED_MS))),
                Stands::Low => low = true,
                Stands::Ample => ample = true,
                Stands::Unlimited => {}
            }
        }
        read.level = match dry_ms {
            Some(wait_ms) => Some(Level::Dry { wait_ms }),
            None if ample && !low => Some(Level::Ample),
            None => None,
        };
        read
    }

    /// How long a rate limit that was answered with these headers backs its route off, in bounded
    /// milliseconds. `None` where it is about something else than tokens. `stated_ms` is the wait that
    /// the provider stated.
    #[must_use]
    pub fn refusal_ms(&self, facts: &Facts, stated_ms: Option<u64>) -> Option<u64> {
        let dry_ms = match self.level {
            Some(Level::Dry { wait_ms }) => Some(wait_ms),
            Some(Level::Ample) | None => None,
        };
        if dry_ms.is_none() && !speaks_of_tokens(facts) {
            return None;
        }
        let wait_ms = stated_ms.max(self.reset_ms).max(dry_ms);
        Some(
            wait_ms
                .unwrap_or(UNSTATED_MS)
                .clamp(SHORTEST_MS, LONGEST_MS),
        )
    }
}

/// How one limit stands.
enum Stands {
    Dry,
    Low,
    Ample,
    /// Some write -1 where there is no limit.
    Unlimited,
}

fn stands(remaining: f64, limit: Option<f64>) -> Stands {
    let (dry, ample) = match limit {
        Some(limit) if limit > 0.0 => (limit * DRY_SHARE, limit * AMPLE_SHARE),
        Some(_) => return Stands::Unlimited,
        None if remaining < 0.0 => return Stands::Unlimited,
        None => (DRY_TOKENS, AMPLE_TOKENS),
    };
    if remaining <= 0.0 || remaining < dry {
        Stands::Dry
    } else if remaining >= ample {
        Stands::Ample
    } else {
        Stands::Low
    }
}

/// Whether a rate limit is about tokens, by the provider's type, code or words.
fn speaks_of_tokens(facts: &Facts) -> bool {
    let kind = facts.kind.as_deref().unwrap_or_default();
    let code = facts.code.as_deref().unwrap_or_default();
    let said = format!("{kind} {code} {}", facts.message).to_ascii_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| said.contains(phrase));
    let says_word = |words: &[&str]| {
        said.split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| words.contains(&word))
    };
    let about_tokens = kind == "tokens" || says(&OF_TOKENS) || says_word(&OF_TOKENS_AS_WORDS);
    about_tokens && !says(&OF_ONE_REQUEST)
}

/// The answer's own date: a local clock that is off would put an instant anywhere.
fn date(text: &str, otherwise: WallMs) -> WallMs {
    let date = httpdate::parse_http_date(text.trim()).ok();
    let since = date.and_then(|date| date.duration_since(UNIX_EPOCH).ok());
    let ms = since.and_then(|since| u64::try_from(since.as_millis()).ok());
    ms.map_or(otherwise, WallMs)
}

/// Until a limit is full again: a duration (`1m30.5s`), a number of seconds, an instant as RFC 3339 or
/// in seconds or milliseconds since the Unix epoch.
fn reset_ms(text: &str, now: WallMs) -> Option<u64> {
    /// No limit takes 30 years to refill, and no instant of ours is before 2001.
    const FIRST_INSTANT_S: f64 = 1e9;
    const FIRST_INSTANT_MS: f64 = 1e12;
    let text = text.trim();
    let ahead = |instant_ms: f64| instant_ms - as_f64(now.0);
    let ms = match number(text) {
        Some(ms) if ms >= FIRST_INSTANT_MS => ahead(ms),
        Some(seconds) if seconds >= FIRST_INSTANT_S => ahead(seconds * 1_000.0),
        Some(seconds) => seconds * 1_000.0,
        None => duration_ms(text).or_else(|| instant_ms(text).map(ahead))?,
    };
    Some(bounded(ms))
}

/// Hours, minutes, seconds and their parts, as Go prints them.
fn duration_ms(text: &str) -> Option<f64> {
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let (count, more) = rest.split_at(rest.find(|c: char| c != '.' && !c.is_ascii_digit())?);
        let end = more.find(|c: char| c.is_ascii_digit());
        let (unit, more) = more.split_at(end.unwrap_or(more.len()));
        let factor = match unit.trim() {
            "ns" => 1e-6,
            "us" | "µs" => 1e-3,
            "ms" => 1.0,
            "s" => 1e3,
            "m" => 60e3,
            "h" => 3_600e3,
            "d" => 86_400e3,
            _ => return None,
        };
        total += number(count)? * factor;
        rest = more;
    }
    (!text.is_empty()).then_some(total)
}

fn instant_ms(text: &str) -> Option<f64> {
    let instant = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    let ms = instant.unix_timestamp_nanos() / 1_000_000;
    Some(as_f64(u64::try_from(ms).ok()?))
}

fn number(text: &str) -> Option<f64> {
    let number: f64 = text.trim().parse().ok()?;
    number.is_finite().then_some(number)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to a few minutes before"
)]
fn bounded(ms: f64) -> u64 {
    ms.clamp(as_f64(SHORTEST_MS), as_f64(LONGEST_MS)).ceil() as u64
}

#[expect(
    clippy::cast_precision_loss,
    reason = "milliseconds of any plausible instant are exact in an f64"
)]
const fn as_f64(ms: u64) -> f64 {
    ms as f64
}

#[cfg(test)]
mod tests;
