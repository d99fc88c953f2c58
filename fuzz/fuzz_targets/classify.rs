//! Any answer at any status is understood, within the laws: no panic, no class that the status
//! forbids, no stated wait out of bounds, words that are short and printable.

#![no_main]

use holdline_core::failure::{
    Classifier, Facts, FailureClass, Headers, label, stated_wait_ms, words,
};
use holdline_core::time::WallMs;
use libfuzzer_sys::fuzz_target;

const STATUSES: [u16; 16] = [
    200, 400, 401, 402, 403, 404, 409, 410, 413, 422, 429, 500, 502, 503, 504, 529,
];

fuzz_target!(|data: &[u8]| {
    let [status, flags, rest @ ..] = data else {
        return;
    };
    // What stands before the first NUL is one header's value, the rest is the body.
    let at = rest.iter().position(|byte| *byte == 0).unwrap_or(0);
    let (value, body) = rest.split_at(at);
    let value = std::str::from_utf8(value)
        .ok()
        .filter(|text| !text.is_empty());
    let header = |bit: u8| value.filter(|_| flags & (1 << bit) != 0);
    let headers = Headers {
        content_type: header(0),
        retry_after: header(1),
        retry_after_ms: header(2),
        amzn_error_type: header(3),
        exception_type: header(4),
    };
    let status = STATUSES
        .get(usize::from(*status))
        .copied()
        .unwrap_or(u16::from(*status) * 4);
    let classifier = Classifier {
        extended_signals: flags & 0x80 == 0,
        ..Classifier::default()
    };
    check(&classifier, &Facts::from_answer("p", status, headers, body));
    if let Some(facts) = Facts::from_event("p", headers, body) {
        check(&classifier, &facts);
    }
});

fn check(classifier: &Classifier, facts: &Facts) {
    let class = classifier.classify(facts).class;
    match facts.status {
        401 | 403 => assert!(
            class.reason().is_some() && class != FailureClass::RateLimit,
            "{class:?}"
        ),
        500 | 502 | 503 | 504 | 529 => assert!(
            matches!(class, FailureClass::Transient | FailureClass::RateLimit),
            "{class:?}"
        ),
        _ => {}
    }
    if let Some(wait) = stated_wait_ms(facts, WallMs(1_700_000_000_000)) {
        assert!((1_000..=300_000).contains(&wait), "{wait}");
    }
    let secret = "sk-fuzz-0123456789abcdef";
    let words = words(facts, &[secret]);
    assert!(words.chars().count() <= 256 && !words.contains(secret));
    assert!(!words.chars().any(char::is_control));
    assert!(label(class, Some(facts)).len() <= 48);
}
