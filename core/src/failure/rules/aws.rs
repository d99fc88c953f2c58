//! Bedrock: exceptions by name.

use super::model::is_retired;
use super::{Case, phrases};

/// Exceptions that speak of the signature or the token.
pub(super) fn rejects_credentials(case: &Case<'_>) -> bool {
    [
        "UnrecognizedClientException",
        "InvalidSignatureException",
        "ExpiredTokenException",
        "IncompleteSignatureException",
    ]
    .contains(&case.kind)
}

/// Exceptions that speak of the model. A missing job or guardrail is a resource as well, so words decide.
pub(super) fn about_model(case: &Case<'_>) -> bool {
    match case.kind {
        "AccessDeniedException" => true,
        "ResourceNotFoundException" => case.says("model"),
        "ValidationException" => {
            case.says_any(&phrases::USE_OF_MODEL) || (is_retired(case) && case.says("model"))
        }
        _ => false,
    }
}
