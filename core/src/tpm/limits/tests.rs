//! What is read from headers and words, and what is not.

use proptest::prelude::*;

use super::*;
use crate::failure::Headers;

/// 2026-11-30T13:00:00Z.
const NOW: WallMs = WallMs(1_796_043_600_000);

fn read(headers: &[(&str, &str)]) -> Limits {
    Limits::read(
        |wanted| headers.iter().find(|(n, _)| *n == wanted).map(|(_, v)| *v),
        NOW,
    )
}

fn openai(remaining: &str, reset: &str) -> Limits {
    read(&[
        ("x-ratelimit-limit-tokens", "30000"),
        ("x-ratelimit-remaining-tokens", remaining),
        ("x-ratelimit-reset-tokens", reset),
    ])
}

fn dry(wait_ms: u64) -> Option<Level> {
    Some(Level::Dry { wait_ms })
}

#[test]
fn a_limit_is_dry_before_nothing_is_left_and_ample_well_above() {
    for remaining in ["0", "-3", "599", "12.5"] {
        assert_eq!(
            openai(remaining, "1m30.5s").level,
            dry(90_500),
            "{remaining}"
        );
    }
    for remaining in ["600", "2999"] {
        assert_eq!(openai(remaining, "1m30.5s").level, None, "{remaining}");
    }
    for remaining in ["3000", "30000"] {
        assert_eq!(openai(remaining, "6ms").level, Some(Level::Ample));
    }
}

#[test]
fn without_a_limit_a_few_tokens_are_none() {
    let left = |count| read(&[("x-ratelimit-remaining-tokens", count)]).level;
    assert_eq!(left("0"), dry(UNSTATED_MS));
    assert_eq!(left("99"), dry(UNSTATED_MS));
    assert_eq!(left("1500"), None);
    assert_eq!(left("2000"), Some(Level::Ample));
    assert_eq!(left("-1"), None, "some write it where there is no limit");
    assert_eq!(left("many"), None);
}

#[test]
fn what_has_no_limit_does_not_run_dry() {
    let unlimited = read(&[
        ("x-ratelimit-limit-tokens", "0"),
        ("x-ratelimit-remaining-tokens", "0"),
    ]);
    assert_eq!(unlimited.level, None);
}

#[test]
fn every_way_to_write_a_reset_is_read() {
    let cases = [
        ("20s", 20_000),
        ("1m", 60_000),
        ("1m30.5s", 90_500),
        ("2m59.56s", 179_560),
        ("1500ms", 1_500),
        ("0h1m0s", 60_000),
        ("42.3", 42_300),
        ("12", 12_000),
        (" 7.66s ", 7_660),
        // Instants: RFC 3339 in any zone, seconds and milliseconds of the Unix epoch.
        ("2026-11-30T13:00:30Z", 30_000),
        ("2026-11-30T14:00:30+01:00", 30_000),
        ("2026-11-30T13:00:30.250Z", 30_250),
        ("1796043620", 20_000),
        ("1796043620000", 20_000),
        // Bounded.
        ("6ms", SHORTEST_MS),
        ("0s", SHORTEST_MS),
        ("-5", SHORTEST_MS),
        ("2020-01-01T00:00:00Z", SHORTEST_MS),
        ("24h", LONGEST_MS),
        ("9999999999999999999999", LONGEST_MS),
        ("2030-01-01T00:00:00Z", LONGEST_MS),
        // Not read: the window that these limits are named for.
        ("soon", UNSTATED_MS),
        ("", UNSTATED_MS),
        ("1m30", UNSTATED_MS),
        ("s", UNSTATED_MS),
        ("1.2.3s", UNSTATED_MS),
        ("inf", UNSTATED_MS),
        ("NaN", UNSTATED_MS),
    ];
    for (text, wait_ms) in cases {
        assert_eq!(openai("0", text).level, dry(wait_ms), "{text:?}");
    }
}

#[test]
fn an_instant_is_counted_from_the_answers_own_date() {
    let read = read(&[
        ("date", "Mon, 30 Nov 2026 15:00:00 GMT"),
        ("anthropic-ratelimit-tokens-limit", "80000"),
        ("anthropic-ratelimit-tokens-remaining", "0"),
        ("anthropic-ratelimit-tokens-reset", "2026-11-30T15:00:21Z"),
    ]);
    assert_eq!(read.level, dry(21_000), "whatever the local clock says");
}

#[test]
fn the_driest_of_several_limits_counts() {
    let anthropic = |input: &'static str, output: &'static str| {
        read(&[
            ("anthropic-ratelimit-input-tokens-limit", "40000"),
            ("anthropic-ratelimit-input-tokens-remaining", input),
            (
                "anthropic-ratelimit-input-tokens-reset",
                "2026-11-30T13:00:10Z",
            ),
            ("anthropic-ratelimit-output-tokens-limit", "8000"),
            ("anthropic-ratelimit-output-tokens-remaining", output),
            (
                "anthropic-ratelimit-output-tokens-reset",
                "2026-11-30T13:00:40Z",
            ),
        ])
        .level
    };
    assert_eq!(anthropic("39000", "8000"), Some(Level::Ample));
    assert_eq!(anthropic("39000", "0"), dry(40_000));
    assert_eq!(anthropic("0", "8000"), dry(10_000));
    assert_eq!(anthropic("0", "0"), dry(40_000));
    assert_eq!(anthropic("39000", "400"), None, "one of them is low");
}

#[test]
fn every_family_of_headers_is_read() {
    for names in &NAMES {
        for name in [names.limit, names.remaining, names.reset] {
            assert!(Limits::may_tell(name), "{name}");
        }
        let read = read(&[
            (names.limit, "1000"),
            (names.remaining, "0"),
            (names.reset, "20"),
        ]);
        assert_eq!(read.level, dry(20_000), "{}", names.remaining);
    }
}

#[test]
fn ordinary_headers_are_told_from_limits() {
    for name in ["date", "content-type", "retry-after", "x-request-id"] {
        assert!(!Limits::may_tell(name), "{name}");
    }
}

#[test]
fn limits_of_requests_say_nothing() {
    let read = read(&[
        ("x-ratelimit-limit-requests", "500"),
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "20s"),
    ]);
    assert_eq!(read, Limits::default());
}

fn refusal(body: &str, limits: Limits, stated_ms: Option<u64>) -> Option<u64> {
    let facts = Facts::from_answer("openai", 429, Headers::default(), body.as_bytes());
    limits.refusal_ms(&facts, stated_ms)
}

#[test]
fn a_rate_limit_is_about_tokens_if_it_says_so() {
    let about_tokens = [
        r#"{"error":{"type":"tokens","code":"rate_limit_exceeded","message":"Rate limit reached."}}"#,
        r#"{"error":{"message":"Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000"}}"#,
        r#"{"error":{"message":"The TPM of this deployment is used up."}}"#,
        r#"{"error":{"code":"429","message":"Requests have exceeded the token rate limit of your tier."}}"#,
        r#"{"error":{"type":"rate_limit_error","message":"This request would exceed your limit of 40,000 input tokens per minute."}}"#,
        r#"{"message":"Too many tokens per day, please wait before trying again."}"#,
        r#"{"message":"slow down","type":"too_many_tokens_error","code":"token_quota_exceeded"}"#,
        r#"{"error":{"status":"RESOURCE_EXHAUSTED","message":"Quota exceeded for online_prediction_input_tokens_per_minute_per_base_model"}}"#,
        r#"{"error":{"message":"Quota exceeded for metric: generate_content_free_tier_input_token_count"}}"#,
    ];
    for body in about_tokens {
        let waits = |stated| refusal(body, Limits::default(), stated);
        assert_eq!(waits(Some(20_000)), Some(20_000), "{body}");
        assert_eq!(waits(None), Some(UNSTATED_MS), "{body}");
    }
    let about_others = [
        r#"{"error":{"type":"requests","message":"Rate limit reached for gpt-4o on requests per min (RPM)"}}"#,
        r#"{"error":{"message":"Too many concurrent requests; httpmethod POST"}}"#,
        r#"{"error":{"type":"tokens","message":"Request too large for gpt-4o on tokens per min (TPM): Limit 6000, Requested 10338"}}"#,
        r#"{"message":"too many tokens: size limit exceeded by 11326 tokens"}"#,
        "",
    ];
    for body in about_others {
        assert_eq!(
            refusal(body, Limits::default(), Some(20_000)),
            None,
            "{body}"
        );
    }
}

#[test]
fn a_refusal_lasts_until_the_limit_is_full_again() {
    let words = r#"{"error":{"type":"tokens","message":"tokens per min"}}"#;
    let plenty = openai("9000", "41s");
    assert_eq!(refusal(words, plenty, Some(20_000)), Some(41_000));
    assert_eq!(refusal(words, plenty, Some(50_000)), Some(50_000));
    let only_reset = read(&[("x-ratelimit-reset-tokens-minute", "42.3")]);
    assert_eq!(refusal(words, only_reset, None), Some(42_300));
    assert_eq!(
        refusal("{}", openai("0", "41s"), None),
        Some(41_000),
        "by its headers alone"
    );
    assert_eq!(refusal("{}", plenty, None), None);
}

proptest! {
    #[test]
    fn whatever_headers_say_it_is_bounded(values in prop::collection::vec(".{0,30}", 3)) {
        let read = read(&[
            ("x-ratelimit-limit-tokens", &values[0]),
            ("x-ratelimit-remaining-tokens", &values[1]),
            ("x-ratelimit-reset-tokens", &values[2]),
        ]);
        let waits = read.reset_ms.into_iter().chain(match read.level {
            Some(Level::Dry { wait_ms }) => Some(wait_ms),
            Some(Level::Ample) | None => None,
        });
        for wait_ms in waits {
            prop_assert!((SHORTEST_MS..=LONGEST_MS).contains(&wait_ms));
        }
    }

    #[test]
    fn durations_come_back(ms in 1_000_u64..300_000) {
        let text = format!("{}m{}.{:03}s", ms / 60_000, ms / 1_000 % 60, ms % 1_000);
        let read = openai("0", &text).level;
        let Some(Level::Dry { wait_ms }) = read else {
            return Err(TestCaseError::fail("not dry"));
        };
        prop_assert!(wait_ms.abs_diff(ms) <= 1, "{text}: {wait_ms}");
    }
}
