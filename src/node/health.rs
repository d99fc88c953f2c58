//! What this node measures of keys and providers: heard from its attempts, shown in its view.
//!
//! The book is behind a mutex of its own, taken for as long as it takes to count. Whoever needs both
//! mutexes takes the replicated state's first, so that views are replaced in the order of the changes.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use holdline_core::health::tuning::RECOMPUTE_MS;
use holdline_core::health::{Attempted, Book, Change, Ended, State, Ticket};
use holdline_core::ids::{KeyId, ProviderId};
use holdline_core::routing::View;
use tokio_util::sync::CancellationToken;

use super::{Live, Node, Replicated};
use crate::config::Catalog;

/// However fast the node's time passes, recomputes are at least this far apart.
const LEAST_PERIOD: Duration = Duration::from_millis(10);

impl Node {
    /// An attempt goes out. `None` where it is not measured.
    pub fn launched(&self, attempted: Attempted<'_>) -> Option<Ticket> {
        if !self.live().view.adaptive {
            return None;
        }
        self.book().launched(attempted, self.clock.now())
    }

    /// An attempt ended. Each ticket is given back once.
    pub fn ended(&self, attempted: Attempted<'_>, ticket: Ticket, ended: Ended) {
        if attempted.key.is_none() {
            self.incidents.keyless_ended(attempted, &ended);
        }
        self.book()
            .ended(attempted, ticket, ended, self.clock.now());
    }

    /// What was measured, to be read and let go.
    pub fn book(&self) -> MutexGuard<'_, Book> {
        // Sums only: a panic elsewhere leaves nothing half done.
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts what is known of the keys into a view that was made anew.
    pub(super) fn measure(&self, view: &mut View, catalog: &Catalog) {
        let mut book = self.book();
        let host = |provider: &ProviderId, key: Option<&KeyId>| host(catalog, provider, key);
        book.configure(view, host, self.clock.now());
        show_all(view, &book);
    }

    /// Puts what holds of these providers changed into a view. The caller holds the mutex of the
    /// replicated state.
    pub(super) fn see_holds<'a>(
        &self,
        view: &mut View,
        providers: impl IntoIterator<Item = &'a ProviderId>,
    ) {
        let mut book = self.book();
        for id in providers {
            let Some(provider) = view.providers.get_mut(id) else {
                continue;
            };
            if book.see_holds(provider, self.clock.now()) {
                Arc::make_mut(provider).health = Arc::new(book.health(id));
            }
        }
    }

    /// Makes states, weights and scores anew until `end`.
    pub(super) async fn recompute_health(self: Arc<Self>, end: CancellationToken) {
        let period = self.clock.real(RECOMPUTE_MS).max(LEAST_PERIOD);
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut was_out = false;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = end.cancelled() => return,
            }
            let recomputed = self.recompute(&self.lock());
            if recomputed.own_network_out && !was_out {
                tracing::warn!(
                    "no provider can be connected to, on any host: keys are not judged by it, this node's network seems to be out"
                );
            }
            was_out = recomputed.own_network_out;
            for change in &recomputed.changes {
                tell(change);
            }
        }
    }

    fn recompute(&self, _: &Replicated) -> holdline_core::health::Recomputed {
        let live = self.live.load();
        let mut view = live.view.clone();
        let recomputed = {
            let mut book = self.book();
            let recomputed = book.recompute(&view, self.clock.now());
            show_all(&mut view, &book);
            recomputed
        };
        self.live.store(Arc::new(Live {
            view,
            catalog: Arc::clone(&live.catalog),
        }));
        recomputed
    }
}

fn show_all(view: &mut View, book: &Book) {
    for (id, provider) in &mut view.providers {
        Arc::make_mut(provider).health = Arc::new(book.health(id));
    }
}

/// Where the calls of a provider, or of one of its keys, go.
fn host(catalog: &Catalog, provider: &ProviderId, key: Option<&KeyId>) -> Arc<str> {
    let provider = catalog.providers.get(provider);
    let of_key = provider.and_then(|provider| {
        let found = provider.keys.iter().find(|k| Some(&k.spec.id) == key)?;
        found.base_url.as_ref()
    });
    let url = of_key.or(provider.map(|provider| &provider.base_url));
    let host = url.and_then(http::Uri::host).unwrap_or_default();
    Arc::from(host.to_ascii_lowercase())
}

fn tell(change: &Change) {
    let Change {
        provider,
        key,
        model,
        from,
        to,
    } = change;
    let key = key.as_ref().map_or("none", KeyId::as_str);
    if *to == State::Failed {
        tracing::warn!(%provider, key, %model, from = from.name(), "a key keeps failing: it gets no requests for a while");
    } else {
        tracing::debug!(%provider, key, %model, from = from.name(), to = to.name(), "the health of a key changed");
    }
}
