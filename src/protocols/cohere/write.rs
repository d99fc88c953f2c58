//! Requests of Cohere's chat: written for providers.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Number;
use serde_with::skip_serializing_none;

use crate::protocols::json::Json;
use crate::protocols::talk::{
    Field, Format, Media, MediaKind, Part, Reasoning, Request, Role, Source, Tool, ToolCall,
    ToolChoice, ToolResult,
};
use crate::protocols::{To, Unsupported, Written};

/// Used to turn an amount of thinking into tokens where the client set no limit.
const USUAL_MAX_TOKENS: u64 = 8_000;

#[skip_serializing_none]
#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    strict_tools: bool,
    max_tokens: Option<u64>,
    temperature: Option<&'a Number>,
    p: Option<&'a Number>,
    k: Option<u64>,
    seed: Option<i64>,
    frequency_penalty: Option<&'a Number>,
    presence_penalty: Option<&'a Number>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop_sequences: &'a [String],
    response_format: Option<WireFormat<'a>>,
    thinking: Option<Thinking>,
    /// Required, also where it says nothing.
    stream: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Message<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Vec<WirePart<'a>>,
    },
    Assistant {
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_plan: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<WirePart<'a>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: Vec<WirePart<'a>>,
    },
}

/// A part of a message; an answer's too.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum WirePart<'a> {
    Text { text: &'a str },
    Thinking { thinking: &'a str },
    ImageUrl { image_url: Url<'a> },
}

#[derive(Serialize)]
pub(super) struct Url<'a> {
    url: Cow<'a, str>,
}

/// A call, in requests and answers.
#[derive(Serialize)]
pub(super) struct Call<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

#[derive(Serialize)]
struct WireTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Declared<'a>,
}

#[skip_serializing_none]
#[derive(Serialize)]
struct Declared<'a> {
    name: &'a str,
    description: Option<&'a str>,
    parameters: Option<&'a Json>,
}

#[derive(Serialize)]
struct WireFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    json_schema: Option<&'a Json>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Thinking {
    Enabled {
        #[serde(skip_serializing_if = "Option::is_none")]
        token_budget: Option<u64>,
    },
    Disabled,
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
        (Field::ToolChoice, request.has_idle_choice()),
    ] {
        if said {
            dropped.push(field);
        }
    }
    dropped.extend(request.labels());
    let body = Body {
        model: to.model,
        messages: messages(request, &mut dropped)?,
        tools: tools(request)?,
        tool_choice: match &request.tool_choice {
            _ if request.tools.is_empty() => None,
            None | Some(ToolChoice::Auto) => None,
            Some(ToolChoice::None) => Some("NONE"),
            // With one tool to choose from: see `tools`.
            Some(ToolChoice::Required | ToolChoice::Named(_)) => Some("REQUIRED"),
        },
        strict_tools: request.is_strict(),
        max_tokens: request.max_tokens,
        temperature: request.temperature.as_ref(),
        p: request.top_p.as_ref(),
        k: request.top_k,
        seed: request.seed,
        frequency_penalty: request.frequency_penalty.as_ref(),
        presence_penalty: request.presence_penalty.as_ref(),
        stop_sequences: &request.stop,
        response_format: request.format.as_ref().map(format),
        thinking: thinking(request),
        stream: to.stream,
    };
    let body = serde_json::to_vec(&body).expect("strings, numbers and JSON can be written");
    Ok(Written {
        body: body.into(),
        dropped,
    })
}

/// The tools. A single one cannot be named to be called, so then it is the only one.
fn tools(request: &Request) -> Result<Vec<WireTool<'_>>, Unsupported> {
    let Some(ToolChoice::Named(name)) = &request.tool_choice else {
        return Ok(request.tools.iter().map(tool).collect());
    };
    let named = request.tools.iter().find(|tool| tool.name == *name);
    let message = "names a function that `tools` does not have";
    let named = named.ok_or_else(|| Unsupported::new(Field::ToolChoice, message))?;
    Ok(vec![tool(named)])
}

fn tool(tool: &Tool) -> WireTool<'_> {
    WireTool {
        kind: "function",
        function: Declared {
            name: &tool.name,
            description: tool.description.as_deref(),
            parameters: tool.parameters.as_ref(),
        },
    }
}

fn messages<'a>(
    request: &'a Request,
    dropped: &mut Vec<Field>,
) -> Result<Vec<Message<'a>>, Unsupported> {
    let system = request.system.iter().filter(|text| !text.is_empty());
    let mut out: Vec<_> = system.map(|content| Message::System { content }).collect();
    for turn in &request.turns {
        match turn.role {
            Role::User => user(&turn.parts, &mut out, dropped)?,
            Role::Assistant => out.extend(assistant(&turn.parts, dropped)?),
        }
    }
    Ok(out)
}

/// One message for what a user says; each result of a tool is one of its own.
fn user<'a>(
    parts: &'a [Part],
    out: &mut Vec<Message<'a>>,
    dropped: &mut Vec<Field>,
) -> Result<(), Unsupported> {
    let mut content = Vec::new();
    for part in parts {
        match part {
            Part::Text(text) => content.push(WirePart::Text { text }),
            Part::Media(one) => content.push(media(one)?),
            Part::ToolResult(result) => out.push(tool_result(result, dropped)?),
            // A user says neither.
            Part::Thought(_) | Part::ToolCall(_) => {}
        }
    }
    if !content.is_empty() {
        out.push(Message::User { content });
    }
    Ok(())
}

/// Whether the reasoning of these parts is a plan for the tools that are called in them.
pub(super) fn is_plan(parts: &[Part]) -> bool {
    let thoughts = parts.iter().filter(|p| matches!(p, Part::Thought(_)));
    thoughts.count() == 1 && parts.iter().any(|p| matches!(p, Part::ToolCall(_)))
}

fn assistant<'a>(
    parts: &'a [Part],
    dropped: &mut Vec<Field>,
) -> Result<Option<Message<'a>>, Unsupported> {
    let plans = is_plan(parts);
    let (mut plan, mut content, mut tool_calls) = (None, Vec::new(), Vec::new());
    for part in parts {
        if let Part::Thought(thought) = part {
            if thought.text.is_empty() {
                note(Field::Thoughts, dropped);
            } else if thought.signature.is_some() || thought.redacted.is_some() {
                note(Field::Seals, dropped);
            }
        }
        match part {
            Part::Text(text) if text.is_empty() => {}
            Part::Text(text) => content.push(WirePart::Text { text }),
            Part::Media(one) => content.push(media(one)?),
            Part::Thought(thought) if thought.text.is_empty() => {}
            Part::Thought(thought) if plans => plan = Some(Cow::Borrowed(thought.text.as_str())),
            Part::Thought(thought) => content.push(WirePart::Thinking {
                thinking: &thought.text,
            }),
            Part::ToolCall(made) => tool_calls.push(call(made)),
            // A model says none.
            Part::ToolResult(_) => {}
        }
    }
    if content.is_empty() && tool_calls.is_empty() {
        return Ok(None);
    }
    Ok(Some(Message::Assistant {
        tool_plan: plan,
        content,
        tool_calls,
    }))
}

fn note(field: Field, dropped: &mut Vec<Field>) {
    if !dropped.contains(&field) {
        dropped.push(field);
    }
}

pub(super) fn call(call: &ToolCall) -> Call<'_> {
    Call {
        id: &call.id,
        kind: "function",
        function: Function {
            name: &call.name,
            arguments: call.arguments.text(),
        },
    }
}

fn tool_result<'a>(
    result: &'a ToolResult,
    dropped: &mut Vec<Field>,
) -> Result<Message<'a>, Unsupported> {
    if result.is_error {
        note(Field::ToolErrors, dropped);
    }
    let mut content = Vec::new();
    for part in &result.parts {
        match part {
            Part::Text(text) => content.push(WirePart::Text { text }),
            Part::Media(_) => {
                let message = "has media in a tool's result, which this provider does not take";
                return Err(Unsupported::new(Field::Media, message));
            }
            // A result holds none of these.
            Part::Thought(_) | Part::ToolCall(_) | Part::ToolResult(_) => {}
        }
    }
    if content.is_empty() {
        content.push(WirePart::Text { text: "" });
    }
    Ok(Message::Tool {
        tool_call_id: &result.call_id,
        content,
    })
}

fn media(media: &Media) -> Result<WirePart<'_>, Unsupported> {
    if media.kind != MediaKind::Image {
        let message = "has a file or sound: this provider takes images only";
        return Err(Unsupported::new(Field::Media, message));
    }
    let url = match &media.source {
        Source::Url(url) => Cow::Borrowed(url.as_str()),
        Source::Base64 { media_type, data } => {
            Cow::Owned(format!("data:{media_type};base64,{data}"))
        }
    };
    Ok(WirePart::ImageUrl {
        image_url: Url { url },
    })
}

fn format(format: &Format) -> WireFormat<'_> {
    WireFormat {
        kind: "json_object",
        json_schema: match format {
            Format::JsonObject => None,
            Format::JsonSchema { schema, .. } => Some(schema),
        },
    }
}

fn thinking(request: &Request) -> Option<Thinking> {
    let limit = request.max_tokens.unwrap_or(USUAL_MAX_TOKENS);
    Some(match request.reasoning? {
        Reasoning::Off => Thinking::Disabled,
        Reasoning::Adaptive => Thinking::Enabled { token_budget: None },
        some @ (Reasoning::Effort(_) | Reasoning::Budget(_)) => Thinking::Enabled {
            token_budget: some.budget(limit, 1),
        },
    })
}
