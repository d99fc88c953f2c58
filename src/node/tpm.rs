//! Token limits on this node: what requests learn of them, what others tell, what requests see.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdline_core::holds::{Record, RouteKey, Selector};
use holdline_core::routing::View;
use holdline_core::time::{Hlc, Mono};
use holdline_core::tpm::{self, Backoff, IncomingSignal, Level, Signal, Table};

use super::{KeyOfProvider, Live, Node, Replicated};

impl Node {
    /// Learns what an answer says of its route's token limit, shows it and tells the nodes of the region.
    /// `sent` is when the request was; `held` the stamp of the hold that the answer made, if it made one:
    /// the release of it is to end the backoff too.
    ///
    /// Costs no lock where it is no news.
    pub fn note_tokens(&self, route: &RouteKey, level: Level, sent: Mono, held: Option<Hlc>) {
        let now = self.clock.now();
        if !may_be_news(&self.live().view, route, level, now) {
            return;
        }
        let signal = {
            let mut state = self.lock();
            let Replicated { ledger, tpm, .. } = &mut *state;
            if !tpm.is_news(route, level, sent, now) {
                return;
            }
            let stamp = held.unwrap_or_else(|| ledger.tick(self.clock.wall()));
            let signal = Signal::Backoff(Backoff::new(route.clone(), level, stamp));
            let changed = tpm.merge(signal.clone(), 0, now);
            self.show_dry(&state, &changed);
            signal
        };
        if matches!(level, Level::Dry { .. }) {
            self.metrics.token_limit(&route.provider);
        }
        self.signal(signal);
    }

    /// An operator's release also ends the backoffs of what it names, on every node: this one may not know
    /// of any.
    pub(super) fn release_backoffs(&self, what: &Selector) {
        let signal = {
            let mut state = self.lock();
            let stamp = state.ledger.tick(self.clock.wall());
            let signal = Signal::Clear {
                what: what.clone(),
                stamp,
            };
            let changed = state.tpm.merge(signal.clone(), 0, self.clock.now());
            self.show_dry(&state, &changed);
            signal
        };
        self.signal(signal);
    }

    fn signal(&self, signal: Signal) {
        if let Some(cluster) = self.cluster.get() {
            cluster.signal(signal);
        }
    }

    /// Takes in what other nodes know. Returns how many changed something.
    pub(super) fn take_in_signals(&self, signals: Vec<IncomingSignal>) -> usize {
        let mut state = self.lock();
        let now = self.clock.now();
        let mut changed = Vec::new();
        let mut count = 0;
        for IncomingSignal { signal, age_ms } in signals {
            let (Signal::Backoff(Backoff { stamp, .. }) | Signal::Clear { stamp, .. }) = &signal;
            state.ledger.observe(*stamp);
            let routes = state.tpm.merge(signal, age_ms, now);
            count += usize::from(!routes.is_empty());
            changed.extend(routes);
        }
        self.show_dry(&state, &changed);
        count
    }

    /// Holds have changed: releases end backoffs.
    pub(super) fn follow_holds<'a>(
        &self,
        state: &mut Replicated,
        changed: impl IntoIterator<Item = (&'a Record, u64)>,
    ) {
        let now = self.clock.now();
        let ended = changed.into_iter().flat_map(|(record, age_ms)| {
            let routes = state.tpm.follow(record, age_ms, now);
            routes.into_iter()
        });
        let ended: Vec<RouteKey> = ended.collect();
        self.show_dry(state, &ended);
    }

    /// Makes changed backoffs visible to requests. The caller holds the mutex.
    pub(super) fn show_dry(&self, state: &Replicated, changed: &[RouteKey]) {
        if changed.is_empty() {
            return;
        }
        let live = self.live.load();
        let view = with_dry(live.view.clone(), &state.tpm, changed, self.clock.now());
        self.live.store(Arc::new(Live {
            view,
            catalog: Arc::clone(&live.catalog),
        }));
    }
}

/// The view with what is known of these routes' keys.
pub(super) fn with_dry<'a>(
    mut view: View,
    tpm: &Table,
    routes: impl IntoIterator<Item = &'a RouteKey>,
    now: Mono,
) -> View {
    let keys: BTreeSet<KeyOfProvider> = routes
        .into_iter()
        .map(|r| (r.provider.clone(), r.key.clone(), r.fingerprint))
        .collect();
    for (provider, key, fingerprint) in keys {
        let found = view.provider(&provider).and_then(|p| p.key(&key));
        if found.is_some_and(|found| found.spec.fingerprint == fingerprint) {
            let dry = tpm.dry(&provider, &key, fingerprint, now);
            view = view.with_dry(&provider, &key, dry);
        }
    }
    view
}

/// Whether an answer may change what requests see: most say that there is plenty of what is not dry.
fn may_be_news(view: &View, route: &RouteKey, level: Level, now: Mono) -> bool {
    let key = view
        .provider(&route.provider)
        .and_then(|provider| provider.key(&route.key))
        .filter(|key| view.adaptive && key.spec.fingerprint == route.fingerprint);
    let Some(key) = key else { return false };
    match (level, key.dry_until(&route.model, now)) {
        (Level::Dry { .. }, None) | (Level::Ample, Some(_)) => true,
        (Level::Dry { wait_ms }, Some(until)) => tpm::is_new_end(until, wait_ms, now),
        (Level::Ample, None) => false,
    }
}
