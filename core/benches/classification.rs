//! What it costs to understand an error of about 1 KiB: from bytes to class and stated wait.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use holdline_core::failure::{Classifier, Facts, Headers, stated_wait_ms};
use holdline_core::time::WallMs;

/// Errors of about 1 KiB, by the rule that decides.
fn errors() -> Vec<(&'static str, u16, String)> {
    let words =
        "This request cannot be served as it stands, see the documents of the provider. ".repeat(9);
    let openai = |kind: &str, code: &str| {
        serde_json::json!({"error": {"message": words, "type": kind, "param": null, "code": code},
            "request_id": "req_011C0000000000000000000A"})
        .to_string()
    };
    let google = serde_json::json!([{"error": {"code": 429, "message": &words[..400], "status": "RESOURCE_EXHAUSTED",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaMetric": "generate_content_requests",
                "quotaId": "GenerateRequestsPerMinute", "quotaDimensions": {"location": "global", "model": "gemini-2.0-flash"}}]},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "39s"},
        ]}}])
    .to_string();
    vec![
        (
            "first rule",
            429,
            openai("insufficient_quota", "insufficient_quota"),
        ),
        ("stated wait", 429, google),
        (
            "last rule",
            400,
            openai("invalid_request_error", "invalid_value"),
        ),
        (
            "sentence by sentence",
            400,
            openai("invalid_request_error", "invalid_value").replace(
                "documents of the provider",
                "words for this model, deprecated",
            ),
        ),
        ("nothing recognised", 404, openai("odd", "odd")),
    ]
}

fn classification(c: &mut Criterion) {
    let classifier = Classifier::default();
    let mut group = c.benchmark_group("classification of 1 KiB");
    for (name, status, body) in errors() {
        group.bench_function(name, |bench| {
            bench.iter(|| {
                let headers = Headers::default();
                let facts =
                    Facts::from_answer("openai", status, headers, black_box(body.as_bytes()));
                (
                    classifier.classify(&facts),
                    stated_wait_ms(&facts, WallMs(0)),
                )
            });
        });
        let facts = Facts::from_answer("openai", status, Headers::default(), body.as_bytes());
        group.bench_function(format!("{name}, rules alone"), |bench| {
            bench.iter(|| classifier.classify(black_box(&facts)));
        });
    }
    group.finish();
}

criterion_group!(benches, classification);
criterion_main!(benches);
