//! From measurements to a weight: errors first, latency second, load third, each a factor from 0 to 1.

use super::tuning::{
    ASSUMED_FAST, ASSUMED_IN_FLIGHT, ERROR_STEEPNESS, FULL_WEIGHT, LATENCY_POWER,
    LEAST_LOAD_FACTOR, LEAST_WEIGHT, RAMP_START, TOLERATED, USUAL_POWER,
};

/// What failures leave of a weight.
pub(super) fn of_errors(rate: f64) -> f64 {
    (-ERROR_STEEPNESS * rate).exp()
}

/// What latency leaves of a weight: a ratio to the peers, and one to what is usual.
pub(super) fn of_latency(to_peers: f64, to_usual: f64) -> f64 {
    let ratio = to_peers.max(to_usual.powf(USUAL_POWER));
    if ratio <= TOLERATED {
        1.0
    } else {
        (TOLERATED / ratio).powf(LATENCY_POWER)
    }
}

/// What load leaves of a weight: requests in flight against a fair share of them.
pub(super) fn of_load(in_flight: f64, fair: f64, least: f64) -> f64 {
    let over = (in_flight + ASSUMED_IN_FLIGHT) / (fair + ASSUMED_IN_FLIGHT);
    (TOLERATED / over).clamp(least, 1.0)
}

/// [`of_load`] of a key.
pub(super) fn of_key_load(in_flight: f64, fair: f64) -> f64 {
    of_load(in_flight, fair, LEAST_LOAD_FACTOR)
}

/// What a ramp leaves of a weight.
pub(super) fn of_ramp(progress: f64) -> f64 {
    RAMP_START + (1.0 - RAMP_START) * progress
}

/// A ratio as far as the evidence carries it: few samples say little.
pub(super) fn with_evidence(ratio: f64, samples: f64) -> f64 {
    ratio.powf(samples / (samples + ASSUMED_FAST))
}

/// The weight of a usable route.
pub(super) fn weight(quality: f64) -> f64 {
    (FULL_WEIGHT * quality).clamp(LEAST_WEIGHT, FULL_WEIGHT)
}

#[cfg(test)]
mod tests {
    use super::super::tuning::LEAST_PROVIDER_LOAD_FACTOR;
    use super::*;

    #[test]
    fn errors_weigh_more_than_latency_and_latency_more_than_load() {
        for worse in [0.3, 0.5, 1.0, 3.0] {
            let errors = of_errors(worse);
            let latency = of_latency(1.0 + worse, 1.0);
            let load = of_key_load((1.0 + worse) * 100.0 + worse * ASSUMED_IN_FLIGHT, 100.0);
            assert!(errors < latency && latency < load, "{worse}");
        }
    }

    #[test]
    fn nothing_wrong_costs_nothing() {
        assert_eq!(
            weight(of_errors(0.0) * of_latency(1.05, 1.15) * of_key_load(5.5, 5.0)),
            FULL_WEIGHT
        );
        assert_eq!(of_latency(0.1, 0.1), 1.0);
        assert_eq!(of_key_load(0.0, 100.0), 1.0);
    }

    #[test]
    fn more_of_a_penalty_never_gives_more_weight_and_the_least_is_kept() {
        let falls = |of: &dyn Fn(f64) -> f64| {
            let weights: Vec<f64> = (0..200)
                .map(|at| weight(of(f64::from(at) / 10.0)))
                .collect();
            assert!(weights.is_sorted_by(|one, next| one >= next));
            assert!(
                weights
                    .iter()
                    .all(|w| (LEAST_WEIGHT..=FULL_WEIGHT).contains(w))
            );
        };
        falls(&of_errors);
        falls(&|ratio| of_latency(ratio, 1.0));
        falls(&|ratio| of_latency(1.0, ratio));
        falls(&|load| of_key_load(load * 10.0, 1.0));
        falls(&|undone| of_ramp(1.0 - undone / 20.0));
    }

    #[test]
    fn its_own_past_counts_less_than_its_peers() {
        assert!(of_latency(1.0, 5.0) < 1.0);
        assert!(of_latency(1.0, 5.0) > of_latency(5.0, 1.0));
    }

    #[test]
    fn load_alone_cannot_outweigh_a_few_failures() {
        assert!(of_key_load(1e6, 1.0) > of_errors(0.08));
        assert!(of_load(1e6, 1.0, LEAST_PROVIDER_LOAD_FACTOR) > of_errors(0.01));
    }

    #[test]
    fn evidence_fades_to_none() {
        assert!((with_evidence(10.0, 0.0) - 1.0).abs() < 1e-9);
        assert!(with_evidence(10.0, 100.0) > 9.0);
    }
}
