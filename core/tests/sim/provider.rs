//! A provider that changes its mind: what it thinks of each key, and what it answers.

use std::collections::BTreeMap;

use holdline_core::failure::{Reason, Scope};
use holdline_core::holds::Answer;
use holdline_core::holds::settle::Refusal;
use holdline_core::ids::Fingerprint;
use rand::Rng;
use rand::rngs::StdRng;

use crate::world::{MODELS, pick};

/// The order in which a provider settles its questions.
pub(crate) const QUESTIONS: [Reason; 6] = [
    Reason::RegionBlocked,
    Reason::Credential,
    Reason::Quota,
    Reason::ModelAccess,
    Reason::ModelGone,
    Reason::RateLimit,
];

const STATED_MS: [u64; 6] = [250, 1_000, 20_000, 77_000, 240_000, 3_600_000];

/// What it has against one key, as the key is configured.
#[derive(Clone, Copy, Debug, Default)]
struct Mind {
    key: Option<Reason>,
    models: [Option<Reason>; MODELS],
    stated_ms: Option<u64>,
    is_down: bool,
}

/// The provider.
#[derive(Debug, Default)]
pub(crate) struct Provider {
    minds: BTreeMap<Fingerprint, Mind>,
    /// Which reasons it gave for which key.
    pub(crate) refused: BTreeMap<Fingerprint, Vec<Reason>>,
}

impl Provider {
    /// Thinks again about one key.
    pub(crate) fn change_mind(&mut self, key: Fingerprint, rng: &mut StdRng) {
        let mut reason = |scope: Scope| {
            let reasons: Vec<Reason> = Reason::ALL
                .into_iter()
                .filter(|reason| reason.scope() == scope)
                .collect();
            rng.random_bool(0.4).then(|| pick(rng, &reasons))
        };
        let mind = Mind {
            key: reason(Scope::Key),
            models: [reason(Scope::Model), reason(Scope::Model)],
            stated_ms: rng.random_bool(0.3).then(|| pick(rng, &STATED_MS)),
            is_down: rng.random_bool(0.1),
        };
        self.minds.insert(key, mind);
    }

    /// Forgives everything.
    pub(crate) fn forgive(&mut self, key: Fingerprint) {
        self.minds.remove(&key);
    }

    pub(crate) fn answer(&mut self, key: Fingerprint, model: usize, rng: &mut StdRng) -> Answer {
        let mind = self.minds.get(&key).copied().unwrap_or_default();
        let is_callers_fault = rng.random_bool(0.04);
        if rng.random_bool(if mind.is_down { 0.7 } else { 0.04 }) {
            return Answer::Inconclusive;
        }
        let against = [mind.key, mind.models[model]];
        let Some(reason) = QUESTIONS
            .into_iter()
            .find(|question| against.contains(&Some(*question)))
        else {
            return if is_callers_fault {
                Answer::CallerFault
            } else {
                Answer::Served
            };
        };
        self.refused.entry(key).or_default().push(reason);
        Answer::Refused(Refusal {
            reason,
            stated_ms: mind.stated_ms.filter(|_| rng.random_bool(0.7)),
            words: "no".to_owned(),
            status: 403,
        })
    }
}
