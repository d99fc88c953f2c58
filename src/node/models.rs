//! Which models providers list, and what they are called elsewhere: what requests find them by.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdline_core::ids::{ModelId, ProviderId};
use holdline_core::routing::naming::{Names, Naming};
use holdline_core::routing::{ModelRule, View};
use tokio::sync::{Notify, watch};

use super::Node;
use crate::config::{Catalog, Provider};

/// What providers said last.
#[derive(Debug)]
pub(super) struct Models {
    listed: Mutex<Listed>,
    changed: Notify,
    /// False from the start of a node that asks until every provider was asked once.
    asked: watch::Sender<bool>,
}

/// How long people who want the list wait for the first answers.
const PATIENCE: Duration = Duration::from_secs(1);

impl Default for Models {
    fn default() -> Self {
        Self {
            listed: Mutex::default(),
            changed: Notify::default(),
            asked: watch::Sender::new(true),
        }
    }
}

type Listed = BTreeMap<ProviderId, BTreeSet<ModelId>>;

impl Models {
    /// Gives the providers of a view the names of their models.
    pub(super) fn name(&self, view: &mut View, catalog: &Catalog) {
        let mut listed = self.lock();
        listed.retain(|provider, _| catalog.providers.contains_key(provider));
        for (id, provider) in &catalog.providers {
            let models = listed.get(id).cloned().unwrap_or_default();
            if let Some(seen) = view.providers.get_mut(id) {
                let names = Names::new(naming(provider), keyed(provider), models);
                Arc::make_mut(seen).names = Arc::new(names);
            }
        }
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Listed> {
        // Whole lists are put in: a panic elsewhere leaves none half changed.
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    /// A provider said which models it has.
    pub(crate) fn learn_models(&self, provider: &ProviderId, models: BTreeSet<ModelId>) {
        let state = self.lock();
        let before = self.models.lock().insert(provider.clone(), models.clone());
        if before.as_ref() != Some(&models) {
            tracing::debug!(%provider, models = models.len(), "the provider lists its models");
            self.rebuild(&state);
        }
    }

    /// Providers are about to be asked for the first time.
    pub(crate) fn expect_lists(&self) {
        self.models.asked.send_replace(false);
    }

    /// Every provider was asked once.
    pub(crate) fn all_asked(&self) {
        self.models.asked.send_replace(true);
    }

    /// Waits, but not for long, until providers were asked once.
    pub(crate) async fn lists(&self) {
        let mut asked = self.models.asked.subscribe();
        // Late or not: what is known by then is the list.
        let _ = tokio::time::timeout(PATIENCE, asked.wait_for(|asked| *asked)).await;
    }

    /// Ready when providers or keys may have changed since the last time.
    pub(crate) async fn catalog_changed(&self) {
        self.models.changed.notified().await;
    }
}

/// How a provider names its models.
fn naming(provider: &Provider) -> Naming {
    match provider.like() {
        "groq" | "openrouter" => Naming::Vendor,
        "vertex" => Naming::Vertex,
        "bedrock" | "bedrock_mantle" => Naming::Bedrock,
        _ => Naming::Plain,
    }
}

/// The names that keys have for models.
fn keyed(provider: &Provider) -> impl Iterator<Item = ModelId> {
    let keys = provider.keys.iter().filter(|key| key.spec.enabled);
    keys.flat_map(|key| {
        let names = match &key.spec.models {
            ModelRule::Only(names) => Some(names.iter()),
            ModelRule::All => None,
        };
        let aliases = key.spec.aliases.keys();
        names
            .into_iter()
            .flatten()
            .chain(aliases)
            .map(|name| ModelId::from(name.as_str()))
    })
}
