//! The laws of the table: newest word, releases, bounds, and that order does not matter.

use proptest::prelude::*;

use super::*;
use crate::holds::{Details, Subject};

fn route(key: &str, model: &str) -> RouteKey {
    RouteKey {
        provider: "openai".into(),
        key: key.into(),
        fingerprint: Fingerprint(7),
        model: model.into(),
    }
}

fn stamp(ms: u64) -> Hlc {
    Hlc {
        ms,
        counter: 0,
        node: 1,
    }
}

fn backoff(key: &str, model: &str, at: u64, wait_ms: u64) -> Signal {
    Signal::Backoff(Backoff {
        route: route(key, model),
        stamp: stamp(at),
        wait_ms,
    })
}

fn until(table: &Table, key: &str, model: &str, now: Mono) -> Option<Mono> {
    let of_key = table.dry(&"openai".into(), &key.into(), Fingerprint(7), now);
    of_key.get(&ModelId::from(model)).copied()
}

const DRY: Level = Level::Dry { wait_ms: 20_000 };

#[test]
fn a_route_is_dry_until_it_is_refilled() {
    let mut table = Table::default();
    let now = Mono(5_000);
    assert_eq!(
        table.merge(backoff("a", "m", 1, 20_000), 0, now),
        [route("a", "m")]
    );
    let then = until(&table, "a", "m", now);
    assert_eq!(then, Some(Mono(25_000)));
    assert_eq!(until(&table, "a", "m", Mono(24_999)), then);
    assert_eq!(
        until(&table, "a", "m", Mono(25_000)),
        None,
        "it ends by itself"
    );
    assert_eq!(until(&table, "a", "other", now), None);
    assert_eq!(until(&table, "b", "m", now), None);
    let edited = table.dry(&"openai".into(), &"a".into(), Fingerprint(8), now);
    assert!(edited.is_empty(), "an edited key is another key");
}

#[test]
fn an_age_shortens_what_is_left_and_nothing_lengthens_it() {
    let mut table = Table::default();
    table.merge(backoff("a", "m", 1, 20_000), 5_000, Mono(100));
    assert_eq!(until(&table, "a", "m", Mono(100)), Some(Mono(15_100)));
    table.merge(backoff("b", "m", 1, u64::MAX), 0, Mono(100));
    assert_eq!(
        until(&table, "b", "m", Mono(100)),
        Some(Mono(100 + LONGEST_MS))
    );
    assert!(
        table
            .merge(backoff("c", "m", 1, u64::MAX), LONGEST_MS, Mono(100))
            .is_empty()
    );
}

#[test]
fn the_newest_word_counts_also_where_it_ends_sooner() {
    let mut table = Table::default();
    let now = Mono(0);
    table.merge(backoff("a", "m", 2, 60_000), 0, now);
    assert!(table.merge(backoff("a", "m", 1, 90_000), 0, now).is_empty());
    assert_eq!(until(&table, "a", "m", now), Some(Mono(60_000)));
    table.merge(backoff("a", "m", 3, 10_000), 0, now);
    assert_eq!(until(&table, "a", "m", now), Some(Mono(10_000)));
    table.merge(backoff("a", "m", 4, 0), 0, now);
    assert_eq!(until(&table, "a", "m", now), None, "refilled");
    table.merge(backoff("a", "m", 3, 10_000), 0, now);
    assert_eq!(until(&table, "a", "m", now), None, "and stays so");
}

#[test]
fn a_release_ends_what_it_names_and_is_older() {
    let cases = [
        (Selector::All, [true, true, true]),
        (Selector::Provider("openai".into()), [true, true, true]),
        (Selector::Provider("other".into()), [false, false, false]),
        (
            Selector::Key("openai".into(), "a".into()),
            [true, true, false],
        ),
        (
            Selector::Model("openai".into(), "a".into(), "m".into()),
            [true, false, false],
        ),
    ];
    let now = Mono(0);
    for (what, ended) in cases {
        let mut table = Table::default();
        let routes = [("a", "m"), ("a", "n"), ("b", "m")];
        for (key, model) in routes {
            table.merge(backoff(key, model, 5, 20_000), 0, now);
        }
        let clear = Signal::Clear {
            what: what.clone(),
            stamp: stamp(6),
        };
        let changed = table.merge(clear, 0, now).len();
        assert_eq!(
            changed,
            ended.iter().filter(|ended| **ended).count(),
            "{what:?}"
        );
        for ((key, model), ended) in routes.into_iter().zip(ended) {
            assert_eq!(
                until(&table, key, model, now).is_none(),
                ended,
                "{what:?} {key} {model}"
            );
            table.merge(backoff(key, model, 5, 20_000), 0, now);
            assert_eq!(
                until(&table, key, model, now).is_none(),
                ended,
                "it came back"
            );
            table.merge(backoff(key, model, 7, 20_000), 0, now);
            assert!(
                until(&table, key, model, now).is_some(),
                "newer than the release"
            );
        }
    }
}

#[test]
fn a_released_hold_ends_the_backoff_of_its_subject_and_a_hold_does_not() {
    let record = |scope, body| Record {
        subject: Subject {
            provider: "openai".into(),
            key: "a".into(),
            fingerprint: Fingerprint(7),
            scope,
        },
        register: Register {
            release: stamp(6),
            body,
            ..Register::NEVER
        },
        details: Details::default(),
    };
    let held = Body::Held {
        refused: true,
        rung: 0,
        reason: crate::failure::Reason::RateLimit,
        wait: crate::holds::Wait {
            ms: 30_000,
            stated: false,
        },
    };
    let now = Mono(0);
    let mut table = Table::default();
    table.merge(backoff("a", "m", 5, 20_000), 0, now);
    table.merge(backoff("a", "n", 5, 20_000), 0, now);
    let of_model = SubjectScope::Model("m".into());
    assert!(
        table
            .follow(&record(of_model.clone(), held), 0, now)
            .is_empty()
    );
    let free = Body::Free { memory: None };
    assert_eq!(
        table.follow(&record(of_model, free), 0, now),
        [route("a", "m")]
    );
    assert!(until(&table, "a", "n", now).is_some());
    assert_eq!(
        table.follow(&record(SubjectScope::Key, free), 0, now),
        [route("a", "n")]
    );
}

#[test]
fn a_busy_dry_route_is_told_of_once() {
    let mut table = Table::default();
    let route = route("a", "m");
    let now = Mono(1_000);
    assert!(table.is_news(&route, DRY, Mono(0), now));
    table.merge(backoff("a", "m", 1, 20_000), 0, now);
    assert!(!table.is_news(&route, DRY, now, Mono(1_500)));
    assert!(
        table.is_news(&route, DRY, now, Mono(5_000)),
        "the end has moved"
    );
    assert!(
        table.is_news(&route, DRY, now, Mono(21_000)),
        "the first is over"
    );
}

#[test]
fn what_was_sent_before_says_nothing_about_now() {
    let mut table = Table::default();
    let route = route("a", "m");
    assert!(
        !table.is_news(&route, Level::Ample, Mono(0), Mono(0)),
        "nothing is dry"
    );
    table.merge(backoff("a", "m", 1, 20_000), 0, Mono(1_000));
    assert!(!table.is_news(&route, Level::Ample, Mono(999), Mono(1_100)));
    assert!(table.is_news(&route, Level::Ample, Mono(1_000), Mono(1_100)));
    let clear = Signal::Clear {
        what: Selector::All,
        stamp: stamp(2),
    };
    table.merge(clear, 0, Mono(2_000));
    assert!(
        !table.is_news(&route, DRY, Mono(1_999), Mono(2_100)),
        "sent before the release"
    );
    assert!(table.is_news(&route, DRY, Mono(2_000), Mono(2_100)));
}

#[test]
fn the_table_is_bounded_and_forgets() {
    let mut table = Table::default();
    for number in 0..=MAX_BACKOFFS as u64 {
        table.merge(backoff("a", &format!("m-{number}"), 1, 20_000), 0, Mono(0));
    }
    assert_eq!(table.routes.len(), MAX_BACKOFFS);
    for number in 0..=MAX_CLEARS as u64 {
        let what = Selector::Provider(format!("p-{number}").into());
        let stamp = stamp(1);
        table.merge(Signal::Clear { what, stamp }, 0, Mono(number));
    }
    assert_eq!(table.clears.len(), MAX_CLEARS);
    let later = Mono(LONGEST_MS);
    let changed = table.merge(backoff("a", "late", 9, 20_000), 0, later);
    assert_eq!(changed, [route("a", "late")], "what is over makes room");
    table.prune(Mono(10 * LONGEST_MS));
    assert!(table.routes.is_empty() && table.clears.is_empty());
}

#[test]
fn names_that_no_provider_has_and_stamps_that_no_node_issues_are_refused() {
    let mut table = Table::default();
    let long = "m".repeat(MAX_MODEL_NAME_BYTES + 1);
    assert!(
        table
            .merge(backoff("a", &long, 1, 20_000), 0, Mono(0))
            .is_empty()
    );
    assert!(!table.is_news(&route("a", &long), DRY, Mono(0), Mono(0)));
    assert!(
        table
            .merge(backoff("a", "m", u64::MAX, 20_000), 0, Mono(0))
            .is_empty()
    );
    let clear = Signal::Clear {
        what: Selector::All,
        stamp: stamp(u64::MAX),
    };
    table.merge(clear, 0, Mono(0));
    assert!(
        !table
            .merge(backoff("a", "m", 1, 20_000), 0, Mono(0))
            .is_empty()
    );
}

fn signal() -> impl Strategy<Value = Signal> {
    let name = prop_oneof![Just("a"), Just("b")];
    let model = prop_oneof![Just("m"), Just("n")];
    let what = (name.clone(), model.clone(), 0..4_u8).prop_map(|(key, model, kind)| match kind {
        0 => Selector::All,
        1 => Selector::Provider("openai".into()),
        2 => Selector::Key("openai".into(), key.into()),
        _ => Selector::Model("openai".into(), key.into(), model.into()),
    });
    let waits = prop_oneof![Just(0), 1_000..400_000_u64];
    prop_oneof![
        3 => (name, model, 0..8_u64, waits).prop_map(|(k, m, at, ms)| backoff(k, m, at, ms)),
        1 => (what, 0..8_u64).prop_map(|(what, at)| Signal::Clear { what, stamp: stamp(at) }),
    ]
}

fn merged(signals: &[Signal]) -> Table {
    let mut table = Table::default();
    for signal in signals {
        table.merge(signal.clone(), 0, Mono(1_000));
    }
    table
}

proptest! {
    #[test]
    fn the_order_of_signals_does_not_matter(
        signals in prop::collection::vec(signal(), 0..12),
        order in any::<prop::sample::Index>(),
    ) {
        let mut other = signals.clone();
        if !other.is_empty() {
            let at = order.index(other.len());
            other.rotate_left(at);
            other.reverse();
        }
        let (a, b) = (merged(&signals), merged(&other));
        prop_assert_eq!(&a.routes, &b.routes);
        prop_assert_eq!(&a.clears, &b.clears);
    }

    #[test]
    fn a_signal_that_comes_again_changes_nothing(
        signals in prop::collection::vec(signal(), 0..12),
        again in any::<prop::sample::Index>(),
    ) {
        let mut table = merged(&signals);
        if !signals.is_empty() {
            let changed = table.merge(signals[again.index(signals.len())].clone(), 0, Mono(1_000));
            prop_assert!(changed.is_empty());
        }
        let once = merged(&signals);
        prop_assert_eq!(&table.routes, &once.routes);
        prop_assert_eq!(&table.clears, &once.clears);
    }
}
