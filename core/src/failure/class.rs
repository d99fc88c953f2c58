//! The classes of failure and what each means: the one place that says so.

use serde::{Deserialize, Serialize};

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The provider rejected the key itself.
    Credential,
    /// The account behind the key is out of credit or over its cap.
    Quota,
    /// This key cannot reach this model.
    ModelAccess,
    /// The provider retired the model.
    ModelGone,
    /// The provider refuses the request's location.
    RegionBlocked,
    /// Too many requests or tokens for now.
    RateLimit,
    /// Network error, or a 5xx that says nothing about the key.
    Transient,
    /// The request itself was refused; no key would have served it.
    CallerFault,
    /// Nothing recognised.
    Unknown,
    /// Our own clock ran out while waiting for the provider.
    Timeout,
    /// The caller left.
    Cancelled,
}

/// A failure that holds a key: the six refusals.
///
/// Ordered only so that registers have a total order; no meaning hangs on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// See [`FailureClass::RateLimit`].
    RateLimit,
    /// See [`FailureClass::ModelAccess`].
    ModelAccess,
    /// See [`FailureClass::Quota`].
    Quota,
    /// See [`FailureClass::RegionBlocked`].
    RegionBlocked,
    /// See [`FailureClass::ModelGone`].
    ModelGone,
    /// See [`FailureClass::Credential`].
    Credential,
}

/// How much of a key a refusal concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The whole key, for every model.
    Key,
    /// One model of the key.
    Model,
}

/// What the request's own retry loop does after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Another key at once; this one is dead for the request; the attempt is not charged.
    NextKeyGranted,
    /// Another key after backoff; charged; this one may come again.
    NextKeyCharged,
    /// The same key after backoff; charged.
    SameKey,
    /// No retry within this provider.
    None,
}

impl FailureClass {
    /// All classes.
    pub const ALL: [Self; 11] = [
        Self::Credential,
        Self::Quota,
        Self::ModelAccess,
        Self::ModelGone,
        Self::RegionBlocked,
        Self::RateLimit,
        Self::Transient,
        Self::CallerFault,
        Self::Unknown,
        Self::Timeout,
        Self::Cancelled,
    ];

    /// The name in logs and answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Credential => "credential",
            Self::Quota => "quota",
            Self::ModelAccess => "model_access",
            Self::ModelGone => "model_gone",
            Self::RegionBlocked => "region_blocked",
            Self::RateLimit => "rate_limit",
            Self::Transient => "transient",
            Self::CallerFault => "caller_fault",
            Self::Unknown => "unknown",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
        }
    }

    /// The reason of the hold that this class makes, if it makes one.
    #[must_use]
    pub const fn reason(self) -> Option<Reason> {
        match self {
            Self::Credential => Some(Reason::Credential),
            Self::Quota => Some(Reason::Quota),
            Self::ModelAccess => Some(Reason::ModelAccess),
            Self::ModelGone => Some(Reason::ModelGone),
            Self::RegionBlocked => Some(Reason::RegionBlocked),
            Self::RateLimit => Some(Reason::RateLimit),
            Self::Transient
            | Self::CallerFault
            | Self::Unknown
            | Self::Timeout
            | Self::Cancelled => None,
        }
    }

    /// What the retry loop does next.
    #[must_use]
    pub const fn retry(self) -> Retry {
        match self {
            Self::Credential
            | Self::Quota
            | Self::ModelAccess
            | Self::ModelGone
            | Self::RegionBlocked => Retry::NextKeyGranted,
            Self::RateLimit => Retry::NextKeyCharged,
            Self::Transient => Retry::SameKey,
            Self::CallerFault | Self::Unknown | Self::Timeout | Self::Cancelled => Retry::None,
        }
    }
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 6] = [
        Self::Credential,
        Self::Quota,
        Self::ModelAccess,
        Self::ModelGone,
        Self::RegionBlocked,
        Self::RateLimit,
    ];

    /// The class this is the reason of.
    #[must_use]
    pub const fn class(self) -> FailureClass {
        match self {
            Self::RateLimit => FailureClass::RateLimit,
            Self::ModelAccess => FailureClass::ModelAccess,
            Self::Quota => FailureClass::Quota,
            Self::RegionBlocked => FailureClass::RegionBlocked,
            Self::ModelGone => FailureClass::ModelGone,
            Self::Credential => FailureClass::Credential,
        }
    }

    /// How much of the key is held.
    #[must_use]
    pub const fn scope(self) -> Scope {
        match self {
            Self::Credential | Self::Quota => Scope::Key,
            Self::ModelAccess | Self::ModelGone | Self::RegionBlocked | Self::RateLimit => {
                Scope::Model
            }
        }
    }

    /// The words people see.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Credential => "Key rejected",
            Self::Quota => "Out of quota",
            Self::ModelAccess => "No model access",
            Self::ModelGone => "Model retired",
            Self::RegionBlocked => "Region blocked",
            Self::RateLimit => "Rate limited",
        }
    }
}
