//! Every wording, as people and other tools read it.

use super::*;
use crate::failure::Scope;
use crate::health::State;
use crate::routing::provider::Direction;

struct Names {
    azure: ProviderId,
    openai: ProviderId,
    key: KeyId,
    model: ModelId,
    small: ModelId,
}

impl Names {
    fn new() -> Self {
        Self {
            azure: ProviderId::from("azure"),
            openai: ProviderId::from("openai"),
            key: KeyId::from("k-9"),
            model: ModelId::from("gpt-4o"),
            small: ModelId::from("gpt-4o-mini"),
        }
    }

    fn route(&self) -> Route<'_> {
        Route {
            provider: &self.azure,
            model: &self.model,
        }
    }

    fn other(&self) -> Route<'_> {
        Route {
            provider: &self.openai,
            model: &self.small,
        }
    }
}

const LIMITED: Cause<'static> = Cause {
    label: "rate_limit_error",
    status: 429,
};

/// `[engine] [level] - message`, each.
fn shown(lines: &[LogLine]) -> String {
    let one = |line: &LogLine| {
        let json = serde_json::to_value(line).unwrap();
        let (engine, level) = (&json["engine"], &json["level"]);
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        format!("[{}] [{}] - {}", text(engine), text(level), line.message)
    };
    lines.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// RF-095 to RF-105.
#[test]
fn retries_and_fallbacks() {
    let names = Names::new();
    let (route, next) = (names.route(), names.other());
    let late = Cause {
        label: "request_timed_out",
        status: 504,
    };
    insta::assert_snapshot!(shown(&[
        primary_failed(route, LIMITED, 2),
        trying_fallback(1, 2, next, Some(LIMITED)),
        trying_fallback(1, 2, next, None),
        fallback_without_provider(next),
        fallback_without_key(next),
        fallback_repeated(next),
        fallback_nobody_serves(&names.small),
        kind_refused(next.provider, "embedding"),
        primary_unusable(route),
        served_by_fallback(next, 1, 2),
        fallback_halted(next, late),
        fallbacks_exhausted(2, LIMITED),
        retry(1, 3, route, LIMITED, RetryKey::Rotated("beta")),
        retry(1, 3, route, LIMITED, RetryKey::Same("alpha")),
        retry(1, 3, route, LIMITED, RetryKey::Keyless),
        retry_over_budget(route, LIMITED),
        retries_succeeded(route, 2),
        retries_exhausted(route, 4, LIMITED),
        attempts_exhausted(200),
    ]));
}

/// AR-126, AR-127, LB-044 to LB-047.
#[test]
fn holds_and_checks() {
    let names = Names::new();
    let (route, key) = (names.route(), &names.key);
    let held = |reason: Reason, wait_ms, stated_ms| {
        let model = (reason.scope() == Scope::Model).then_some(&names.model);
        refused(&names.azure, key, model, reason, wait_ms, stated_ms)
    };
    let mut lines: Vec<LogLine> = Reason::ALL
        .into_iter()
        .map(|reason| held(reason, 30_000, None))
        .collect();
    lines.extend([
        held(Reason::Quota, 300_000, Some(300_000)),
        held(Reason::RateLimit, 38_500, Some(38_500)),
        held(Reason::RateLimit, 10_000, Some(1_000)),
        skipping(1, 2, route),
        checking(key, route),
        serving_again(key, route),
        every_key_held(2, key, route),
        pinned_key_held(key, route),
    ]);
    insta::assert_snapshot!(shown(&lines));
}

#[test]
fn providers() {
    let names = Names::new();
    let (route, next) = (names.route(), names.other());
    let direction = Direction {
        state: State::Recovering,
        score: 0.254,
        due: None,
        check: false,
    };
    let chosen = |because| provider_chosen(route, 3, because, direction);
    let many = [&names.azure; 10];
    insta::assert_snapshot!(shown(&[
        chosen(Because::Best),
        chosen(Because::Drawn(2)),
        chosen(Because::Proof),
        chosen(Because::LeastBad),
        provider_left_out(route, true),
        provider_left_out(route, false),
        provider_checked(route, true),
        provider_checked(route, false),
        redirected(route, next, true),
        redirected(route, next, false),
        kept_on_failing(route, StaysBecause::RedirectOff),
        kept_on_failing(route, StaysBecause::NothingHealthier),
        pin_not_there(next),
        own_key_moved(next),
        fallbacks_added(2, &names.model, many[..2].iter().copied()),
        fallbacks_added(10, &names.model, many.iter().copied()),
        fallback_pruned(next, true),
        fallback_pruned(next, false),
    ]));
}

#[test]
fn sessions() {
    let names = Names::new();
    let (route, next) = (names.route(), names.other());
    insta::assert_snapshot!(shown(&[
        session_stays(route, &names.model, next),
        session_leaves(route, &names.model, true),
        session_leaves(route, &names.model, false),
        session_key_stays("az-eu", route),
        session_key_leaves(&names.key, route, "the provider refused it"),
    ]));
}
