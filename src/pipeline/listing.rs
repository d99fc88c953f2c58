//! Which models providers say that they have: asked in the background, never waited for.
//!
//! Each provider is asked at start, when it or its keys change, and every hour. What it said last stays
//! until it says something else: one that is down, slow or talks nonsense changes nothing.

mod ask;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use holdline_core::holds::view::HoldRef;
use holdline_core::ids::{Fingerprint, ProviderId};

use ask::{Asker, LIST};

use super::upstream::Upstream;
use crate::config::{Key, Provider};
use crate::node::{Live, Node};

/// How often a provider that answered is asked again.
const EVERY: Duration = Duration::from_secs(3_600);

/// How long after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(300);

/// How long nobody is asked at least, unless a provider changes.
const LEAST_PAUSE: Duration = Duration::from_secs(30);

/// How long the answers of one provider may take.
const LIMIT: Duration = Duration::from_secs(10);

/// How many providers are asked at the same time.
const AT_ONCE: usize = 4;

/// When a provider is asked next, and what it was when it was asked last.
struct Turn {
    identity: Fingerprint,
    next: Instant,
}

/// Keeps the node's lists until the end.
pub async fn keep_lists(node: Arc<Node>, end: CancellationToken) {
    let asker = Arc::new(Asker::new(Arc::clone(&node), Arc::new(Upstream::new())));
    let mut turns: BTreeMap<ProviderId, Turn> = BTreeMap::new();
    loop {
        let changed = node.catalog_changed();
        let live = Arc::clone(&node.live());
        turns.retain(|id, _| live.catalog.providers.contains_key(id));
        let due = due(&live, &turns);
        let asked = ask_all(due, &asker, &node, &end).await;
        turns.extend(asked);
        node.all_asked();
        let next = next_look(&turns, Instant::now());
        tokio::select! {
            () = end.cancelled() => return,
            () = changed => {}
            () = tokio::time::sleep_until(next) => {}
        }
    }
}

/// When somebody is due next. A provider that was due but whose keys are all held is still due: it must
/// not keep the task spinning, nor wait for an hour once a key is free.
fn next_look(turns: &BTreeMap<ProviderId, Turn>, now: Instant) -> Instant {
    let next = turns.values().map(|turn| turn.next).min();
    let latest = now + AFTER_FAILURE;
    next.unwrap_or(latest).clamp(now + LEAST_PAUSE, latest)
}

/// A provider, and with which key it is asked.
struct Asked {
    provider: Arc<Provider>,
    key: Option<Arc<Key>>,
}

/// The providers that can be asked and are to be asked now. A held key asks nothing.
fn due(live: &Live, turns: &BTreeMap<ProviderId, Turn>) -> Vec<Asked> {
    let now = Instant::now();
    let asked = |provider: &Arc<Provider>| {
        let askable = provider.kind.lists() && provider.custom.takes(LIST);
        let turn = turns.get(&provider.id);
        let is_due =
            turn.is_none_or(|turn| turn.next <= now || turn.identity != identity(provider));
        let key = free_key(provider, live);
        (askable && is_due && (provider.keyless || key.is_some())).then(|| Asked {
            provider: Arc::clone(provider),
            key,
        })
    };
    live.catalog.providers.values().filter_map(asked).collect()
}

fn free_key(provider: &Provider, live: &Live) -> Option<Arc<Key>> {
    let seen = live.view.provider(&provider.id)?;
    let is_free = |key: &&Arc<Key>| {
        let mut keys = seen.keys.iter();
        let seen = keys.find(|seen| seen.spec.id == key.spec.id);
        let is_held = |hold: &HoldRef| hold.register.is_held();
        key.spec.enabled && seen.is_some_and(|seen| !seen.holds.key.as_ref().is_some_and(is_held))
    };
    provider.keys.iter().find(is_free).cloned()
}

/// Tells whether a provider is still what it was when it was asked.
fn identity(provider: &Provider) -> Fingerprint {
    let url = provider.base_url.to_string();
    let first = provider.keys.iter().find(|key| key.spec.enabled);
    let first = first.map(|key| key.spec.fingerprint.0.to_be_bytes());
    Fingerprint::of(&[
        url.as_bytes(),
        provider.chat_path.as_bytes(),
        first.as_ref().map_or(&[], |key| key),
    ])
}

/// Asks them, some at a time; the node learns each answer when it comes. Tells when each is asked again.
async fn ask_all(
    due: Vec<Asked>,
    asker: &Arc<Asker>,
    node: &Node,
    end: &CancellationToken,
) -> BTreeMap<ProviderId, Turn> {
    let mut left = due.into_iter();
    let mut asking = JoinSet::new();
    let mut turns = BTreeMap::new();
    loop {
        while asking.len() < AT_ONCE
            && let Some(Asked { provider, key }) = left.next()
        {
            let asker = Arc::clone(asker);
            asking.spawn(async move {
                let list = asker.ask(&provider, key.as_deref());
                let list = tokio::time::timeout(LIMIT, list).await;
                (provider, list.ok().flatten())
            });
        }
        let next = tokio::select! {
            next = asking.join_next() => next,
            // What is under way ends with the set.
            () = end.cancelled() => return turns,
        };
        let (provider, list) = match next {
            Some(Ok(answer)) => answer,
            Some(Err(error)) => {
                tracing::error!(%error, "asking a provider for its models failed");
                continue;
            }
            None => return turns,
        };
        let wait = if list.is_some() { EVERY } else { AFTER_FAILURE };
        let turn = Turn {
            identity: identity(&provider),
            next: Instant::now() + wait,
        };
        turns.insert(provider.id.clone(), turn);
        if let Some(models) = list {
            node.learn_models(&provider.id, models);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_whose_keys_are_held_does_not_keep_the_task_spinning() {
        let now = Instant::now() + EVERY;
        let due_at = |next| {
            let turn = Turn {
                identity: Fingerprint(1),
                next,
            };
            BTreeMap::from([(ProviderId::from("p"), turn)])
        };
        let overdue = due_at(now.checked_sub(AFTER_FAILURE).unwrap());
        assert_eq!(next_look(&overdue, now), now + LEAST_PAUSE);
        let soon = now + Duration::from_secs(60);
        assert_eq!(next_look(&due_at(soon), now), soon);
        for far in [due_at(now + EVERY), BTreeMap::new()] {
            assert_eq!(next_look(&far, now), now + AFTER_FAILURE);
        }
    }
}
