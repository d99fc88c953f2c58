//! Why a key of a provider is used or passed over.

use super::KeyTold;
use crate::health::State;
use crate::holds::view::Standing;
use crate::holds::{Body, KeyHolds};
use crate::ids::{KeyId, ModelId};
use crate::routing::key::shares;
use crate::routing::view::{KeySpec, KeyView, ProviderView, View};
use crate::time::Mono;

/// Every key of the provider, as the first attempt of a request finds it.
pub(super) fn told(
    view: &View,
    provider: &ProviderView,
    model: &ModelId,
    pinned: Option<&KeyId>,
    now: Mono,
) -> Vec<KeyTold> {
    let keys = Keys {
        view,
        provider,
        model,
        pinned,
        now,
    };
    let shares = keys.shares();
    let told = |(at, share)| keys.told(at, share);
    shares.into_iter().enumerate().map(told).collect()
}

struct Keys<'a> {
    view: &'a View,
    provider: &'a ProviderView,
    model: &'a ModelId,
    pinned: Option<&'a KeyId>,
    now: Mono,
}

impl Keys<'_> {
    fn serves(&self, key: &KeyView) -> bool {
        key.spec.serves(self.model.as_str())
    }

    fn standing(&self, key: &KeyView) -> Standing {
        if self.view.adaptive {
            key.holds.standing(self.model, self.now)
        } else {
            Standing::Free
        }
    }

    /// What the first attempt comes to: the pinned key; a check; by weight; the held key due soonest.
    fn shares(&self) -> Vec<f64> {
        let keys = &self.provider.keys;
        let only = |at: usize| {
            let mut shares = vec![0.0; keys.len()];
            shares[at] = 1.0;
            shares
        };
        let find = |fit: &dyn Fn(&KeyView) -> bool| {
            keys.iter().position(|key| self.serves(key) && fit(key))
        };
        if let Some(pinned) = self.pinned {
            return find(&|key| key.spec.id == *pinned).map_or(vec![0.0; keys.len()], only);
        }
        if let Some(due) = find(&|key| self.standing(key) == Standing::Due) {
            return only(due);
        }
        let shares = shares(self.view, self.provider, self.model, self.now);
        if shares.iter().any(|share| *share > 0.0) {
            return shares;
        }
        let held = keys.iter().enumerate().filter(|(_, key)| self.serves(key));
        let soonest = held.min_by_key(|(_, key)| match self.standing(key) {
            Standing::Held { due } => due,
            Standing::Free | Standing::Due | Standing::Checking => self.now,
        });
        soonest.map_or(shares, |(at, _)| only(at))
    }

    fn told(&self, at: usize, share: f64) -> KeyTold {
        let key = &*self.provider.keys[at];
        let standing = self.standing(key);
        let held = self.serves(key) && standing != Standing::Free;
        let state = if held {
            State::Failed
        } else {
            self.provider.route_state(at, self.model)
        };
        KeyTold {
            key: key.spec.id.clone(),
            name: key.spec.name.clone(),
            state,
            held,
            share,
            why: self.why(key, standing, state, share),
        }
    }

    fn why(&self, key: &KeyView, standing: Standing, state: State, share: f64) -> String {
        if !self.serves(key) {
            return refuses(&key.spec, self.model);
        }
        if let Some(pinned) = self.pinned {
            return if key.spec.id == *pinned {
                "the request is pinned to it".to_owned()
            } else {
                "the request is pinned to another key".to_owned()
            };
        }
        let used = share > 0.0;
        match standing {
            Standing::Free => free(&key.spec, state, used),
            Standing::Held { due } => {
                let seconds = due.0.saturating_sub(self.now.0).div_ceil(1_000);
                let all = if used {
                    "; every key is held, and it is due soonest"
                } else {
                    ""
                };
                let reason = reason(&key.holds, self.model);
                format!("held ({reason}), next check in {seconds} s{all}")
            }
            Standing::Due => {
                let reason = reason(&key.holds, self.model);
                let who = if used { "this request" } else { "a request" };
                format!("held ({reason}), and due: {who} checks it")
            }
            Standing::Checking => {
                let reason = reason(&key.holds, self.model);
                format!("held ({reason}), and another request is checking it")
            }
        }
    }
}

/// Why a key may not serve a model.
fn refuses(spec: &KeySpec, model: &ModelId) -> String {
    if !spec.enabled {
        "disabled".to_owned()
    } else if spec.blocked.contains(model.as_str()) {
        format!("{model} is among its blacklisted_models")
    } else {
        format!("{model} is not among its models")
    }
}

fn free(spec: &KeySpec, state: State, used: bool) -> String {
    let words = match (state, used) {
        (State::Healthy, true) => "serves",
        (State::Degraded, true) => "degraded: gets less than its share",
        (State::Recovering, true) => "recovering: its share grows as it serves",
        (State::Failed, true) => "failing, but no other key is left: it has rested longest",
        (State::Failed, false) => "failing: it gets no requests until it recovers",
        (State::Healthy | State::Degraded | State::Recovering, false) if spec.weight > 0.0 => {
            "free, but another key is checked first"
        }
        (State::Healthy | State::Degraded | State::Recovering, false) => {
            "its weight is 0: used where no other key is left"
        }
    };
    words.to_owned()
}

/// Why the key is held, as the API names it: for the whole key where that is held too.
fn reason(holds: &KeyHolds, model: &ModelId) -> &'static str {
    let covering = [holds.key.as_ref(), holds.models.get(model)];
    covering
        .into_iter()
        .flatten()
        .find_map(|hold| match hold.register.body {
            Body::Held { reason, .. } => Some(reason.words()),
            Body::Free { .. } => None,
        })
        .unwrap_or("refused")
}
