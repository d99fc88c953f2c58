//! Every wording, as people and other tools read it.

use super::*;

#[test]
fn every_line_has_its_fixed_shape() {
    let (provider, key, model) = (
        ProviderId::from("azure"),
        KeyId::from("k-9"),
        ModelId::from("gpt-4o"),
    );
    let (other, small) = (ProviderId::from("openai"), ModelId::from("gpt-4o-mini"));
    let route = Route {
        provider: &provider,
        model: &model,
    };
    let next = Route {
        provider: &other,
        model: &small,
    };
    let cause = Cause {
        label: "rate_limit_error",
        status: 429,
    };
    let lines = [
        primary_failed(route, cause, 2),
        trying_fallback(1, 2, next, Some(cause)),
        trying_fallback(1, 2, next, None),
        fallback_without_provider(next),
        fallback_without_key(next),
        fallback_nobody_serves(&small),
        primary_unusable(route),
        served_by_fallback(next, 1, 2),
        fallback_halted(
            next,
            Cause {
                label: "request_timed_out",
                status: 504,
            },
        ),
        fallbacks_exhausted(2, cause),
        retry(1, 3, route, cause, RetryKey::Rotated("beta")),
        retry(1, 3, route, cause, RetryKey::Same("alpha")),
        retry(1, 3, route, cause, RetryKey::Keyless),
        retries_succeeded(route, 2),
        retries_exhausted(route, 4, cause),
        attempts_exhausted(200),
        refused(
            &provider,
            &key,
            Some(&model),
            Reason::ModelAccess,
            30_000,
            None,
        ),
        refused(&provider, &key, None, Reason::Credential, 30_000, None),
        refused(&provider, &key, None, Reason::Quota, 300_000, Some(300_000)),
        refused(
            &provider,
            &key,
            Some(&model),
            Reason::ModelGone,
            30_000,
            None,
        ),
        refused(
            &provider,
            &key,
            Some(&model),
            Reason::RegionBlocked,
            30_000,
            None,
        ),
        refused(
            &provider,
            &key,
            Some(&model),
            Reason::RateLimit,
            38_500,
            Some(38_500),
        ),
        refused(
            &provider,
            &key,
            Some(&model),
            Reason::RateLimit,
            10_000,
            Some(1_000),
        ),
        skipping(1, 2, route),
        checking(&key, route),
        serving_again(&key, route),
        every_key_held(2, &key, route),
        pinned_key_held(&key, route),
        provider_chosen(&provider, &model, 3),
        provider_left_out(route),
        provider_checked(route),
        redirected(route, next),
        pin_not_there(next),
        fallbacks_added(2, &model),
        fallback_pruned(next),
    ];
    let text: Vec<String> = lines
        .iter()
        .map(|line| {
            let json = serde_json::to_value(line).unwrap();
            format!(
                "[{}] [{}] - {}",
                json["engine"].as_str().unwrap(),
                json["level"].as_str().unwrap(),
                line.message
            )
        })
        .collect();
    insta::assert_snapshot!(text.join("\n"));
}
