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
        (
            r#"{"error":{"type":"t","code":"c","message":"m \ud83e"}}"#,
            ("t", "c", "m \u{fffd}"),
        ),
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
fn what_only_some_send_is_understood_too() {
    let cases = [
        (r#"{"error":["m"]}"#, ("", "", "m")),
        (r#"{"error":[{"code":"c","message":"m"}]}"#, ("", "c", "m")),
        (r#"{"success":false,"errors":["m"]}"#, ("", "", "m")),
        (
            r#"{"choices":[{"finish_reason":"error","error":{"code":"c","message":"m"}}]}"#,
            ("", "c", "m"),
        ),
        (
            r#"{"success":false,"errors":[{"code":10000,"message":"m"}]}"#,
            ("", "", "m"),
        ),
        (
            r#"{"error":"invalid_grant","error_description":"m"}"#,
            ("invalid_grant", "", "m"),
        ),
        (
            r#"{"error":"insufficient_quota"}"#,
            ("insufficient_quota", "", "insufficient_quota"),
        ),
        (
            r#"{"status":404,"error":"Not Found","message":"m"}"#,
            ("", "", "Not Found: m"),
        ),
        (r#"{"detail":{"type":"t","message":"m"}}"#, ("t", "", "m")),
        (
            r#"{"detail":{"error":{"code":"c","message":"m"}}}"#,
            ("", "c", "m"),
        ),
        (
            r#"{"Error":{"Code":"ThrottlingException","Message":"m"}}"#,
            ("ThrottlingException", "ThrottlingException", "m"),
        ),
        (
            r#"{"status":"error","error":{"type":"t","status":"failed","message":"m"}}"#,
            ("t", "", "m"),
        ),
        (r#"{"message":"","detail":"m"}"#, ("", "", "m")),
        (
            "{\"error\":{\"message\":\"m\"}}\n{\"done\":true}",
            ("", "", "m"),
        ),
        (
            "event: error\ndata: {\"error\":{\"type\":\"t\",\"message\":\"m\"}}\n\n",
            ("t", "", "m"),
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(parts(&facts(body)), expected, "{body}");
    }
}

#[test]
fn an_error_inside_an_error_replaces_it() {
    let raw = r#"{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"{\"error\":{\"type\":\"insufficient_quota\",\"message\":\"inner\"}}"}}}"#;
    assert_eq!(parts(&facts(raw)), ("insufficient_quota", "", "inner"));
    let flat = r#"{"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"type\":\"t\",\"message\":\"inner\"}}"}}"#;
    assert_eq!(parts(&facts(flat)), ("t", "", "inner"));
}

#[test]
fn only_a_message_that_is_json_is_taken_for_an_error() {
    let quoted = r#"{"error":{"type":"t","message":"Unknown value: {\"error\":{\"code\":\"insufficient_quota\"}}"}}"#;
    assert_eq!(facts(quoted).code, None);
    let plain = r#"{"error":{"message":"Provider returned error","metadata":{"raw":"<html>quota</html>"}}}"#;
    assert_eq!(facts(plain).message, "Provider returned error");
}

#[test]
fn names_of_exceptions_are_plain() {
    for text in [
        "AccessDeniedException",
        "AccessDeniedException:http://internal.amazon.com/coral/com.amazon.bedrock/",
        "AccessDeniedException:http://internal.amazon.com/#x",
        "com.amazon.coral.service#AccessDeniedException",
        "AccessDeniedException#service",
        "com.amazon#AccessDeniedException:http://x",
    ] {
        let named = envelope::exception_name(text);
        assert_eq!(named.as_deref(), Some("AccessDeniedException"), "{text}");
    }
    assert_eq!(envelope::exception_name("#:"), None);
}

#[test]
fn an_exception_of_an_event_stream_needs_no_json() {
    let headers = Headers {
        exception_type: Some("throttlingException"),
        ..Headers::default()
    };
    let facts = Facts::from_event("bedrock", headers, b"").unwrap();
    assert_eq!(
        (facts.status, facts.kind.as_deref()),
        (429, Some("ThrottlingException"))
    );
}

#[test]
fn words_that_were_flagged_are_told() {
    let flagged = r#"{"error":{"code":403,"message":"m","metadata":{"flagged_input":"x"}}}"#;
    assert_eq!(facts(flagged).reasons, [envelope::FLAGGED_INPUT]);
}

#[test]
fn bodies_that_are_attacks_are_read_in_little_time_and_memory() {
    let deep = "[".repeat(200_000);
    let nested = format!("{}{}", r#"{"error":"#.repeat(100), "}".repeat(100));
    let wide = format!("{{{}\"z\":1}}", r#""a":{},"#.repeat(8_000));
    let cut = r#"{"error":{"message":"Your credit balance is too l"#;
    for body in [&deep, &nested, &wide, cut] {
        let read = facts(body);
        assert!(read.message.len() <= MAX_BODY_BYTES);
    }
    let binary = Facts::from_answer("p", 429, Headers::default(), &[0xff, 0x00, 0xfe, b'{']);
    assert_eq!(binary.body, BodyKind::Text);
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
    assert_eq!(event(r#"{"choices":[{"delta":{},"error":null}]}"#), None);
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
    for (error, status) in [
        (
            r#"{"error":{"status":"RESOURCE_EXHAUSTED","message":"x"}}"#,
            429,
        ),
        (
            r#"{"error":{"__type":"ThrottlingException","message":"x"}}"#,
            429,
        ),
        (r#"{"object":"error","message":"x","code":400}"#, 400),
        (r#"{"error":true,"status_code":503}"#, 503),
        (
            r#"{"choices":[{"delta":{},"finish_reason":"error","error":{"code":502,"message":"x"}}]}"#,
            502,
        ),
    ] {
        assert_eq!(event(error).unwrap().status, status, "{error}");
    }
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
