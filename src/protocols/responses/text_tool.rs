//! Tools that take one text (`custom`), for providers that have functions alone: there they are functions of one
//! argument, whose calls become such tools' calls again.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::protocols::Malformed;
use crate::protocols::json::{Json, Member};
use crate::protocols::talk::Tool;

/// What such a function takes.
const PARAMETERS: &str = r#"{"type":"object","properties":{"input":{"type":"string","description":"The whole text that the tool gets."}},"required":["input"],"additionalProperties":false}"#;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments<'a> {
    #[serde(borrow)]
    input: Cow<'a, str>,
}

/// The function for such a tool. Nobody else holds a text to a grammar: it is told as left out, and the model gets
/// to read it.
pub(super) fn read(member: &Member<'_>) -> Result<Tool, Malformed> {
    let mut tool = member.object()?;
    tool.skip(&["type"]);
    let format = tool.take("format");
    let grammar = format.map(|format| grammar(&format)).transpose()?.flatten();
    let described = tool.text("description")?;
    let description: Vec<String> = described.into_iter().chain(grammar).collect();
    Ok(Tool {
        name: tool.need("name")?.text()?,
        description: (!description.is_empty()).then(|| description.join("\n\n")),
        parameters: Json::parse(PARAMETERS),
        strict: None,
    })
}

/// What the model is told of the text's form, where that is more than a text.
fn grammar(format: &Member<'_>) -> Result<Option<String>, Malformed> {
    let mut seen = format.glimpse()?;
    let kind = seen.need("type")?;
    match kind.text()?.as_str() {
        "text" => {
            format.object()?.skip(&["type"]);
            Ok(None)
        }
        "grammar" => {
            let syntax = seen.need("syntax")?.text()?;
            let definition = seen.need("definition")?.text()?;
            format.not_passed_on();
            let told = format!("The text must follow this grammar ({syntax}):\n{definition}");
            Ok(Some(told))
        }
        _ => Err(kind.wrong("must be text or grammar")),
    }
}

/// A call's text as arguments.
pub(super) fn arguments(input: &str) -> Json {
    Json::of(&Arguments {
        input: input.into(),
    })
}

/// The text in a call's arguments; all of them where they are something else, so that nothing is lost.
pub(super) fn input(arguments: &str) -> Cow<'_, str> {
    if matches!(arguments.trim(), "" | "{}") {
        return Cow::Borrowed("");
    }
    let read = serde_json::from_str::<Arguments<'_>>(arguments);
    read.map_or(Cow::Borrowed(arguments), |arguments| arguments.input)
}
