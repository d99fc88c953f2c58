//! What providers write where they expose nothing better, in lower case.
//!
//! Each is narrow enough not to fire on its neighbours: "context limit", "capacity exceeded",
//! "too many connections", "rate-limited" and "billing details" mean something else.

/// The account is out of credit or over a cap.
pub(super) const QUOTA: [&str; 9] = [
    "credit balance",
    "spend limit",
    "api usage limits",
    "prepayment credits",
    "credits are depleted",
    "spending cap",
    "requires billing to be enabled",
    "key limit exceeded",
    "account is not active",
];

/// Too much for now.
pub(super) const RATE: [&str; 20] = [
    "rate limit",
    "rate_limit",
    "ratelimit",
    "too many requests",
    "too_many_requests",
    "quota exceeded",
    "quota_exceeded",
    "request limit",
    "throttled",
    "throttling",
    "rate exceeded",
    "limit exceeded",
    "requests per",
    "rpm exceeded",
    "tpm exceeded",
    "tokens per minute",
    "usage limit",
    "concurrent requests limit",
    "burst_rate",
    "rate increased",
];

/// The location is refused.
pub(super) const REGION: [&str; 3] = [
    "unsupported countries",
    "location is not supported",
    "not available in your country",
];

/// The key itself is refused.
pub(super) const KEY: [&str; 6] = [
    "api key not valid",
    "api_key_invalid",
    "api key expired",
    "api key is valid",
    "invalid api key",
    "security token",
];

/// The model went away.
pub(super) const RETIREMENT: [&str; 9] = [
    "deprecated",
    "deprecation",
    "decommissioned",
    "retired",
    "end of its life",
    "end-of-life",
    "no longer available",
    "was removed",
    "has been removed",
];

/// A guardrail refused this request's content. A block of the whole account speaks of a policy as
/// well, so that word is not among them.
pub(super) const MODERATION: [&str; 8] = [
    "moderation",
    "guardrail",
    "safety_check",
    "violates usage guidelines",
    "input was flagged",
    "prompt was flagged",
    "content was flagged",
    "request was flagged",
];
