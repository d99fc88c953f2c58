//! Labels that name a route: configured names, and models that are known to exist, up to a bound.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arc_swap::ArcSwap;
use prometheus_client::encoding::{EncodeLabel, EncodeLabelSet, LabelSetEncoder};

use holdline_core::ids::{ModelId, ProviderId};
use holdline_core::routing::{KeySpec, ModelRule};

/// Models of all providers that have series of their own. What is asked for beyond is `other`: a caller may
/// ask for any name.
const MAX_MODELS: usize = 256;

/// The label of a model that has no series of its own.
const OTHER: &str = "other";

/// What a call to a provider was made with.
#[derive(Clone, Copy, Debug)]
pub struct Called<'a> {
    /// The provider.
    pub provider: &'a ProviderId,
    /// The model, as the request names it.
    pub model: &'a ModelId,
    /// The key; none for a caller's own and for providers without keys.
    pub key: Option<&'a Arc<KeySpec>>,
    /// What kind of request it is, of a closed set.
    pub method: &'static str,
    /// 0 for the primary.
    pub fallback_index: u32,
}

/// The models that have series.
#[derive(Debug, Default)]
pub(super) struct Models(ArcSwap<BTreeMap<ProviderId, BTreeSet<ModelId>>>);

/// One provider and model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelLabels {
    provider: ProviderId,
    model: ModelId,
}

/// One provider, model and key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RouteLabels {
    pub(super) direction: ModelLabels,
    key: Option<KeyLabels>,
}

/// A key's id and name.
#[derive(Clone, Debug)]
struct KeyLabels(Arc<KeySpec>);

impl KeyLabels {
    fn texts(&self) -> (&str, &str) {
        (self.0.id.as_str(), &self.0.name)
    }
}

impl PartialEq for KeyLabels {
    fn eq(&self, other: &Self) -> bool {
        self.texts() == other.texts()
    }
}

impl Eq for KeyLabels {}

impl Hash for KeyLabels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.texts().hash(state);
    }
}

impl Models {
    /// The labels of a call. A model gets series when it has served, or when the key's configuration
    /// names it.
    pub(super) fn labels(&self, called: &Called<'_>, served: bool) -> ModelLabels {
        let (provider, model) = (called.provider, called.model);
        let is_known = {
            let known = self.0.load();
            known.get(provider).is_some_and(|of| of.contains(model))
        };
        let exists = || served || called.key.is_some_and(|key| names(key, model));
        let model = if is_known || (exists() && self.admit(provider, model)) {
            model.clone()
        } else {
            ModelId::from(OTHER)
        };
        ModelLabels {
            provider: provider.clone(),
            model,
        }
    }

    /// False where there is no room.
    fn admit(&self, provider: &ProviderId, model: &ModelId) -> bool {
        let mut has_room = true;
        self.0.rcu(|known| {
            let count: usize = known.values().map(BTreeSet::len).sum();
            has_room = count < MAX_MODELS;
            if !has_room {
                return Arc::clone(known);
            }
            let mut more = BTreeMap::clone(known);
            let models = more.entry(provider.clone()).or_default();
            models.insert(model.clone());
            Arc::new(more)
        });
        has_room
    }
}

impl RouteLabels {
    pub(super) fn new(direction: ModelLabels, called: &Called<'_>) -> Self {
        let key = called.key.map(|key| KeyLabels(Arc::clone(key)));
        Self { direction, key }
    }
}

impl EncodeLabelSet for ModelLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        ("provider", self.provider.as_str()).encode(encoder.encode_label())?;
        ("model", self.model.as_str()).encode(encoder.encode_label())
    }
}

impl EncodeLabelSet for RouteLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        self.direction.encode(encoder)?;
        let (id, name) = self.key.as_ref().map_or(("", ""), KeyLabels::texts);
        ("selected_key_id", id).encode(encoder.encode_label())?;
        ("selected_key_name", name).encode(encoder.encode_label())
    }
}

/// Whether the key's configuration names the model.
fn names(key: &KeySpec, model: &ModelId) -> bool {
    let model = model.as_str();
    key.aliases.contains_key(model)
        || match &key.models {
            ModelRule::All => false,
            ModelRule::Only(names) => names.contains(model),
        }
}

#[cfg(test)]
mod tests {
    use holdline_core::ids::{Fingerprint, KeyId};

    use super::*;

    fn key() -> Arc<KeySpec> {
        Arc::new(KeySpec {
            id: KeyId::from("k-a"),
            name: "a".to_owned(),
            fingerprint: Fingerprint(1),
            weight: 1.0,
            enabled: true,
            models: ModelRule::Only(["listed".to_owned()].into()),
            blocked: BTreeSet::new(),
            aliases: [("alias".to_owned(), "deployment".to_owned())].into(),
        })
    }

    fn label(models: &Models, model: &str, served: bool) -> String {
        let (provider, model, key) = (ProviderId::from("p"), ModelId::from(model), key());
        let called = Called {
            provider: &provider,
            model: &model,
            key: Some(&key),
            method: "chat_completion",
            fallback_index: 0,
        };
        models.labels(&called, served).model.to_string()
    }

    #[test]
    fn a_model_has_series_once_it_is_known_to_exist() {
        let models = Models::default();
        assert_eq!(label(&models, "listed", false), "listed");
        assert_eq!(label(&models, "alias", false), "alias");
        assert_eq!(label(&models, "made-up", false), OTHER);
        assert_eq!(label(&models, "new", true), "new");
        assert_eq!(label(&models, "new", false), "new");
    }

    #[test]
    fn callers_cannot_make_series_without_end() {
        let models = Models::default();
        for number in 0..2 * MAX_MODELS {
            label(&models, &format!("m-{number}"), true);
        }
        assert_eq!(label(&models, "m-0", true), "m-0");
        assert_eq!(label(&models, "one-more", true), OTHER);
        let known = models.0.load();
        assert_eq!(known.values().map(BTreeSet::len).sum::<usize>(), MAX_MODELS);
    }
}
