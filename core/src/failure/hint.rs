//! How long a provider asks to be left alone.
//!
//! Three sources count, in this order: `google.rpc.RetryInfo` in the body, `retry-after-ms`,
//! `Retry-After`. Prose never does, nor do headers that say when a limit refills: they say nothing
//! about when this request may come again.

use std::time::{Duration, UNIX_EPOCH};

use super::facts::Facts;
use crate::time::WallMs;

/// The shortest and the longest wait that is believed, in milliseconds.
pub const BOUNDS_MS: (u64, u64) = (1_000, 300_000);

/// The wait the provider stated, clamped to 1 s..5 min. `now` is the local wall clock, for dates.
#[must_use]
pub fn stated_wait_ms(facts: &Facts, now: WallMs) -> Option<u64> {
    let waits = &facts.waits;
    let from_body = waits.retry_info.iter().find_map(|delay| duration_ms(delay));
    from_body
        .or_else(|| waits.retry_after_ms.as_deref().and_then(decimal))
        .or_else(|| {
            let text = waits.retry_after.as_deref()?;
            seconds_ms(text).or_else(|| date_ms(text, now))
        })
        .map(clamp)
}

/// `39s`, `1.5s`.
fn duration_ms(text: &str) -> Option<f64> {
    seconds_ms(text.trim().strip_suffix('s')?)
}

fn seconds_ms(text: &str) -> Option<f64> {
    decimal(text).map(|seconds| seconds * 1_000.0)
}

/// Digits with at most one point, or the infinities that some clients print. Never NaN.
fn decimal(text: &str) -> Option<f64> {
    text.trim()
        .parse::<f64>()
        .ok()
        .filter(|number| !number.is_nan())
}

/// An HTTP date, as milliseconds from now; negative where it is past.
fn date_ms(text: &str, now: WallMs) -> Option<f64> {
    let date = httpdate::parse_http_date(text.trim()).ok()?;
    let now = UNIX_EPOCH.checked_add(Duration::from_millis(now.0))?;
    let ms = match date.duration_since(now) {
        Ok(ahead) => ahead.as_secs_f64() * 1_000.0,
        Err(past) => -past.duration().as_secs_f64() * 1_000.0,
    };
    Some(ms)
}

/// Bounds before converting, so that no value overflows.
fn clamp(ms: f64) -> u64 {
    let (shortest, longest) = BOUNDS_MS;
    let (low, high) = (
        Duration::from_millis(shortest),
        Duration::from_millis(longest),
    );
    let seconds = (ms / 1_000.0).clamp(low.as_secs_f64(), high.as_secs_f64());
    // A whole number of milliseconds must not lose one to the division.
    let micros = Duration::from_secs_f64(seconds).as_micros() + 1;
    u64::try_from(micros / 1_000)
        .unwrap_or(longest)
        .clamp(shortest, longest)
}
