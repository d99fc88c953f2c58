//! Signals beyond those that the large providers document: seen in the field, narrow, and each on a
//! line of its own so that it can be taken out.

use super::super::class::FailureClass;
use super::phrases::{self, Phrases};
use super::{Case, generic, model};

pub(super) fn quota(case: &Case<'_>) -> Option<FailureClass> {
    const NAMES: [&str; 6] = [
        "insufficient_user_quota",
        "billing_not_active",
        "billing_hard_limit_reached",
        "budget_exceeded",
        "exceeded_current_quota_error",
        "Arrearage",
    ];
    static WORDS: Phrases = Phrases::new(&[
        "used all available credits",
        "monthly spending limit",
        "insufficient balance",
        "out of credits",
        "余额不足",
    ]);
    let may_say = !generic::says_nothing(case.status);
    let out_of_credit = case.is_named(&NAMES)
        || case.code.ends_with("spending-limit")
        || case.has_reason("BILLING_DISABLED")
        || case.says_any(&WORDS);
    (may_say && out_of_credit).then_some(FailureClass::Quota)
}

pub(super) fn credential(case: &Case<'_>) -> Option<FailureClass> {
    let rejected = case.has_reason("API_KEY_INVALID")
        || case.is_named(&["invalid_grant"])
        || (case.status == 400
            && (case.says("incorrect api key provided")
                || case.says("organization has been disabled")))
        || (case.kind == "permission_error" && (case.says("oauth") || case.says("organization")));
    rejected.then_some(FailureClass::Credential)
}

/// "`temperature` is deprecated for this model" is about a parameter of this request: taken for a
/// retired model it would hold the model for everybody.
pub(super) fn parameter(case: &Case<'_>) -> Option<FailureClass> {
    let of_this_request = matches!(case.status, 400 | 422)
        && !model::named(case)
        && case.says_any(&OF_THE_MODEL)
        && blames_a_parameter(&case.message);
    of_this_request.then_some(FailureClass::CallerFault)
}

/// What ties a word of retirement to something of the model.
static OF_THE_MODEL: Phrases =
    Phrases::new(&[" for this model", " by this model", " with this model"]);

/// "… is deprecated for this model", "… was removed and is ignored by this model", in one sentence.
fn blames_a_parameter(message: &str) -> bool {
    phrases::RETIREMENT.tails(message).any(|after| {
        let sentence = after.split(". ").next().unwrap_or(after);
        OF_THE_MODEL.are_in(sentence)
    })
}

pub(super) fn model(case: &Case<'_>) -> Option<FailureClass> {
    const CODES: [&str; 3] = [
        "model_not_supported",
        "model_not_available",
        "dedicated_endpoint_not_running",
    ];
    let not_found = case.status == 404
        && case.has_json()
        && (case.facts.param.as_deref() == Some("model")
            || case.says("no endpoints available")
            || (case.says("model") && case.says("does not exist")));
    (case.is_named(&CODES) || not_found).then_some(FailureClass::ModelAccess)
}

pub(super) fn file_not_found(case: &Case<'_>) -> Option<FailureClass> {
    let names_a_file = || {
        let mut words = case.message.split(|c: char| !c.is_alphanumeric());
        words.any(|word| word == "file" || word == "files")
    };
    let missing = case.status == 404
        && case.has_json()
        && (case.says("not found") || case.says("no such") || case.says("does not exist"))
        && names_a_file();
    missing.then_some(FailureClass::CallerFault)
}
