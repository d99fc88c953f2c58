//! An operator's own rules: asked before every other, because who runs the gateway knows better.

use super::Case;
use crate::failure::FailureClass;

/// What an answer must be like for its class to be the operator's word. A condition that is absent
/// holds always.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnRule {
    /// The provider, by its configured name.
    pub provider: Option<String>,
    /// The HTTP status; of an error inside a 200, what its code or type stands for.
    pub status: Option<u16>,
    /// The provider's code, to the letter.
    pub code: Option<String>,
    /// The provider's type, Google's status name or AWS's exception, to the letter.
    pub kind: Option<String>,
    /// A part of the message, in any case.
    pub message_contains: Option<String>,
    /// What it means then.
    pub class: FailureClass,
}

impl OwnRule {
    pub(super) fn matches(&self, case: &Case<'_>) -> bool {
        let is =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|w| w == found);
        is(&self.provider, &case.facts.provider)
            && self.status.is_none_or(|status| status == case.status)
            && is(&self.code, case.code)
            && is(&self.kind, case.kind)
            && self
                .message_contains
                .as_deref()
                .is_none_or(|part| case.says(&part.to_ascii_lowercase()))
    }
}
