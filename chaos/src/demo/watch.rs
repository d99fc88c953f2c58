//! What a person at the demo's terminal is told while it runs: nodes that ended, holds that came and went.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::screen::say;
use crate::fleet::Fleet;

/// A node that does not answer at once is busy dying or starting; the next look sees.
const ASK_LIMIT: Duration = Duration::from_millis(400);

/// What was said last, so that only changes are said.
#[derive(Debug, Default)]
pub(super) struct Watch {
    held: BTreeMap<Held, BTreeSet<String>>,
}

/// A held key as it is shown to people.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    provider: String,
    key_id: String,
    model: Option<String>,
}

impl Watch {
    /// One look at every node; says what has changed since the last.
    pub(super) async fn look(&mut self, fleet: &mut Fleet) {
        for node in fleet.nodes_mut() {
            let id = node.id().to_owned();
            match node.reap() {
                Ok(Some(status)) => say(&format!(
                    "{id} ended ({status}); `make restart-node N={id}` starts it again"
                )),
                Ok(None) => {}
                Err(error) => say(&format!("{id}: {error:#}")),
            }
        }
        let mut held: BTreeMap<Held, BTreeSet<String>> = BTreeMap::new();
        let mut live = 0;
        for node in fleet.live() {
            let asked = tokio::time::timeout(ASK_LIMIT, node.api().conditions()).await;
            let Ok(Ok(view)) = asked else { continue };
            live += 1;
            for condition in view.conditions {
                let key = Held {
                    provider: condition.provider,
                    key_id: condition.key_id,
                    model: condition.model,
                };
                held.entry(key).or_default().insert(node.id().to_owned());
            }
        }
        self.tell(held, live);
    }

    fn tell(&mut self, held: BTreeMap<Held, BTreeSet<String>>, live: usize) {
        for (key, nodes) in &held {
            if self.held.get(key) != Some(nodes) {
                say(&format!(
                    "held: {} on {} of {live} nodes",
                    key.shown(),
                    nodes.len()
                ));
            }
        }
        for key in self.held.keys().filter(|key| !held.contains_key(*key)) {
            say(&format!("free: {} on all nodes", key.shown()));
        }
        self.held = held;
    }
}

impl Held {
    fn shown(&self) -> String {
        match &self.model {
            Some(model) => format!("{}/{} for {model}", self.provider, self.key_id),
            None => format!("{}/{}", self.provider, self.key_id),
        }
    }
}
