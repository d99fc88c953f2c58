//! Gemini and Vertex AI: status names, and models as resources.

use super::Case;

/// A refusal that names a model's resource.
pub(super) fn about_model(case: &Case<'_>) -> bool {
    ["NOT_FOUND", "PERMISSION_DENIED", "FAILED_PRECONDITION"].contains(&case.kind)
        && (case.says("models/") || case.says("publisher model"))
}
