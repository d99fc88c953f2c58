//! `GET /api/adaptive-routing/explain`: what a request would do on this node now. Asking sends nothing.

use axum::Json;
use axum::extract::{Query, State};
use axum::response::IntoResponse;
use holdline_core::ids::{ModelId, ProviderId};
use holdline_core::routing::explain::{Explanation, KeyTold, ProviderTold, explain};
use holdline_core::routing::{RequestFacts, Target};
use holdline_core::time::WallMs;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::refusal::Refusal;
use super::{Admin, Answer};
use crate::config::Catalog;
use crate::config::governance::VirtualKeys;
use crate::pipeline::allowed::Candidates;
use crate::pipeline::target;

/// What kind of request is explained.
const KIND: &str = "chat_completion";

/// Longest model name that is explained.
const MAX_NAME: usize = 512;

/// What is asked about.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    model: String,
    provider: String,
    vk: Option<String>,
}

#[derive(Serialize)]
struct Provider<'a> {
    provider: &'a str,
    model: &'a str,
    serves: bool,
    state: &'static str,
    score: f64,
    share: f64,
    place: Option<usize>,
    why: &'a str,
    keys: Vec<Key<'a>>,
}

#[derive(Serialize)]
struct Key<'a> {
    key_id: &'a str,
    key_name: &'a str,
    state: &'static str,
    held: bool,
    share: f64,
    why: &'a str,
}

pub(super) async fn show(State(admin): State<Admin>, Query(asked): Query<Asked>) -> Answer {
    let live = admin.node.live();
    if let Some(shown) = &asked.vk {
        check_caller(
            shown,
            &admin.node.config.virtual_keys,
            admin.node.clock.wall(),
        )?;
    }
    let mut facts = facts(&asked, &live.catalog)?;
    let candidates = Candidates::of(&live.view, &live.catalog, &mut facts, KIND);
    let now = admin.node.clock.now();
    let mut explanation = explain(&candidates.view, &facts, &mut rand::rng(), now)
        .map_err(|error| Refusal::bad(error.to_string()))?;
    let left_out = candidates.left_out(&facts, KIND);
    explanation.providers.extend(left_out);
    let mut told = shown(&explanation);
    told["node_id"] = json!(admin.node.id);
    told["model"] = json!(facts.target.model);
    told["named_provider"] = json!(facts.target.provider);
    Ok(Json(told).into_response())
}

/// A virtual key, by its id or value, has to be one that a request may show.
fn check_caller(shown: &str, keys: &VirtualKeys, now: WallMs) -> Result<(), Refusal> {
    let Some(key) = keys.with_id(shown).or_else(|| keys.find(shown)) else {
        // It may be a secret, so it is not repeated.
        return Err(Refusal::bad(
            "vk is neither id nor value of a virtual key of this node",
        ));
    };
    key.blocked(now).map_or(Ok(()), |why| {
        let message = format!("the virtual key {:?} {why}", key.name);
        Err(Refusal::bad(message))
    })
}

fn facts(asked: &Asked, catalog: &Catalog) -> Result<RequestFacts, Refusal> {
    let name = asked.model.trim();
    if name.is_empty() || name.len() > MAX_NAME {
        let message =
            "model is missing: which model is asked for? (?model=gpt-4o, at most 512 bytes)";
        return Err(Refusal::bad(message));
    }
    let target = match asked.provider.trim() {
        "" => target(name, catalog),
        provider => {
            let within = name
                .strip_prefix(provider)
                .and_then(|n| n.strip_prefix('/'));
            Target {
                provider: Some(ProviderId::from(provider)),
                model: ModelId::from(within.unwrap_or(name)),
            }
        }
    };
    Ok(RequestFacts::new(target))
}

fn shown(explanation: &Explanation) -> Value {
    let legs = explanation
        .legs
        .iter()
        .map(|leg| json!({ "provider": leg.provider, "model": leg.model }));
    let notes = explanation.notes.iter().map(|line| line.message.as_str());
    let providers = explanation.providers.iter().map(provider);
    json!({
        "chain": legs.collect::<Vec<_>>(),
        "providers": providers.collect::<Vec<_>>(),
        "notes": notes.collect::<Vec<_>>(),
    })
}

fn provider(told: &ProviderTold) -> Provider<'_> {
    Provider {
        provider: told.provider.as_str(),
        model: told.model.as_str(),
        serves: told.serves,
        state: told.state.name(),
        score: told.score,
        share: told.share,
        place: told.place,
        why: &told.why,
        keys: told.keys.iter().map(key).collect(),
    }
}

fn key(told: &KeyTold) -> Key<'_> {
    Key {
        key_id: told.key.as_str(),
        key_name: &told.name,
        state: told.state.name(),
        held: told.held,
        share: told.share,
        why: &told.why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(model: &str, provider: &str) -> Result<RequestFacts, String> {
        let asked = Asked {
            model: model.to_owned(),
            provider: provider.to_owned(),
            vk: None,
        };
        facts(&asked, &Catalog::default()).map_err(|refusal| refusal.message)
    }

    #[test]
    fn a_provider_may_stand_in_front_of_the_model_or_beside_it() {
        for (model, provider) in [("m", "alpha"), ("alpha/m", "alpha"), (" m ", " alpha ")] {
            let target = asked(model, provider).unwrap().target;
            assert_eq!(target.provider, Some(ProviderId::from("alpha")));
            assert_eq!(target.model.as_str(), "m");
        }
        assert_eq!(asked("openai/m", "").unwrap().target.model.as_str(), "m");
        assert_eq!(asked("who/m", "").unwrap().target.model.as_str(), "who/m");
    }

    #[test]
    fn mistakes_are_told_without_secrets() {
        assert!(asked(" ", "alpha").unwrap_err().contains("model"));
        assert!(asked(&"x".repeat(513), "").is_err());
        let nobody = check_caller("sk-bf-secret", &VirtualKeys::default(), WallMs(0));
        let told = nobody.unwrap_err().message;
        assert!(told.contains("vk") && !told.contains("sk-bf-secret"));
    }
}
