//! `failure_rules`: what the operator knows of providers' errors, asked before the built-in rules.

use holdline_core::failure::{FailureClass, OwnRule};
use holdline_core::ids::ProviderId;

use super::builtin;
use super::reader::Object;

const FIELDS: [&str; 6] = [
    "provider",
    "status",
    "code",
    "type",
    "message_contains",
    "class",
];

/// Reads the list. A rule that would match more than was meant is an error: it could hold keys.
pub(crate) fn read(root: &Object<'_, '_>, is_named: impl Fn(&ProviderId) -> bool) -> Vec<OwnRule> {
    let items = root.items("failure_rules").unwrap_or_default();
    items
        .iter()
        .filter_map(|(path, value)| {
            let block = root.reader.object(path, value)?;
            let rule = rule(&block);
            warn_of_nobody(&block, &is_named);
            rule
        })
        .collect()
}

fn rule(block: &Object<'_, '_>) -> Option<OwnRule> {
    let text = |field| {
        let text = block.text(field)?;
        if text.is_empty() {
            block.error(field, "is empty: leave it out, or say what must be there");
        }
        Some(text.to_owned())
    };
    let class = class(block);
    let (provider, code, kind) = (text("provider"), text("code"), text("type"));
    let status = block.small("status", 100..=999);
    let message_contains = text("message_contains");
    for (name, path, _) in block.entries() {
        if !FIELDS.contains(&name) {
            let message = format!(
                "is no condition, and the rule would match without it: use {}",
                FIELDS.join(", ")
            );
            block.reader.error(path, message);
        }
    }
    if ["status", "code", "type", "message_contains"]
        .iter()
        .all(|field| block.get(field).is_none())
    {
        let message = "matches every error: add status, code, type or message_contains";
        block.reader.error(block.path(), message);
    }
    Some(OwnRule {
        provider,
        status: status.and_then(|status| u16::try_from(status).ok()),
        code,
        kind,
        message_contains,
        class: class?,
    })
}

fn class(block: &Object<'_, '_>) -> Option<FailureClass> {
    // The other two come of our own clock and callers, never of an answer.
    let own = [FailureClass::Timeout, FailureClass::Cancelled];
    let mut of_answers = FailureClass::ALL
        .iter()
        .filter(|class| !own.contains(class));
    let names: Vec<&str> = of_answers.clone().map(|class| class.as_str()).collect();
    if block.get("class").is_none() {
        let message = format!("is missing: one of {}", names.join(", "));
        block.error("class", message);
        return None;
    }
    let name = block.text("class")?;
    let found = of_answers.find(|class| class.as_str() == name);
    if found.is_none() {
        let message = format!("{name:?} is no class: use one of {}", names.join(", "));
        block.error("class", message);
    }
    found.copied()
}

fn warn_of_nobody(block: &Object<'_, '_>, is_named: impl Fn(&ProviderId) -> bool) {
    let Some(name) = block.text("provider").filter(|name| !name.is_empty()) else {
        return;
    };
    if builtin::find(name).is_none() && !is_named(&ProviderId::from(name)) {
        let message =
            "is no provider of this file, so the rule waits for one added through the API";
        block.warn("provider", message);
    }
}
