//! Facts to class: one ordered list of questions, the first that is answered decides.
//!
//! What a provider says of itself (a code, a type, an exception's name) is asked before its words,
//! its words before the bare status. The order is the point: bodies about an exhausted account also
//! match the phrases about rate limits. What only one vendor says is in `google`, `aws`,
//! `anthropic`; what several say is in `generic`; the phrases are in `phrases`.

mod anthropic;
mod aws;
mod extended;
mod generic;
mod google;
mod model;
mod phrases;
#[cfg(test)]
mod tests;

use super::class::FailureClass;
use super::facts::{BodyKind, Facts};

/// A class, and what gave it away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The class.
    pub class: FailureClass,
    /// The rule that decided.
    pub rule: &'static str,
    /// A guardrail or moderation refused this request's content: it rotates like a refused key, but
    /// must not hold one.
    pub moderation: bool,
}

/// A failure under examination.
struct Case<'a> {
    facts: &'a Facts,
    status: u16,
    kind: &'a str,
    code: &'a str,
    /// Lower case.
    message: String,
}

type Rule = (&'static str, fn(&Case<'_>) -> Option<FailureClass>);

/// The questions, in the order in which they are asked.
const RULES: [Rule; 14] = [
    ("quota", generic::quota),
    ("quota_extended", extended::quota),
    ("rate_limit", generic::rate_limit),
    ("transient_status", generic::transient),
    ("region", generic::region),
    ("credential", generic::credential),
    ("credential_extended", extended::credential),
    ("parameter_deprecated", extended::parameter),
    ("model", model::signal),
    ("model_extended", extended::model),
    ("forbidden", generic::forbidden),
    ("request_refused", generic::request),
    ("field_not_found", generic::field_not_found),
    ("file_not_found", extended::file_not_found),
];

/// What a failed answer means.
#[must_use]
pub fn classify(facts: &Facts) -> Verdict {
    let case = Case {
        facts,
        status: facts.status,
        kind: facts.kind.as_deref().unwrap_or_default(),
        code: facts.code.as_deref().unwrap_or_default(),
        message: facts.lower_message(),
    };
    let found = RULES
        .iter()
        .find_map(|(rule, ask)| ask(&case).map(|class| (class, *rule)));
    let (class, rule) = found.unwrap_or((FailureClass::Unknown, "nothing_recognised"));
    Verdict {
        class,
        rule,
        moderation: class == FailureClass::Credential && case.is_moderation(),
    }
}

impl Case<'_> {
    fn says(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| self.message.contains(phrase))
    }

    /// Sources do not always tell which of the two a name is.
    fn is_named(&self, names: &[&str]) -> bool {
        names.contains(&self.code) || names.contains(&self.kind)
    }

    fn has_reason(&self, reason: &str) -> bool {
        self.facts.reasons.iter().any(|r| r == reason)
    }

    fn has_json(&self) -> bool {
        self.facts.body == BodyKind::Json
    }

    /// A provider's error body: JSON that names a type or a code, or says something.
    fn is_provider_error(&self) -> bool {
        self.has_json()
            && !(self.kind.is_empty() && self.code.is_empty() && self.message.is_empty())
    }

    fn is_moderation(&self) -> bool {
        self.status == 403
            && (self.says(&phrases::MODERATION)
                || self.has_reason("SAFETY_CHECK")
                || self.is_named(&[
                    "content_policy_violation",
                    "content_filter",
                    "moderation_blocked",
                ]))
    }
}
