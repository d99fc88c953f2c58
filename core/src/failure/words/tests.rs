//! What is kept of a provider's words, and what never is.

use proptest::prelude::*;

use super::*;
use crate::failure::facts::Headers;

const SENT: &str = "sk-live-4Jq8ZtV2nXw7Lb5RcY9eHd3K";

/// RF-107.
#[test]
fn keys_are_redacted_and_the_rest_is_kept() {
    let cases = [
        (
            format!("Incorrect API key provided: {SENT}."),
            "Incorrect API key provided: [redacted].",
        ),
        (
            "Did you mean sk-proj-Qm7TzX4vB9nK2wL6?".to_owned(),
            "Did you mean [redacted]?",
        ),
        (
            "Incorrect API key provided: sk-abc***xyz. See".to_owned(),
            "Incorrect API key provided: [redacted] See",
        ),
        (
            "authorization: Bearer abc\nnext".to_owned(),
            "authorization: Bearer [redacted] next",
        ),
        (
            "key=AIzaSyA1234567890abcdefghi is bad".to_owned(),
            "key=[redacted] is bad",
        ),
        ("id AKIAIOSFODNN7EXAMPLE".to_owned(), "id [redacted]"),
        (
            "token gsk_abcdefgh, xai-abcdefgh".to_owned(),
            "token [redacted], [redacted]",
        ),
        (
            "tab\tand\u{0}null\u{1b}[31m".to_owned(),
            "tab and null [31m",
        ),
        (
            "This project does not have access to model gpt-4o".to_owned(),
            "This project does not have access to model gpt-4o",
        ),
        (
            "claude-3-5-sonnet-20241022 is retired".to_owned(),
            "claude-3-5-sonnet-20241022 is retired",
        ),
    ];
    for (words, kept) in cases {
        assert_eq!(scrub(&words, &[SENT]), kept);
    }
}

#[test]
fn the_beginning_of_the_sent_key_is_redacted_too() {
    let sent = "correct horse battery";
    assert_eq!(
        scrub("no such key: correct*****", &["correct*horse"]),
        "no such key: [redacted]"
    );
    assert_eq!(
        scrub("zebra-crossing-ahead is masked", &["zebra-crossing-keys"]),
        "[redacted] is masked"
    );
    assert_eq!(scrub("correctly said", &[sent]), "correctly said");
}

#[test]
fn words_are_cut_by_characters() {
    let long = "Ü".repeat(1_000);
    assert_eq!(scrub(&long, &[]).chars().count(), MAX_CHARS);
}

#[test]
fn a_label_is_a_category_or_a_bare_identifier() {
    let of = |kind: &str| {
        let body = serde_json::json!({"error": {"message": "x", "type": kind}}).to_string();
        let facts = Facts::from_answer("p", 500, Headers::default(), body.as_bytes());
        label(FailureClass::Transient, Some(&facts))
    };
    assert_eq!(of("overloaded_error"), "overloaded_error");
    assert_eq!(of("sk-abcdefghijk"), "server_error");
    assert_eq!(of("you said hello"), "server_error");
    assert_eq!(of("key 8c6f0b1b2d"), "server_error");
    assert_eq!(label(FailureClass::Quota, None), "billing_error");
}

proptest! {
    #[test]
    fn the_secret_that_was_sent_never_survives(
        secret in "[A-Za-z0-9_./+=-]{4,60}",
        before in "\\PC{0,40}",
        after in "\\PC{0,40}",
        glue in prop_oneof![Just(""), Just(" "), Just("'"), Just("\n"), Just("Bearer ")],
    ) {
        // A secret that is part of the mark itself cannot be told from it.
        prop_assume!(!REDACTED.contains(&secret));
        let text = format!("{before}{glue}{secret}{glue}{after}{secret}");
        let kept = scrub(&text, &[&secret]);
        prop_assert!(!kept.contains(&secret), "{kept}");
    }

    #[test]
    fn no_control_character_survives(text in any::<String>()) {
        let kept = scrub(&text, &[]);
        prop_assert!(!kept.chars().any(char::is_control));
        prop_assert!(kept.chars().count() <= MAX_CHARS);
    }
}
