//! Facts to class: one ordered list of questions, the first that is answered decides.
//!
//! An operator's own rules come first. Then, what a provider says of itself (a code, a type, an
//! exception's name) is asked before its words, its words before the bare status. The order is the
//! point: bodies about an exhausted account also match the phrases about rate limits. What only one
//! vendor says is in `google`, `aws`, `anthropic`; what several say is in `generic`; the phrases are
//! in `phrases`; what can be switched off is in `extended`.

mod anthropic;
mod aws;
mod extended;
mod generic;
mod google;
mod model;
mod own;
mod phrases;
#[cfg(test)]
mod tests;

use std::fmt;

pub use own::OwnRule;

use phrases::Phrases;

use super::class::{FailureClass, Reason};
use super::facts::envelope::FLAGGED_INPUT;
use super::facts::{BodyKind, Facts};

/// A class, and what gave it away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The class.
    pub class: FailureClass,
    /// The rule that decided.
    pub rule: RuleName,
    /// A guardrail or moderation refused this request's content: it rotates like a refused key.
    pub moderation: bool,
    /// The hold that follows, if one does: a refused prompt makes none unless that is wanted.
    pub holds: Option<Reason>,
}

/// Which rule decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleName {
    /// One of the operator's, by its place in `failure_rules`.
    Own(usize),
    /// A built-in one.
    BuiltIn(&'static str),
    /// None.
    NothingRecognised,
}

impl fmt::Display for RuleName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(place) => write!(out, "failure_rules[{place}]"),
            Self::BuiltIn(name) => out.write_str(name),
            Self::NothingRecognised => out.write_str("nothing_recognised"),
        }
    }
}

/// Says what failed answers mean. Made once, from the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classifier {
    /// The operator's rules, in the order in which they are asked.
    pub own: Vec<OwnRule>,
    /// Whether signals count that the large providers do not document.
    pub extended_signals: bool,
    /// Whether a moderation or guardrail 403 holds the key like another refusal of it.
    pub moderation_holds: bool,
}

impl Default for Classifier {
    fn default() -> Self {
        Self {
            own: Vec::new(),
            extended_signals: true,
            moderation_holds: false,
        }
    }
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

/// Which of the two tables a rule belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Table {
    /// What the large providers document.
    Documented,
    /// What can be switched off.
    Extended,
}

type Rule = (&'static str, Table, fn(&Case<'_>) -> Option<FailureClass>);

/// The questions, in the order in which they are asked.
const RULES: [Rule; 14] = [
    ("quota", Table::Documented, generic::quota),
    ("quota_extended", Table::Extended, extended::quota),
    ("rate_limit", Table::Documented, generic::rate_limit),
    ("transient_status", Table::Documented, generic::transient),
    ("region", Table::Documented, generic::region),
    ("credential", Table::Documented, generic::credential),
    ("credential_extended", Table::Extended, extended::credential),
    ("parameter_deprecated", Table::Extended, extended::parameter),
    ("model", Table::Documented, model::signal),
    ("model_extended", Table::Extended, extended::model),
    ("forbidden", Table::Documented, generic::forbidden),
    ("request_refused", Table::Documented, generic::request),
    (
        "field_not_found",
        Table::Documented,
        generic::field_not_found,
    ),
    ("file_not_found", Table::Extended, extended::file_not_found),
];

impl Classifier {
    /// What a failed answer means.
    #[must_use]
    pub fn classify(&self, facts: &Facts) -> Verdict {
        let case = Case {
            facts,
            status: facts.status,
            kind: facts.kind.as_deref().unwrap_or_default(),
            code: facts.code.as_deref().unwrap_or_default(),
            message: facts.lower_message(),
        };
        if let Some(place) = self.own.iter().position(|rule| rule.matches(&case)) {
            let class = self.own[place].class;
            return Verdict {
                class,
                rule: RuleName::Own(place),
                moderation: false,
                holds: class.reason(),
            };
        }
        let mut asked = RULES
            .iter()
            .filter(|(_, table, _)| *table == Table::Documented || self.extended_signals);
        let (class, rule) = asked
            .find_map(|(name, _, ask)| ask(&case).map(|class| (class, RuleName::BuiltIn(name))))
            .unwrap_or((FailureClass::Unknown, RuleName::NothingRecognised));
        let moderation = class == FailureClass::Credential && case.is_moderation();
        Verdict {
            class,
            rule,
            moderation,
            holds: class
                .reason()
                .filter(|_| !moderation || self.moderation_holds),
        }
    }
}

impl Case<'_> {
    fn says(&self, phrase: &str) -> bool {
        self.message.contains(phrase)
    }

    fn says_any(&self, phrases: &Phrases) -> bool {
        phrases.are_in(&self.message)
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

    /// A provider's error: a type or a code, or JSON that says something.
    fn is_provider_error(&self) -> bool {
        !self.kind.is_empty()
            || !self.code.is_empty()
            || (self.has_json() && !self.message.is_empty())
    }

    fn is_moderation(&self) -> bool {
        self.status == 403
            && (self.says_any(&phrases::MODERATION)
                || self.has_reason("SAFETY_CHECK")
                || self.has_reason(FLAGGED_INPUT)
                || self.is_named(&["content_policy_violation", "content_filter"])
                || [self.kind, self.code]
                    .iter()
                    .any(|name| name.contains("guardrail") || name.contains("moderation")))
    }
}
