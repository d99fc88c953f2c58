//! What several providers say in the same way, and what a status says alone.

use super::super::class::FailureClass;
use super::{Case, phrases};

/// Statuses that say nothing about key or request.
const TRANSIENT: [u16; 5] = [500, 502, 503, 504, 529];

/// Whether an answer with this status says nothing of an account, whatever its body says.
pub(super) fn says_nothing(status: u16) -> bool {
    TRANSIENT.contains(&status)
}

pub(super) fn quota(case: &Case<'_>) -> Option<FailureClass> {
    if says_nothing(case.status) {
        return None;
    }
    let out_of_credit = case.status == 402
        || case.is_named(&["insufficient_quota", "blocked_api_access"])
        || case.says_any(&phrases::QUOTA);
    out_of_credit.then_some(FailureClass::Quota)
}

/// Wording counts at any status but 401 and 403: those speak of the key whatever they say.
pub(super) fn rate_limit(case: &Case<'_>) -> Option<FailureClass> {
    let named = |name: &str| phrases::RATE.are_in(&name.to_ascii_lowercase());
    let limited = case.status == 429
        || (!matches!(case.status, 401 | 403)
            && (case.says_any(&phrases::RATE) || named(case.kind) || named(case.code)));
    limited.then_some(FailureClass::RateLimit)
}

pub(super) fn transient(case: &Case<'_>) -> Option<FailureClass> {
    says_nothing(case.status).then_some(FailureClass::Transient)
}

pub(super) fn region(case: &Case<'_>) -> Option<FailureClass> {
    let blocked = case.is_named(&["unsupported_country_region_territory"])
        || (matches!(case.status, 400 | 403) && case.says_any(&phrases::REGION));
    blocked.then_some(FailureClass::RegionBlocked)
}

pub(super) fn credential(case: &Case<'_>) -> Option<FailureClass> {
    let rejected = case.status == 401
        || case.is_named(&["authentication_error", "UNAUTHENTICATED", "invalid_api_key"])
        || case.is_named(&["organization_restricted"])
        || super::aws::rejects_credentials(case)
        || ([
            "INVALID_ARGUMENT",
            "AccessDeniedException",
            "permission_error",
        ]
        .contains(&case.kind)
            && case.says_any(&phrases::KEY));
    rejected.then_some(FailureClass::Credential)
}

/// A 403 that nothing explains, guardrails included: they can be set per key.
pub(super) fn forbidden(case: &Case<'_>) -> Option<FailureClass> {
    (case.status == 403).then_some(FailureClass::Credential)
}

pub(super) fn request(case: &Case<'_>) -> Option<FailureClass> {
    let refused = matches!(case.status, 400 | 409 | 413 | 415 | 422) && case.is_provider_error();
    refused.then_some(FailureClass::CallerFault)
}

/// A 404 about something the request refers to: a file, an earlier response.
pub(super) fn field_not_found(case: &Case<'_>) -> Option<FailureClass> {
    (case.status == 404 && case.facts.param.is_some()).then_some(FailureClass::CallerFault)
}
