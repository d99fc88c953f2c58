//! Every transition, and what does not make one.

use proptest::prelude::*;

use super::super::tuning::RECOMPUTE_MS;
use super::*;

fn errors(served: u32, failed: u32) -> Errors {
    let mut errors = Errors::default();
    errors.fold(Tally { served, failed }, 1.0);
    errors
}

fn quiet() -> Signs {
    Signs {
        errors: Errors::default(),
        period: Tally::default(),
        slowness: 1.0,
        lasted_ms: RECOMPUTE_MS,
    }
}

fn with_errors(served: u32, failed: u32) -> Signs {
    Signs {
        errors: errors(served, failed),
        ..quiet()
    }
}

fn in_a_row(failed: u32) -> Signs {
    let mut signs = with_errors(100, failed);
    for _ in 0..failed {
        signs.errors.failed();
    }
    signs
}

fn period(served: u32, failed: u32) -> Signs {
    Signs {
        period: Tally { served, failed },
        ..quiet()
    }
}

#[test]
fn a_few_errors_degrade_and_one_does_not() {
    assert_eq!(Phase::Healthy.next(&with_errors(0, 1)), Phase::Healthy);
    assert_eq!(Phase::Healthy.next(&with_errors(990, 10)), Phase::Healthy);
    assert_eq!(Phase::Healthy.next(&with_errors(92, 8)), Phase::Degraded);
}

#[test]
fn slowness_degrades_and_never_fails() {
    let slow = Signs {
        slowness: 50.0,
        ..quiet()
    };
    assert_eq!(Phase::Healthy.next(&slow), Phase::Degraded);
    let long = Signs {
        lasted_ms: 3_600_000,
        ..slow
    };
    assert_eq!(Phase::Degraded.next(&long), Phase::Degraded);
    let slower = Signs {
        slowness: 2.9,
        ..quiet()
    };
    assert_eq!(Phase::Healthy.next(&slower), Phase::Healthy);
}

#[test]
fn degraded_settles_when_it_is_clean_and_not_before() {
    let mut signs = with_errors(300, 1);
    assert_eq!(Phase::Degraded.next(&signs), Phase::Degraded, "too soon");
    signs.lasted_ms = DEGRADED_LEAST_MS;
    assert_eq!(Phase::Degraded.next(&signs), Phase::Healthy);
    signs.errors = errors(95, 3);
    assert_eq!(Phase::Degraded.next(&signs), Phase::Degraded, "still errs");
    signs.errors = errors(300, 0);
    signs.slowness = 2.1;
    assert_eq!(Phase::Degraded.next(&signs), Phase::Degraded, "still slow");
}

#[test]
fn sustained_errors_fail() {
    assert_eq!(Phase::Degraded.next(&with_errors(67, 33)), Phase::Degraded);
    assert_eq!(Phase::Degraded.next(&with_errors(40, 60)), Phase::Failed);
}

#[test]
fn a_burst_fails_without_being_degraded() {
    assert_eq!(
        Phase::Healthy.next(&in_a_row(BURST_IN_A_ROW)),
        Phase::Failed
    );
    assert_ne!(
        Phase::Healthy.next(&in_a_row(BURST_IN_A_ROW - 1)),
        Phase::Failed
    );
    assert_eq!(Phase::Healthy.next(&period(5, 5)), Phase::Failed);
    assert_ne!(
        Phase::Healthy.next(&period(4, 5)),
        Phase::Failed,
        "too few to be sure"
    );
    assert_ne!(Phase::Healthy.next(&period(6, 5)), Phase::Failed);
}

#[test]
fn a_failed_route_rests_then_recovers() {
    let mut signs = quiet();
    assert_eq!(Phase::Failed.next(&signs), Phase::Failed);
    signs.lasted_ms = REST_MS;
    assert_eq!(Phase::Failed.next(&signs), Phase::RECOVERING);
}

#[test]
fn a_recovering_route_that_fails_again_is_failed() {
    assert_eq!(Phase::RECOVERING.next(&period(0, 1)), Phase::Failed);
    assert_eq!(Phase::RECOVERING.next(&period(4, 1)), Phase::Failed);
    assert_eq!(
        Phase::RECOVERING.next(&period(9, 1)),
        Phase::RECOVERING,
        "it neither fails nor is it clean"
    );
}

#[test]
fn clean_periods_earn_the_share_back() {
    let half = Phase::RECOVERING.next(&period(1, 0));
    assert_eq!(half, Phase::Recovering { progress: 0.5 });
    assert_eq!(half.next(&period(99, 1)), Phase::Healthy);
}

#[test]
fn waiting_alone_never_makes_healthy() {
    let mut phase = Phase::RECOVERING;
    let mut before = 0.0;
    for _ in 0..1_000 {
        phase = phase.next(&quiet());
        let Phase::Recovering { progress } = phase else {
            panic!("{phase:?}")
        };
        assert!(progress >= before);
        before = progress;
    }
    assert!(before <= RAMP_IDLE_MOST);
    assert_eq!(
        Phase::Recovering { progress: 0.9 }.next(&quiet()),
        Phase::Recovering { progress: 0.9 },
        "and takes nothing back"
    );
}

proptest! {
    #[test]
    fn only_the_drawn_transitions_happen(
        from in prop_oneof![
            Just(Phase::Healthy), Just(Phase::Degraded), Just(Phase::Failed),
            (0.0..1.0_f64).prop_map(|progress| Phase::Recovering { progress }),
        ],
        (served, failed) in (0_u32..50, 0_u32..50),
        (past_served, past_failed) in (0_u32..50, 0_u32..50),
        row in 0_u32..8,
        slowness in 0.1..20.0_f64,
        lasted_ms in 0_u64..60_000,
    ) {
        let mut signs = Signs { slowness, lasted_ms, ..period(served, failed) };
        signs.errors = errors(past_served, past_failed);
        for _ in 0..row {
            signs.errors.failed();
        }
        let to = from.next(&signs).state();
        let drawn: &[State] = match from.state() {
            State::Healthy => &[State::Healthy, State::Degraded, State::Failed],
            State::Degraded => &[State::Degraded, State::Healthy, State::Failed],
            State::Failed => &[State::Failed, State::Recovering],
            State::Recovering => &[State::Recovering, State::Failed, State::Healthy],
        };
        prop_assert!(drawn.contains(&to), "{from:?} to {to:?}");
        if let (Phase::Recovering { progress: before }, Phase::Recovering { progress }) = (from, from.next(&signs)) {
            prop_assert!(progress >= before);
        }
    }
}
