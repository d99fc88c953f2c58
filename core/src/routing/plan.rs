//! The legs of one request: the provider it goes to and the fallbacks behind it.

use rand_core::RngCore;

use super::pin::Pin;
use super::view::View;
use crate::ids::{KeyId, ModelId, ProviderId};
use crate::time::Mono;
use crate::trail::LogLine;

/// What planning needs of a request.
#[derive(Clone, Debug)]
pub struct RequestFacts {
    /// What the request asks for first.
    pub target: Target,
    /// Its own fallbacks, in order.
    pub fallbacks: Vec<Target>,
    /// The key the caller pinned.
    pub pin: Option<Pin>,
    /// The caller brings its own key: nothing is picked, measured or held on the first leg.
    pub direct_key: bool,
}

/// A model, at a provider or wherever it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The provider, where one is named.
    pub provider: Option<ProviderId>,
    /// The model.
    pub model: ModelId,
}

/// One provider to try, with its own retry budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Where.
    pub provider: ProviderId,
    /// Which model.
    pub model: ModelId,
    /// The only key to use.
    pub pin: Option<KeyId>,
    /// The caller's own key is used.
    pub direct_key: bool,
}

/// What a request will do, and why.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// In order: the primary, then its fallbacks.
    pub legs: Vec<Leg>,
    /// What is worth telling in the request's log.
    pub notes: Vec<LogLine>,
}

/// Why a request cannot be planned: each is the caller's to mend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Nobody serves it.
    #[error(
        "no configured provider serves the model \"{0}\": name one as \"provider/{0}\", or add the model to a key's `models`"
    )]
    UnknownModel(ModelId),
    /// The named provider is not configured.
    #[error("the provider \"{0}\" is not configured")]
    UnknownProvider(ProviderId),
    /// No enabled key of the named provider may serve the model.
    #[error(
        "no key of the provider \"{provider}\" may serve the model \"{model}\": check the keys' `models`, `blacklisted_models` and `enabled`"
    )]
    NoKeyServes {
        /// Named provider.
        provider: ProviderId,
        /// Requested model.
        model: ModelId,
    },
    /// The pinned key does not exist or may not serve the model.
    #[error(
        "the pinned key \"{pin}\" ({header}) is no usable key of the provider \"{provider}\" for the model \"{model}\""
    )]
    UnknownPin {
        /// What the caller sent.
        pin: String,
        /// In which header.
        header: &'static str,
        /// Where it was looked for.
        provider: ProviderId,
        /// For what.
        model: ModelId,
    },
}

/// Plans a request.
///
/// # Errors
/// When no configured provider or key can serve what is asked for.
pub fn plan<R: RngCore>(
    _view: &View,
    _facts: &RequestFacts,
    _rng: &mut R,
    _now: Mono,
) -> Result<Plan, PlanError> {
    unimplemented!()
}
