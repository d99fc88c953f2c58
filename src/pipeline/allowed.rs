//! Providers that do not take a kind of request at all (`custom_provider_config.allowed_requests`): they are
//! no candidates for it. One that the request itself names stays, and its refusal is told as such.

use std::borrow::Cow;

use http::StatusCode;

use holdline_core::health::State;
use holdline_core::ids::ProviderId;
use holdline_core::routing::explain::ProviderTold;
use holdline_core::routing::{RequestFacts, View};
use holdline_core::trail::{self, LogLine};

use crate::api::error::ApiError;
use crate::config::{Catalog, Provider};

/// The code of every such refusal.
pub(super) const CODE: &str = "unsupported_operation";

/// What a request of one kind is planned with.
#[derive(Debug)]
pub(crate) struct Candidates<'a> {
    pub(crate) view: Cow<'a, View>,
    /// What the request's log says of fallbacks that were left out.
    pub(super) notes: Vec<LogLine>,
    refusing: Vec<ProviderId>,
}

impl<'a> Candidates<'a> {
    /// Leaves out who does not take this kind of request: of the view, and of the request's own fallbacks.
    pub(crate) fn of(
        view: &'a View,
        catalog: &Catalog,
        facts: &mut RequestFacts,
        kind: &'static str,
    ) -> Self {
        let refuses = |provider: &&std::sync::Arc<Provider>| !provider.custom.takes(kind);
        let refusing = catalog.providers.values().filter(refuses);
        let refusing: Vec<ProviderId> = refusing.map(|provider| provider.id.clone()).collect();
        let mut candidates = Self {
            view: Cow::Borrowed(view),
            notes: Vec::new(),
            refusing,
        };
        if candidates.refusing.is_empty() {
            return candidates;
        }
        let named = facts.target.provider.as_ref();
        let mut narrowed = view.clone();
        narrowed
            .providers
            .retain(|id, _| Some(id) == named || !candidates.refusing.contains(id));
        candidates.view = Cow::Owned(narrowed);
        facts.fallbacks.retain(|target| {
            let provider = target.provider.as_ref();
            let Some(provider) = provider.filter(|id| candidates.refusing.contains(id)) else {
                return true;
            };
            let line = trail::kind_refused(provider, kind);
            candidates.notes.push(line);
            false
        });
        candidates
    }

    /// Why a model that nobody is left for is not served, if that is why.
    pub(super) fn why_nobody(
        &self,
        catalog: &Catalog,
        facts: &RequestFacts,
        kind: &str,
    ) -> Option<ApiError> {
        let model = facts.target.model.as_str();
        let serves = |id: &&ProviderId| {
            let provider = catalog.providers.get(*id);
            provider.is_some_and(|p| p.keyless || p.keys.iter().any(|k| k.spec.serves(model)))
        };
        let names: Vec<&str> = self
            .refusing
            .iter()
            .filter(serves)
            .map(ProviderId::as_str)
            .collect();
        if facts.target.provider.is_some() || names.is_empty() {
            return None;
        }
        let message = format!(
            "no provider that takes {kind} requests serves the model \"{model}\": {} would, but for custom_provider_config.allowed_requests",
            names.join(", ")
        );
        Some(refusal(message))
    }
}

impl Candidates<'_> {
    /// Who was left out, and why, for operators who ask.
    pub(crate) fn left_out(&self, facts: &RequestFacts, kind: &str) -> Vec<ProviderTold> {
        let of = |id: &ProviderId| ProviderTold {
            provider: id.clone(),
            model: facts.target.model.clone(),
            serves: false,
            state: State::Healthy,
            score: 0.0,
            share: 0.0,
            place: None,
            why: format!("it takes no {kind} requests"),
            keys: Vec::new(),
        };
        let gone = |id: &&ProviderId| !self.view.providers.contains_key(*id);
        self.refusing.iter().filter(gone).map(of).collect()
    }
}

/// Of a request that names the provider itself.
pub(super) fn told_of(provider: &str, kind: &str) -> String {
    format!(
        "the provider \"{provider}\" takes no {kind} requests: custom_provider_config.allowed_requests does not have it"
    )
}

/// A refusal by configuration that the caller can only go around.
pub(super) fn refusal(message: String) -> ApiError {
    let mut refusal = ApiError::caller(StatusCode::BAD_REQUEST, message);
    refusal.error.code = Some(CODE.to_owned());
    refusal
}
