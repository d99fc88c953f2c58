//! What holds for any providers and any sequence of outcomes.

use proptest::prelude::*;

use super::*;
use crate::failure::class::Retry;

#[derive(Clone, Debug)]
struct Shape {
    keys: usize,
    retries: u32,
    keyless: bool,
    held: Vec<Option<u64>>,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let held = prop::collection::vec(prop::option::of(0..60_000u64), 4);
    (0..=4usize, 0..4u32, prop::bool::weighted(0.15), held).prop_map(
        |(keys, retries, keyless, held)| Shape {
            keys,
            retries,
            keyless,
            held,
        },
    )
}

fn answers() -> impl Strategy<Value = Answer> {
    prop_oneof![
        1 => Just(None),
        12 => prop::sample::select(&FailureClass::ALL[..]).prop_map(Some),
    ]
}

fn built(at: usize, shape: &Shape) -> ProviderView {
    let keys = (0..if shape.keyless { 0 } else { shape.keys }).map(|n| {
        let key = key(&format!("k{n}"));
        match shape.held[n] {
            Some(due) => key.held(due),
            None => key,
        }
    });
    let provider = provider(&format!("p{at}"), keys).retries(shape.retries);
    if shape.keyless {
        provider.keyless()
    } else {
        provider
    }
}

proptest! {
    // `PROPTEST_CASES` may ask for more.
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(600)))]

    #[test]
    fn every_request_ends_within_its_bounds(
        shapes in prop::collection::vec(shapes(), 1..4),
        said in prop::collection::vec(answers(), 80),
        seed in any::<u64>(),
        max_attempts in 1..20u32,
        adaptive in any::<bool>(),
        holding in any::<bool>(),
        pinned in prop::bool::weighted(0.2),
    ) {
        let mut view = view(shapes.iter().enumerate().map(|(at, shape)| built(at, shape)));
        view.adaptive = adaptive;
        let names: Vec<String> = (0..shapes.len())
            .map(|at| if at == 0 && pinned { "p0@k0".to_owned() } else { format!("p{at}") })
            .collect();
        let legs: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut play = Play::new(view, &legs).seed(seed).limit(max_attempts);
        play.holding = holding && adaptive;

        let mut dead: Vec<(u32, String)> = vec![];
        let (mut charged, mut attempts) = (0u32, 0usize);
        let mut last_index = 0;
        let ending = loop {
            let attempt = match play.call() {
                Ok(attempt) => attempt,
                Err(ending) => break ending,
            };
            prop_assert_eq!(attempt.number as usize, attempts);
            prop_assert!(attempt.fallback_index >= last_index);
            last_index = attempt.fallback_index;
            let key = attempt.key.as_ref().map(|key| key.id.to_string());
            if let Some(key) = &key {
                let route = (attempt.fallback_index, key.clone());
                prop_assert!(!dead.contains(&route), "a dead key was called again");
            }
            prop_assert!(adaptive || (attempt.token.is_none() && attempt.check.is_none()));
            let answer = said[attempts];
            attempts += 1;
            charged += 1;
            if let (Some(class), Some(key)) = (answer, key)
                && class.retry() == Retry::NextKeyGranted
            {
                dead.push((attempt.fallback_index, key));
                charged -= 1;
            }
            play.answer(&attempt, answer);
            prop_assert!(charged <= max_attempts);
            prop_assert!(attempts < said.len(), "it does not end");
        };

        let granted = attempts - charged as usize;
        let keys: usize = shapes.iter().map(|shape| shape.keys).sum();
        prop_assert!(granted <= keys);
        let budget: usize = shapes.iter().map(|shape| 1 + shape.retries as usize).sum();
        prop_assert!(charged as usize <= budget);

        // Over is over.
        prop_assert_eq!(play.call().unwrap_err(), ending);
        play.walk.observe(outcome(None), play.now);
        prop_assert_eq!(play.call().unwrap_err(), ending);
        let entries = play.walk.attempts();
        prop_assert_eq!(entries.len(), attempts);
        match ending {
            Ending::Served => prop_assert!(entries.last().unwrap().failure_class.is_none()),
            Ending::Failed { attempt } | Ending::CredentialsExhausted { attempt } => {
                prop_assert!(entries[attempt as usize].failure_class.is_some());
                prop_assert!(entries.iter().all(|entry| entry.failure_class.is_some()));
            }
            Ending::NothingToCall => prop_assert_eq!(attempts, 0),
        }
    }

    #[test]
    fn the_backoff_keeps_to_the_formula(
        initial in 0..100_000u64,
        max in 0..100_000u64,
        retry in 0..70u32,
        seed in any::<u64>(),
    ) {
        let policy = RetryPolicy { max_retries: 1, backoff_initial_ms: initial, backoff_max_ms: max, budget: None };
        let wait = backoff::wait_ms(policy, retry, &mut rng(seed));
        let doubled = u128::from(initial) << retry.min(64);
        let base = u64::try_from(doubled.min(u128::from(max))).unwrap();
        prop_assert!(wait >= base * 8 / 10 && wait <= (base * 12 / 10).min(max));
    }
}

/// An attempt that nobody observed is taken for cancelled, and nothing is sent twice.
#[test]
fn a_forgotten_attempt_ends_the_request() {
    let mut play = Play::new(plain([pool(2, 3)]), &["p"]);
    play.call().unwrap();
    assert_eq!(play.call().unwrap_err(), Ending::Failed { attempt: 0 });
    assert_eq!(play.calls.len(), 1);
}
