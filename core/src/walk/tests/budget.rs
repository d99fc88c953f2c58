//! Retry budgets: what a whole provider may retry, over all requests.

use super::*;
use FailureClass::{Credential, RateLimit, Transient};

/// Plays so many requests at once against the same providers, all answered alike.
fn plays(view: &View, legs: &[&str], requests: usize, answer: FailureClass) -> Vec<Play> {
    let mut plays = Vec::new();
    for seed in 0..requests {
        let mut play = Play::new(view.clone(), legs).seed(seed as u64);
        play.run(&[Some(answer)]);
        plays.push(play);
    }
    plays
}

fn calls(plays: &[Play]) -> usize {
    plays.iter().map(|play| play.calls.len()).sum()
}

#[test]
fn a_brown_out_is_not_answered_with_a_multiple_of_the_traffic() {
    for class in [Transient, RateLimit] {
        let view = plain([pool(3, 3).budget(200, 5)]);
        let with = calls(&plays(&view, &["p"], 100, class));
        // Each request begins at the same instant, so that time earns two seconds at the most.
        assert!((120..=100 + 20 + 2 * 5).contains(&with), "{with}");
        let without = calls(&plays(&plain([pool(3, 3)]), &["p"], 100, class));
        assert_eq!(without, 400);
    }
}

#[test]
fn a_refused_retry_is_told_and_fallbacks_go_on() {
    let view = plain([pool(2, 3).budget(0, 0), provider("q", [key("z")])]);
    let mut play = Play::new(view, &["p", "q"]);
    assert_eq!(play.run(&[Some(Transient), None]), Ending::Served);
    assert_eq!(play.calls[1..], ["q z"]);
    assert!(play.waits.is_empty());
    let lines = play.lines();
    assert!(lines.contains("No retry for p/"), "{lines}");
    assert!(lines.contains("retry budget is spent"), "{lines}");
    assert!(lines.contains("Request served by fallback q/"), "{lines}");
}

/// RF-013: a dead key is no reason to stop, whatever the budget.
#[test]
fn attempts_past_dead_keys_are_neither_limited_nor_counted() {
    let view = plain([pool(5, 1).budget(0, 1)]);
    let mut past_dead = Play::new(view.clone(), &["p"]);
    let dead = Some(Credential);
    assert_eq!(
        past_dead.run(&[dead, dead, dead, dead, None]),
        Ending::Served
    );
    let mut retried = Play::new(view, &["p"]);
    assert_eq!(retried.run(&[Some(RateLimit), None]), Ending::Served);
}

#[test]
fn requests_that_serve_earn_retries_for_those_that_fail() {
    let view = plain([pool(1, 1).budget(250, 0)]);
    for _ in 0..3 {
        Play::new(view.clone(), &["p"]).run(&[None]);
    }
    let failed = plays(&view, &["p"], 4, Transient);
    let made: Vec<usize> = failed.iter().map(|play| play.calls.len()).collect();
    assert_eq!(made, [2, 1, 1, 1]);
}
