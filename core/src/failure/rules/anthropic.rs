//! Anthropic: its types name what was refused.

use super::Case;

/// `permission_error` is about the model unless its words are about the organisation or OAuth, which
/// are asked before.
pub(super) fn about_model(case: &Case<'_>) -> bool {
    case.kind == "permission_error"
        || (case.kind == "not_found_error"
            && (case.says("model:") || case.says("is not available")))
}
