//! The envelopes of the providers.

use super::*;

fn facts(body: &str) -> Facts {
    Facts::from_answer("p", 400, Headers::default(), body.as_bytes())
}

fn parts(facts: &Facts) -> (&str, &str, &str) {
    (
        facts.kind.as_deref().unwrap_or(""),
        facts.code.as_deref().unwrap_or(""),
        &facts.message,
    )
}

#[test]
fn every_envelope_gives_type_code_and_message() {
    let cases = [
        (
            r#"{"error":{"type":"t","code":"c","message":"m"}}"#,
            ("t", "c", "m"),
        ),
        (
            r#"{"type":"error","error":{"type":"t","message":"m"}}"#,
            ("t", "", "m"),
        ),
        (
            r#"[{"error":{"status":"T","message":"m"}}]"#,
            ("T", "", "m"),
        ),
        (
            r#"{"message":"m","type":"t","param":null,"code":"c"}"#,
            ("t", "c", "m"),
        ),
        (r#"{"error":"m","code":"c"}"#, ("", "c", "m")),
        (r#"{"detail":"m"}"#, ("", "", "m")),
        (r#"{"detail":[{"msg":"m"},{"msg":"n"}]}"#, ("", "", "m; n")),
        (r#"{"Message":"m"}"#, ("", "", "m")),
        (r#"{"statusCode":401,"message":"m"}"#, ("", "", "m")),
        (
            r#"{"error":{"error":{"type":"t","message":"m"}}}"#,
            ("t", "", "m"),
        ),
        (
            r#"{"Output":{"__type":"com.x#T","message":"m"}}"#,
            ("T", "", "m"),
        ),
        (
            r#"{"response":{"error":{"code":"c","message":"m"}}}"#,
            ("", "c", "m"),
        ),
        (r#""m""#, ("", "", "m")),
    ];
    for (body, expected) in cases {
        assert_eq!(parts(&facts(body)), expected, "{body}");
    }
}

#[test]
fn an_error_inside_an_error_replaces_it() {
    let raw = r#"{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"{\"error\":{\"type\":\"insufficient_quota\",\"message\":\"inner\"}}"}}}"#;
    assert_eq!(parts(&facts(raw)), ("insufficient_quota", "", "inner"));
}

#[test]
fn absent_values_are_absent() {
    let none = facts(r#"{"error":{"type":"None","code":"","param":"","message":"m"}}"#);
    assert_eq!((none.kind, none.code, none.param), (None, None, None));
}

#[test]
fn an_event_is_an_error_only_if_it_says_so() {
    let event = |data: &str| Facts::from_event("p", Headers::default(), data.as_bytes());
    assert_eq!(event(r#"{"choices":[{"delta":{}}]}"#), None);
    assert_eq!(event(r#"{"error":null,"id":"x"}"#), None);
    assert_eq!(event("[DONE]"), None);
    assert_eq!(
        event(r#"{"type":"error","error":{"type":"overloaded_error"}}"#)
            .unwrap()
            .status,
        529
    );
    assert_eq!(
        event(r#"{"error":{"code":429,"message":"x"}}"#)
            .unwrap()
            .status,
        429
    );
    assert_eq!(event(r#"{"error":{"message":"x"}}"#).unwrap().status, 500);
}

#[test]
fn only_the_first_64_kib_are_read() {
    let long = "a".repeat(MAX_BODY_BYTES * 2);
    assert_eq!(facts(&long).message.len(), MAX_BODY_BYTES);
}

#[test]
fn debug_output_repeats_nothing_that_was_said() {
    let shown = format!(
        "{:?}",
        facts(r#"{"error":{"type":"t-1","code":"sk-2","message":"sk-3"}}"#)
    );
    assert!(!shown.contains("t-1") && !shown.contains("sk-"), "{shown}");
}
