//! What is remembered, and what is forgotten.

use proptest::prelude::*;

use super::*;

const EVEN: f64 = 1.0;

fn tally(served: u32, failed: u32) -> Tally {
    Tally { served, failed }
}

fn whole(samples: &[(f64, Option<u64>)]) -> Latency {
    let mut latency = Latency::default();
    for (ms, tokens) in samples {
        latency.add_whole(*ms, *tokens);
    }
    latency
}

fn assert_near(found: f64, expected: f64) {
    assert!(
        (found / expected - 1.0).abs() < 0.05,
        "{found}, not {expected}"
    );
}

#[test]
fn old_failures_lose_their_effect() {
    let mut errors = Errors::default();
    errors.fold(tally(50, 50), EVEN);
    let mut before = errors.rate();
    for _ in 0..20 {
        errors.fold(Tally::default(), 0.7);
        assert!(errors.rate() <= before);
        before = errors.rate();
    }
    assert!(before < 0.02, "{before}");
    for _ in 0..40 {
        errors.fold(Tally::default(), 0.7);
    }
    assert_eq!((errors.rate(), errors.shown()), (0.0, 0.0));
}

#[test]
fn one_failure_is_shown_in_full_but_says_little() {
    let mut errors = Errors::default();
    errors.failed();
    errors.fold(tally(0, 1), EVEN);
    assert_eq!(errors.shown(), 1.0);
    assert!(errors.rate() < 0.1);
}

#[test]
fn a_clean_run_that_chance_does_not_explain_forgives() {
    let mut errors = Errors::default();
    errors.fold(tally(20, 20), EVEN);
    for _ in 0..8 {
        errors.served();
    }
    errors.fold(tally(8, 0), 0.9);
    assert!(errors.shown() > 0.3, "eight of them could be luck");
    for _ in 0..8 {
        errors.served();
    }
    errors.fold(tally(8, 0), 0.9);
    assert_eq!(errors.shown(), 0.0);
}

#[test]
fn a_rare_failure_is_not_forgiven_by_what_comes_between() {
    let mut errors = Errors::default();
    for at in 0..400 {
        if at % 20 == 0 {
            errors.failed();
            errors.fold(tally(0, 1), 0.99);
        } else {
            errors.served();
            errors.fold(tally(1, 0), 0.99);
        }
        assert!(errors.shown() > 0.0);
    }
}

#[test]
fn a_long_answer_is_not_a_slow_one() {
    let short = whole(&[(400.0, Some(20)); 10]);
    let long = whole(&[(20_000.0, Some(1_000)); 10]);
    for (one, other) in [(&short, &long), (&long, &short)] {
        assert_near(one.ratio(&other.means()).unwrap(), 1.0);
    }
    let slow = whole(&[(4_000.0, Some(20)); 10]);
    assert_near(slow.ratio(&short.means()).unwrap(), 9.8);
    let slow_and_long = whole(&[(200_000.0, Some(1_000)); 10]);
    assert_near(slow_and_long.ratio(&short.means()).unwrap(), 9.8);
}

#[test]
fn without_tokens_the_time_alone_counts() {
    let usual = whole(&[(100.0, None); 10]);
    let slow = whole(&[(1_225.0, None); 10]);
    assert_near(slow.ratio(&usual.means()).unwrap(), 10.0);
    let told = whole(&[(100.0, Some(10)); 10]);
    assert_near(slow.ratio(&told.means()).unwrap(), 10.0);
}

#[test]
fn streams_are_compared_with_streams() {
    let mut both = whole(&[(1_000.0, Some(50)); 10]);
    let mut streams = Latency::default();
    for _ in 0..10 {
        streams.add_first_output(90.0);
    }
    assert_eq!(streams.ratio(&both.means()), None);
    for _ in 0..10 {
        both.add_first_output(1_010.0);
    }
    assert_near(both.ratio(&streams.means()).unwrap(), 9.0);
}

#[test]
fn one_answer_that_took_very_long_barely_counts() {
    let usual = whole(&[(100.0, None); 30]);
    let mut odd = usual;
    odd.add_whole(60_000.0, None);
    assert!(odd.ratio(&usual.means()).unwrap() < 1.3);
}

#[test]
fn a_period_that_is_quite_different_takes_the_place_of_what_was() {
    let slow = whole(&[(1_000.0, Some(10)); 500]);
    let fast = whole(&[(100.0, Some(10)); 8]);
    let mut latency = slow;
    latency.fold(&fast, 0.8);
    assert_near(latency.typical_ms().unwrap(), 100.0);
    let mut too_few = slow;
    too_few.fold(&whole(&[(100.0, Some(10)); 7]), 0.8);
    assert!(too_few.typical_ms().unwrap() > 900.0);
}

#[test]
fn what_is_usual_is_learnt_slowly() {
    let mut usual = Reference::default();
    let seven = whole(&[(100.0, None); 7]);
    usual.learn(&seven, &seven, 5_000);
    assert_eq!(usual.whole, None, "too few to know");
    let fast = whole(&[(100.0, None); 20]);
    usual.learn(&fast, &fast, 5_000);
    let slow = whole(&[(600.0, None); 20]);
    assert_near(slow.ratio(&usual).unwrap(), 5.0);
    for _ in 0..12 {
        usual.learn(&slow, &slow, 5_000);
    }
    assert!(
        slow.ratio(&usual).unwrap() > 4.0,
        "a slow minute is still slow"
    );
    usual.learn(&slow, &Latency::default(), 7_200_000);
    assert!(
        slow.ratio(&usual).unwrap() > 4.0,
        "nothing is learnt without traffic"
    );
    for _ in 0..720 {
        usual.learn(&slow, &slow, 5_000);
    }
    assert!(
        slow.ratio(&usual).unwrap() < 1.2,
        "a new normal is accepted"
    );
}

#[test]
fn the_faster_half_is_what_the_others_are_compared_with() {
    let of = |means: &[f64]| {
        let all: Vec<Reference> = means
            .iter()
            .map(|mean| Reference {
                whole: Some(*mean),
                ..Reference::default()
            })
            .collect();
        Reference::of_the_faster_half(&all).whole
    };
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[3.0]), Some(3.0));
    assert_eq!(of(&[3.0, 1.0]), Some(1.0));
    assert_eq!(of(&[9.0, 1.0, 2.0]), Some(1.5));
    let unmeasured = [Reference::default(); 3];
    assert_eq!(
        Reference::of_the_faster_half(&unmeasured),
        Reference::default()
    );
}

proptest! {
    #[test]
    fn rates_are_rates(periods in prop::collection::vec((0_u32..1_000, 0_u32..1_000, 0.0..1.0_f64), 0..50)) {
        let mut errors = Errors::default();
        for (served, failed, kept) in periods {
            errors.fold(tally(served, failed), kept);
            prop_assert!((0.0..=1.0).contains(&errors.shown()));
            prop_assert!((0.0..=1.0).contains(&errors.rate()));
            prop_assert!(errors.rate() <= errors.shown());
        }
    }

    #[test]
    fn latencies_stay_finite(samples in prop::collection::vec((0.0..1e9_f64, prop::option::of(0_u64..1_000_000), 0.0..1.0_f64), 1..50)) {
        let mut latency = Latency::default();
        let mut usual = Reference::default();
        for (ms, tokens, kept) in samples {
            let mut period = Latency::default();
            period.add_whole(ms, tokens);
            period.add_first_output(ms);
            latency.fold(&period, kept);
            usual.learn(&latency, &period, 5_000);
            let ratio = latency.ratio(&usual).unwrap_or(1.0);
            prop_assert!(ratio.is_finite() && ratio > 0.0);
            prop_assert!(latency.typical_ms().is_none_or(|ms| ms.is_finite() && ms >= 0.0));
        }
    }
}
