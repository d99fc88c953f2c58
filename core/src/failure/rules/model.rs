//! Whether a failure is about the model: this key cannot reach it, or it is gone.

use super::super::class::FailureClass;
use super::{Case, anthropic, aws, google, phrases};

/// Codes that say so themselves. Those of a retired model are among [`RETIRED`].
const CODES: [&str; 6] = [
    "model_not_found",
    "DeploymentNotFound",
    "unknown_model",
    "model_terms_required",
    "model_decommissioned",
    "ServiceModelDeprecating",
];

const RETIRED: [&str; 2] = ["model_decommissioned", "ServiceModelDeprecating"];

pub(super) fn signal(case: &Case<'_>) -> Option<FailureClass> {
    let about_model = gone_for_good(case)
        || named(case)
        || anthropic::about_model(case)
        || aws::about_model(case)
        || google::about_model(case)
        || not_found(case);
    about_model.then(|| {
        if gone_for_good(case) || is_retired(case) {
            FailureClass::ModelGone
        } else {
            FailureClass::ModelAccess
        }
    })
}

/// Whether the code or the words say that the model was retired.
pub(super) fn is_retired(case: &Case<'_>) -> bool {
    RETIRED.contains(&case.code) || case.says_any(&phrases::RETIREMENT)
}

/// 410, if anything came with it.
fn gone_for_good(case: &Case<'_>) -> bool {
    case.status == 410 && (case.is_provider_error() || case.says_any(&phrases::RETIREMENT))
}

/// Whether a code or type says outright that it is about the model.
pub(super) fn named(case: &Case<'_>) -> bool {
    CODES.contains(&case.code)
        || case.code.starts_with("model_permission_blocked")
        || ["model_not_found", "unknown_model", "invalid_model"].contains(&case.kind)
        || case.code == "invalid_model"
}

/// A 404 that says it in words only.
fn not_found(case: &Case<'_>) -> bool {
    case.status == 404
        && case.has_json()
        && (case.says("no endpoints found")
            || case.says("no allowed providers")
            || (case.says("model") && (case.says("not found") || is_retired(case))))
}
