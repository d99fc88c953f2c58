//! Requests of generateContent: written for providers.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Number;
use serde_with::skip_serializing_none;

use super::parts::{
    Content, Outcome, PartOut, Sealed, call_part, media_part, result_part, text_part,
};
use super::schema::{Place, place};
use crate::protocols::json::Json;
use crate::protocols::talk::{
    Effort, Field, Format, Media, Part, Reasoning, Request, Role, Tool, ToolChoice, ToolResult,
};
use crate::protocols::{To, Unsupported, Written};

/// Stands for the seal that newer models want beside a call, where another model made the call.
const NO_SEAL: &str = "skip_thought_signature_validator";

/// The least that the largest model of 2.5 thinks.
const LEAST_OF_PRO: i64 = 128;

#[skip_serializing_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    system_instruction: Option<Content<'a>>,
    contents: Vec<Content<'a>>,
    tools: Option<[Tools<'a>; 1]>,
    tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "Config::is_empty")]
    generation_config: Config<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Function<'a>>,
}

#[skip_serializing_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Function<'a> {
    name: &'a str,
    description: Option<&'a str>,
    parameters: Option<&'a Json>,
    parameters_json_schema: Option<&'a Json>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig<'a> {
    function_calling_config: Calling<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Calling<'a> {
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed_function_names: Option<[&'a str; 1]>,
}

#[skip_serializing_none]
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Config<'a> {
    max_output_tokens: Option<u64>,
    temperature: Option<&'a Number>,
    top_p: Option<&'a Number>,
    top_k: Option<u64>,
    seed: Option<i64>,
    presence_penalty: Option<&'a Number>,
    frequency_penalty: Option<&'a Number>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop_sequences: &'a [String],
    response_mime_type: Option<&'static str>,
    response_schema: Option<&'a Json>,
    response_json_schema: Option<&'a Json>,
    thinking_config: Option<Thinking>,
}

impl Config<'_> {
    /// Nothing is said: an empty object would say no more.
    const fn is_empty(&self) -> bool {
        self.max_output_tokens.is_none()
            && self.temperature.is_none()
            && self.top_p.is_none()
            && self.top_k.is_none()
            && self.seed.is_none()
            && self.presence_penalty.is_none()
            && self.frequency_penalty.is_none()
            && self.stop_sequences.is_empty()
            && self.response_mime_type.is_none()
            && self.thinking_config.is_none()
    }
}

#[skip_serializing_none]
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Thinking {
    thinking_budget: Option<i64>,
    thinking_level: Option<&'static str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    include_thoughts: bool,
}

/// Writes a request for a provider.
pub(super) fn write(request: &Request, to: To<'_>) -> Result<Written, Unsupported> {
    let mut dropped = Vec::new();
    for (field, said) in [
        (Field::User, request.user.is_some()),
        (
            Field::ParallelToolCalls,
            request.parallel_tool_calls == Some(false),
        ),
        (Field::Strict, request.is_strict()),
        (Field::ToolChoice, request.has_idle_choice()),
    ] {
        if said {
            dropped.push(field);
        }
    }
    dropped.extend(request.labels());
    let functions: Vec<_> = request.tools.iter().map(function).collect();
    let body = Body {
        system_instruction: system(&request.system),
        contents: contents(request, to, &mut dropped)?,
        tools: (!functions.is_empty()).then_some([Tools {
            function_declarations: functions,
        }]),
        tool_config: request
            .tool_choice
            .as_ref()
            .filter(|_| !request.tools.is_empty())
            .map(tool_config),
        generation_config: config(request, to, &mut dropped),
    };
    let body = serde_json::to_vec(&body).expect("strings, numbers and JSON can be written");
    Ok(Written {
        body: body.into(),
        dropped,
    })
}

fn note(field: Field, dropped: &mut Vec<Field>) {
    if !dropped.contains(&field) {
        dropped.push(field);
    }
}

fn system(texts: &[String]) -> Option<Content<'_>> {
    let parts: Vec<_> = texts.iter().map(|text| text_part(text)).collect();
    (!parts.is_empty()).then_some(Content { role: None, parts })
}

fn contents<'a>(
    request: &'a Request,
    to: To<'_>,
    dropped: &mut Vec<Field>,
) -> Result<Vec<Content<'a>>, Unsupported> {
    let names = request.tool_names();
    let mut out = Vec::new();
    for (role, parts) in request.alternating() {
        let (role, parts) = match role {
            Role::User => ("user", of_user(&names, &parts, dropped)?),
            Role::Assistant => ("model", of_model(&parts, to, dropped)?),
        };
        // Refused where it stands: a turn must say something.
        if !parts.is_empty() {
            out.push(Content {
                role: Some(role),
                parts,
            });
        }
    }
    Ok(out)
}

/// Names of functions, by the ids of their calls.
type Names<'a> = HashMap<&'a str, &'a str>;

fn of_user<'a>(
    names: &Names<'a>,
    parts: &[&'a Part],
    dropped: &mut Vec<Field>,
) -> Result<Vec<PartOut<'a>>, Unsupported> {
    let (mut results, mut said) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            Part::Text(text) if text.is_empty() => {}
            Part::Text(text) => said.push(text_part(text)),
            Part::Media(one) => said.push(media(one, dropped)),
            Part::ToolResult(result) => {
                results.push(tool_result(names, result, &mut said, dropped)?);
            }
            Part::Thought(_) => note(Field::Thoughts, dropped),
            Part::ToolCall(_) => return Err(misplaced()),
        }
    }
    // Results must follow their calls at once.
    results.append(&mut said);
    Ok(results)
}

/// A medium; files have no names here.
fn media<'a>(media: &'a Media, dropped: &mut Vec<Field>) -> PartOut<'a> {
    if media.name.is_some() {
        note(Field::MediaName, dropped);
    }
    media_part(media)
}

/// What the model said.
fn of_model<'a>(
    parts: &[&'a Part],
    to: To<'_>,
    dropped: &mut Vec<Field>,
) -> Result<Vec<PartOut<'a>>, Unsupported> {
    let mut out = Sealed::default();
    let mut calls = 0;
    for part in parts {
        match part {
            Part::Text(text) if text.is_empty() => {}
            Part::Text(text) => out.push(text_part(text)),
            Part::Thought(thought) if thought.redacted.is_some() => note(Field::Thoughts, dropped),
            Part::Thought(thought) => out.think(thought),
            Part::ToolCall(call) => {
                calls += 1;
                if calls == 1 && is_gemini_3(to.model) {
                    out.seal_unless_sealed(NO_SEAL);
                }
                out.push(call_part(None, &call.name, &call.arguments));
            }
            Part::Media(_) | Part::ToolResult(_) => return Err(misplaced()),
        }
    }
    Ok(out.finish())
}

fn name_of(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or(model)
}

fn is_gemini_3(model: &str) -> bool {
    name_of(model).starts_with("gemini-3")
}

fn misplaced() -> Unsupported {
    Unsupported::new(
        Field::Turns,
        "a turn holds a part that only the other side can say",
    )
}

/// A tool's result; media in it follow in the user's words.
fn tool_result<'a>(
    names: &Names<'a>,
    result: &'a ToolResult,
    said: &mut Vec<PartOut<'a>>,
    dropped: &mut Vec<Field>,
) -> Result<PartOut<'a>, Unsupported> {
    let Some(name) = names.get(result.call_id.as_str()) else {
        let message = "has a tool's result whose call is not in the conversation: this provider \
                       needs the name of its function";
        return Err(Unsupported::new(Field::Turns, message));
    };
    let mut text = String::new();
    for part in &result.parts {
        match part {
            Part::Text(more) => text.push_str(more),
            Part::Media(one) => said.push(media(one, dropped)),
            Part::Thought(_) | Part::ToolCall(_) | Part::ToolResult(_) => return Err(misplaced()),
        }
    }
    let object = Json::parse(text.trim()).filter(Json::is_object);
    let response = match object {
        _ if result.is_error => Outcome::Error(text),
        Some(object) => Outcome::Object(object),
        None => Outcome::Output(text),
    };
    Ok(result_part(name, response))
}

fn function(tool: &Tool) -> Function<'_> {
    let (parameters, parameters_json_schema) = match tool.parameters.as_ref().map(place) {
        None | Some(Place::Nowhere) => (None, None),
        Some(Place::OpenApi(schema)) => (Some(schema), None),
        Some(Place::JsonSchema(schema)) => (None, Some(schema)),
    };
    Function {
        name: &tool.name,
        description: tool.description.as_deref(),
        parameters,
        parameters_json_schema,
    }
}

fn tool_config(choice: &ToolChoice) -> ToolConfig<'_> {
    let (mode, name) = match choice {
        ToolChoice::Auto => ("AUTO", None),
        ToolChoice::None => ("NONE", None),
        ToolChoice::Required => ("ANY", None),
        ToolChoice::Named(name) => ("ANY", Some([name.as_str()])),
    };
    ToolConfig {
        function_calling_config: Calling {
            mode,
            allowed_function_names: name,
        },
    }
}

fn config<'a>(request: &'a Request, to: To<'_>, dropped: &mut Vec<Field>) -> Config<'a> {
    let thinking_config = request.reasoning.and_then(|reasoning| {
        let (thinking, exactly) = thinking(reasoning, to.model);
        if !exactly {
            dropped.push(Field::Reasoning);
        }
        thinking
    });
    let mut config = Config {
        max_output_tokens: request.max_tokens,
        temperature: request.temperature.as_ref(),
        top_p: request.top_p.as_ref(),
        top_k: request.top_k,
        seed: request.seed,
        presence_penalty: request.presence_penalty.as_ref(),
        frequency_penalty: request.frequency_penalty.as_ref(),
        stop_sequences: &request.stop,
        thinking_config,
        ..Config::default()
    };
    if let Some(format) = &request.format {
        config.response_mime_type = Some("application/json");
        if let Format::JsonSchema { schema, .. } = format {
            match place(schema) {
                Place::Nowhere => {}
                Place::OpenApi(schema) => config.response_schema = Some(schema),
                Place::JsonSchema(schema) => config.response_json_schema = Some(schema),
            }
        }
    }
    config
}

/// How much to think in the words of a model, and whether it means exactly that. Models that do not
/// think refuse to be told; their names are all that tells them apart.
fn thinking(reasoning: Reasoning, model: &str) -> (Option<Thinking>, bool) {
    let name = name_of(model);
    let never = [
        "gemini-1",
        "gemini-2.0",
        "gemma",
        "learnlm",
        "gemini-pro-vision",
    ];
    if never.iter().any(|never| name.starts_with(never)) {
        return (None, reasoning == Reasoning::Off);
    }
    let with_level = |level| Thinking {
        thinking_budget: None,
        thinking_level: Some(level),
        include_thoughts: reasoning != Reasoning::Off,
    };
    let with_budget = |tokens| Thinking {
        thinking_budget: Some(tokens),
        thinking_level: None,
        include_thoughts: reasoning != Reasoning::Off,
    };
    let is_pro = !name.contains("flash");
    match reasoning {
        // The newer ones, and the largest of the older, always think a little.
        Reasoning::Off if is_gemini_3(model) && is_pro => (Some(with_level("low")), false),
        Reasoning::Off if is_gemini_3(model) => (Some(with_level("minimal")), false),
        Reasoning::Off if name.starts_with("gemini-2.5-pro") => {
            (Some(with_budget(LEAST_OF_PRO)), false)
        }
        Reasoning::Off => (Some(with_budget(0)), true),
        Reasoning::Budget(tokens) => (
            Some(with_budget(i64::try_from(tokens).unwrap_or(i64::MAX))),
            true,
        ),
        Reasoning::Adaptive => (Some(with_budget(-1)), true),
        Reasoning::Effort(effort) if is_gemini_3(model) => {
            let level = match effort {
                Effort::Minimal if !is_pro => "minimal",
                Effort::Minimal | Effort::Low => "low",
                Effort::Medium if !name.starts_with("gemini-3-pro") => "medium",
                Effort::Medium | Effort::High | Effort::Max => "high",
            };
            (Some(with_level(level)), true)
        }
        // As Google itself translates OpenAI's words.
        Reasoning::Effort(effort) => {
            let tokens = match effort {
                Effort::Minimal | Effort::Low => 1_024,
                Effort::Medium => 8_192,
                Effort::High | Effort::Max => 24_576,
            };
            (Some(with_budget(tokens)), true)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_told_how_much_to_think_in_their_own_words() {
        let budget = |tokens, include_thoughts| {
            let thinking = Thinking {
                thinking_budget: Some(tokens),
                thinking_level: None,
                include_thoughts,
            };
            Some(thinking)
        };
        let level = |level| {
            let thinking = Thinking {
                thinking_budget: None,
                thinking_level: Some(level),
                include_thoughts: true,
            };
            Some(thinking)
        };
        let high = Reasoning::Effort(Effort::High);
        let medium = Reasoning::Effort(Effort::Medium);
        for (reasoning, model, expected) in [
            (high, "gemini-2.5-flash", (budget(24_576, true), true)),
            (high, "gemini-3-flash-preview", (level("high"), true)),
            (medium, "models/gemini-3-pro-preview", (level("high"), true)),
            (medium, "gemini-3.1-pro", (level("medium"), true)),
            (high, "gemini-2.0-flash", (None, false)),
            (Reasoning::Off, "gemini-2.0-flash", (None, true)),
            (Reasoning::Off, "gemini-2.5-flash", (budget(0, false), true)),
            (
                Reasoning::Off,
                "gemini-2.5-pro",
                (budget(128, false), false),
            ),
            (Reasoning::Adaptive, "my-tuned", (budget(-1, true), true)),
            (
                Reasoning::Budget(7),
                "gemini-3-pro",
                (budget(7, true), true),
            ),
        ] {
            assert_eq!(thinking(reasoning, model), expected, "{model}");
        }
    }
}
