//! The recorded provider errors, and the laws that no error may break.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::*;
use crate::failure::facts::Headers;
use crate::failure::{Reason, Scope, stated_wait_ms};
use crate::time::WallMs;

fn classify(facts: &Facts) -> Verdict {
    Classifier::default().classify(facts)
}

/// One recorded error.
struct Row {
    id: String,
    facts: Option<Facts>,
    class: String,
    also: Vec<String>,
    scope: String,
    wait_ms: Option<u64>,
    now: WallMs,
    sure: bool,
    is_error: bool,
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

/// The payloads of an event stream; JSON that stands in it without `data:` is one too.
fn events(body: &str) -> Vec<String> {
    let mut found: Vec<String> = body
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .map(|data| data.trim().to_owned())
        .collect();
    if found.is_empty() {
        let json: Vec<&str> = body.lines().filter(|line| !line.starts_with(':')).collect();
        found.push(json.join("\n"));
    }
    found
}

fn read(row: &Value) -> Row {
    let sent: BTreeMap<String, String> = row["headers"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| {
            (
                name.to_ascii_lowercase(),
                value.as_str().unwrap().to_owned(),
            )
        })
        .collect();
    let header = |name: &str| sent.get(name).map(String::as_str);
    let headers = Headers {
        content_type: header("content-type"),
        retry_after: header("retry-after"),
        retry_after_ms: header("retry-after-ms"),
        amzn_error_type: header("x-amzn-errortype"),
        exception_type: header(":exception-type"),
    };
    let (provider, body) = (text(row, "provider"), text(row, "body"));
    let status = u16::try_from(row["status"].as_u64().unwrap()).unwrap();
    let facts = if row["stream_event"] == true || status < 400 {
        events(&body)
            .iter()
            .filter_map(|event| Facts::from_event(&provider, headers, event.as_bytes()))
            .next_back()
    } else {
        Some(Facts::from_answer(
            &provider,
            status,
            headers,
            body.as_bytes(),
        ))
    };
    let now = row["now"].as_str().map_or(WallMs(0), |stamp| {
        let date = OffsetDateTime::parse(stamp, &Rfc3339).unwrap();
        WallMs(u64::try_from(date.unix_timestamp()).unwrap() * 1_000)
    });
    Row {
        id: text(row, "id"),
        facts,
        class: text(&row["expect"], "failure_class"),
        also: row["alt"].as_array().map_or(vec![], |all| {
            all.iter()
                .map(|one| one.as_str().unwrap().to_owned())
                .collect()
        }),
        scope: text(&row["expect"], "hold_scope"),
        wait_ms: row["expect"]["retry_after_ms"].as_u64(),
        now,
        sure: text(row, "certainty") == "high",
        is_error: !row["tags"]
            .as_array()
            .is_some_and(|tags| tags.contains(&"not-an-error".into())),
    }
}

fn corpus() -> Vec<Row> {
    let rows = include_str!("../../../../tests/fixtures/provider-errors.jsonl");
    rows.lines()
        .map(|line| read(&serde_json::from_str(line).unwrap()))
        .collect()
}

fn scope_of(verdict: Verdict) -> &'static str {
    match verdict.holds.map(Reason::scope) {
        Some(Scope::Key) => "key",
        Some(Scope::Model) => "model",
        None => "none",
    }
}

/// RF-008, RF-018, RF-023 to RF-047.
#[test]
fn every_recorded_error_has_its_class() {
    let mut wrong = vec![];
    for row in corpus() {
        let found = row.facts.as_ref().map(classify);
        if !row.is_error && found.is_none() {
            continue;
        }
        let class = found.map_or("", |verdict| verdict.class.as_str());
        let right = class == row.class || (!row.sure && row.also.iter().any(|a| a == class));
        if !right {
            wrong.push(format!(
                "{}: {found:?}, not {} ({:?})",
                row.id, row.class, row.facts
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// RF-062 to RF-066.
#[test]
fn every_recorded_error_has_its_scope_and_its_stated_wait() {
    for row in corpus().iter().filter(|row| row.sure) {
        let Some(facts) = &row.facts else {
            continue;
        };
        assert_eq!(scope_of(classify(facts)), row.scope, "{}", row.id);
        assert_eq!(stated_wait_ms(facts, row.now), row.wait_ms, "{}", row.id);
    }
}

/// A change of any row's class, or of what decides it, shows here.
#[test]
fn what_decides_each_recorded_error() {
    let table: Vec<String> = corpus()
        .iter()
        .map(|row| match row.facts.as_ref().map(classify) {
            Some(verdict) => format!("{}: {} by {}", row.id, verdict.class.as_str(), verdict.rule),
            None => format!("{}: no error", row.id),
        })
        .collect();
    insta::assert_snapshot!(table.join("\n"));
}

#[test]
fn moderation_is_told_from_a_rejected_key() {
    let body = br#"{"error":{"message":"Your chosen model requires moderation and your input was flagged","code":403}}"#;
    let refused = Facts::from_answer("openrouter", 403, Headers::default(), body);
    assert!(classify(&refused).moderation);
    let rejected = Facts::from_answer("openai", 403, Headers::default(), b"");
    assert!(!classify(&rejected).moderation);
}

/// Kinds of errors that no row shows.
#[test]
fn what_is_not_recorded_is_told_apart_as_well() {
    let long = "x ".repeat(40_000);
    let html = format!("<html><body>{long}</body></html>");
    for (status, body, class) in [
        (
            400,
            r#"{"error":"invalid_grant","error_description":"Token has been expired or revoked."}"#,
            "credential",
        ),
        (
            400,
            r#"{"error":{"type":"ValidationException","message":"top_k has been deprecated for this model. Remove it."}}"#,
            "caller_fault",
        ),
        (
            400,
            r#"{"error":{"type":"ValidationException","message":"This model is deprecated. Pick another for this model family."}}"#,
            "model_gone",
        ),
        (
            400,
            r#"{"error":{"code":"model_decommissioned","message":"x was deprecated for this model line"}}"#,
            "model_gone",
        ),
        (
            404,
            r#"{"error":{"message":"Your profile does not exist"}}"#,
            "unknown",
        ),
        (
            404,
            r#"{"error":{"message":"No such file: file-abc"}}"#,
            "caller_fault",
        ),
        (410, "{}", "unknown"),
        (410, r#"{"error":{"message":"gone"}}"#, "model_gone"),
        (
            429,
            "data: {\"error\":{\"type\":\"insufficient_quota\",\"message\":\"x\"}}\n\n",
            "quota",
        ),
        (403, html.as_str(), "credential"),
        (400, long.as_str(), "unknown"),
    ] {
        let found = classify(&read_answer(status, None, body)).class.as_str();
        assert_eq!(found, class, "{status} {}", &body[..body.len().min(90)]);
    }
    let aws = Headers {
        amzn_error_type: Some("ValidationException:http://x/"),
        ..Headers::default()
    };
    let bare = Facts::from_answer("bedrock", 400, aws, b"");
    assert_eq!(classify(&bare).class, FailureClass::CallerFault);
}

#[test]
fn an_operators_rule_comes_before_all_others() {
    let rule = OwnRule {
        provider: Some("p".to_owned()),
        status: Some(429),
        code: None,
        kind: Some("t".to_owned()),
        message_contains: Some("Slow DOWN".to_owned()),
        class: FailureClass::Quota,
    };
    let any = OwnRule {
        provider: None,
        kind: None,
        message_contains: None,
        ..rule.clone()
    };
    let classifier = Classifier {
        own: vec![rule, any],
        ..Classifier::default()
    };
    let of = |provider: &str, status: u16, body: &str| {
        let facts = Facts::from_answer(provider, status, Headers::default(), body.as_bytes());
        let verdict = classifier.classify(&facts);
        (verdict.rule.to_string(), verdict.class.as_str())
    };
    let body = r#"{"error":{"type":"t","message":"please slow down"}}"#;
    assert_eq!(of("p", 429, body), ("failure_rules[0]".to_owned(), "quota"));
    assert_eq!(of("q", 429, body), ("failure_rules[1]".to_owned(), "quota"));
    assert_eq!(
        of("p", 500, body),
        ("transient_status".to_owned(), "transient")
    );
    assert_eq!(of("p", 429, ""), ("failure_rules[1]".to_owned(), "quota"));
}

/// CF-022
#[test]
fn a_refused_prompt_holds_only_where_that_is_wanted() {
    let body = br#"{"message":"Content blocked by guardrail","type":"guardrail_violation"}"#;
    let facts = Facts::from_answer("mistral", 403, Headers::default(), body);
    let mut classifier = Classifier::default();
    assert_eq!(classifier.classify(&facts).holds, None);
    classifier.moderation_holds = true;
    assert_eq!(classifier.classify(&facts).holds, Some(Reason::Credential));
}

#[test]
fn undocumented_signals_can_be_switched_off() {
    let documented = Classifier {
        extended_signals: false,
        ..Classifier::default()
    };
    let classes: Vec<String> = corpus()
        .iter()
        .filter_map(|row| {
            let facts = row.facts.as_ref()?;
            let (with, without) = (classify(facts), documented.classify(facts));
            let told = format!(
                "{}: {} instead of {}",
                row.id,
                without.class.as_str(),
                with.class.as_str()
            );
            (with.class != without.class).then(|| {
                assert!(
                    !row.sure,
                    "{} needs a signal that can be switched off",
                    row.id
                );
                told
            })
        })
        .collect();
    insta::assert_snapshot!(classes.join("\n"));
}

fn statuses() -> impl Strategy<Value = u16> {
    prop_oneof![
        Just(400u16),
        Just(401),
        Just(402),
        Just(403),
        Just(404),
        Just(409),
        Just(410),
        Just(422),
        Just(429),
        Just(500),
        Just(502),
        Just(503),
        Just(504),
        Just(529),
        400u16..600
    ]
}

/// Errors made of the words and names that rules look for, in several envelopes.
fn errors() -> impl Strategy<Value = Value> {
    let phrases = [
        &phrases::QUOTA,
        &phrases::RATE,
        &phrases::REGION,
        &phrases::KEY,
        &phrases::RETIREMENT,
        &phrases::MODERATION,
    ];
    let mut words = phrases.map(Phrases::all).concat();
    words.extend([
        "model",
        "models/",
        "file",
        "not found",
        "for this model",
        "does not exist",
    ]);
    words.extend([
        "insufficient balance",
        "organization has been disabled",
        "oauth",
        "x",
    ]);
    let names = prop::sample::select(vec![
        "",
        "model_not_found",
        "insufficient_quota",
        "invalid_api_key",
        "permission_error",
        "ValidationException",
        "AccessDeniedException",
        "ResourceNotFoundException",
        "NOT_FOUND",
        "INVALID_ARGUMENT",
        "not_found_error",
        "rate_limit_error",
        "model_decommissioned",
        "unsupported_country_region_territory",
        "budget_exceeded",
        "invalid_grant",
        "429",
        "503",
    ]);
    let words = prop::collection::vec(prop::sample::select(words), 0..4);
    (words, names.clone(), names, any::<bool>(), 0..5u8).prop_map(
        |(words, kind, code, param, shape)| {
            let mut fields = serde_json::json!({"message": words.join(" "), "type": kind, "code": code,
                "details": [{"reason": "BILLING_DISABLED"}]});
            if param {
                fields["param"] = "model".into();
            }
            match shape {
                0 => fields,
                1 => serde_json::json!([{"error": fields}]),
                2 => serde_json::json!({"type": "error", "error": fields}),
                3 => serde_json::json!({"error": {"message": fields.to_string(), "code": 400}}),
                _ => serde_json::json!({"error": fields}),
            }
        },
    )
}

/// The same JSON with every object's members in the other order.
fn turned(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .rev()
            .map(|(name, value)| (name.clone(), turned(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(turned).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn classifiers() -> impl Strategy<Value = Classifier> {
    any::<bool>().prop_map(|extended_signals| Classifier {
        extended_signals,
        ..Classifier::default()
    })
}

fn read_answer(status: u16, kind: Option<&str>, body: &str) -> Facts {
    let headers = Headers {
        content_type: kind,
        ..Headers::default()
    };
    Facts::from_answer("p", status, headers, body.as_bytes())
}

proptest! {
    #[test]
    fn a_401_or_403_always_speaks_of_the_key(
        classifier in classifiers(),
        status in prop::sample::select(vec![401u16, 403]),
        error in errors(),
    ) {
        let class = classifier.classify(&read_answer(status, None, &error.to_string())).class;
        prop_assert!(class.reason().is_some() && class != FailureClass::RateLimit, "{class:?}");
    }

    #[test]
    fn a_server_error_is_transient_or_a_rate_limit(
        classifier in classifiers(),
        status in prop::sample::select(vec![500u16, 502, 503, 504, 529]),
        error in errors(),
    ) {
        let class = classifier.classify(&read_answer(status, None, &error.to_string())).class;
        prop_assert!(matches!(class, FailureClass::Transient | FailureClass::RateLimit), "{class:?}");
    }

    #[test]
    fn the_order_of_members_is_irrelevant(status in statuses(), error in errors()) {
        let of = |error: &Value| classify(&read_answer(status, None, &error.to_string()));
        prop_assert_eq!(of(&turned(&error)), of(&error));
    }

    #[test]
    fn html_says_as_much_as_nothing(status in statuses(), error in errors()) {
        let page = format!("<!DOCTYPE html><html><body>{error}</body></html>");
        let of = |body: &str| classify(&read_answer(status, None, body));
        prop_assert_eq!(of(&page), of(""));
    }

    #[test]
    fn the_content_type_of_json_is_irrelevant(status in statuses(), error in errors()) {
        let of = |kind| classify(&read_answer(status, Some(kind), &error.to_string()));
        prop_assert_eq!(of("application/json"), of("text/html"));
    }

    #[test]
    fn any_bytes_are_read_without_panic_and_state_no_wait_out_of_bounds(
        status in any::<u16>(),
        body in prop::collection::vec(any::<u8>(), 0..400),
        after in "\\PC{0,20}",
    ) {
        let headers = Headers { retry_after: Some(&after), ..Headers::default() };
        let facts = Facts::from_answer("p", status, headers, &body);
        let _ = classify(&facts);
        let _ = Facts::from_event("p", headers, &body);
        if let Some(wait) = stated_wait_ms(&facts, WallMs(0)) {
            prop_assert!((1_000..=300_000).contains(&wait));
        }
    }
}

#[test]
fn one_pass_finds_what_phrase_by_phrase_search_finds() {
    let messages = errors();
    let sets = [
        &phrases::QUOTA,
        &phrases::RATE,
        &phrases::REGION,
        &phrases::KEY,
        &phrases::RETIREMENT,
        &phrases::MODERATION,
    ];
    proptest!(|(error in messages)| {
        let message = error.to_string();
        for set in sets {
            let one_by_one = set.all().iter().any(|phrase| message.contains(phrase));
            prop_assert_eq!(set.are_in(&message), one_by_one);
        }
    });
}
