//! Requests of messages: written for providers.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Number;
use serde_with::skip_serializing_none;

use crate::protocols::json::Json;
use crate::protocols::talk::{
    Field, Format, Media, MediaKind, Part, Reasoning, Request, Role, Source, Thought, Tool,
    ToolChoice, ToolResult,
};
use crate::protocols::{To, Unsupported, Written};

/// Every model takes this many, and the protocol wants a limit.
const MAX_TOKENS: u64 = 4_096;

/// With reasoning in it, an answer is longer; models that reason take this many.
const MAX_TOKENS_REASONING: u64 = 16_000;

/// The least that may be thought.
const LEAST_BUDGET: u64 = 1_024;

#[skip_serializing_none]
#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    system: Option<System<'a>>,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    tool_choice: Option<Choice<'a>>,
    temperature: Option<&'a Number>,
    top_p: Option<&'a Number>,
    top_k: Option<u64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop_sequences: &'a [String],
    thinking: Option<Thinking>,
    output_config: Option<OutputConfig<'a>>,
    metadata: Option<Metadata<'a>>,
    stream: Option<bool>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum System<'a> {
    Text(&'a str),
    Blocks(Vec<Block<'a>>),
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: WireSource<'a>,
    },
    Document {
        source: WireSource<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: &'a str,
        input: &'a Json,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: Vec<Block<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum WireSource<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Url { url: &'a str },
}

#[derive(Serialize)]
struct WireTool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: Cow<'a, Json>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    strict: bool,
}

#[derive(Serialize)]
struct Choice<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disable_parallel_tool_use: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(in crate::protocols) enum Thinking {
    Enabled { budget_tokens: u64 },
    Adaptive,
    Disabled,
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    format: WireFormat<'a>,
}

#[derive(Serialize)]
struct WireFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    schema: &'a Json,
}

#[derive(Serialize)]
struct Metadata<'a> {
    user_id: &'a str,
}

/// Writes a request for a provider.
pub(super) fn write(request: &Request, to: To<'_>) -> Result<Written, Unsupported> {
    let mut dropped = Vec::new();
    for (field, said) in [
        (Field::Seed, request.seed.is_some()),
        (Field::FrequencyPenalty, request.frequency_penalty.is_some()),
        (Field::PresencePenalty, request.presence_penalty.is_some()),
        (Field::ToolChoice, request.has_idle_choice()),
        (
            Field::ParallelToolCalls,
            request.parallel_tool_calls == Some(false) && request.tools.is_empty(),
        ),
    ] {
        if said {
            dropped.push(field);
        }
    }
    dropped.extend(request.labels());
    let (max_tokens, thinking) = thinking(request, &mut dropped);
    let thinks = matches!(
        thinking,
        Some(Thinking::Enabled { .. } | Thinking::Adaptive)
    );
    let body = Body {
        model: to.model,
        max_tokens,
        system: system(&request.system),
        messages: messages(request, &mut dropped)?,
        tools: request.tools.iter().map(tool).collect(),
        tool_choice: choice(request),
        temperature: temperature(request, thinks, &mut dropped)?,
        top_p: request.top_p.as_ref(),
        top_k: unless(thinks, request.top_k, Field::TopK, &mut dropped),
        stop_sequences: &request.stop,
        thinking,
        output_config: output_config(request)?,
        metadata: request.user.as_deref().map(|user_id| Metadata { user_id }),
        stream: to.stream.then_some(true),
    };
    let body = serde_json::to_vec(&body).expect("strings, numbers and JSON can be written");
    Ok(Written {
        body: body.into(),
        dropped,
    })
}

fn unless<T>(not: bool, value: Option<T>, field: Field, dropped: &mut Vec<Field>) -> Option<T> {
    if not && value.is_some() {
        dropped.push(field);
        return None;
    }
    value
}

/// Reasoning fixes the temperature; without it the scale ends at 1.
fn temperature<'a>(
    request: &'a Request,
    thinks: bool,
    dropped: &mut Vec<Field>,
) -> Result<Option<&'a Number>, Unsupported> {
    let given = request.temperature.as_ref();
    if given.is_some_and(|t| t.as_f64().is_some_and(|t| t > 1.0)) {
        let message = "must be at most 1 with this provider";
        return Err(Unsupported::new(Field::Temperature, message));
    }
    let is_one = given.is_some_and(|t| t.as_f64() == Some(1.0));
    Ok(unless(
        thinks && !is_one,
        given,
        Field::Temperature,
        dropped,
    ))
}

/// How much may be thought, and the token limit around it. What the provider would refuse to combine
/// with reasoning wins over it.
pub(in crate::protocols) fn thinking(
    request: &Request,
    dropped: &mut Vec<Field>,
) -> (u64, Option<Thinking>) {
    let without = request.max_tokens.unwrap_or(MAX_TOKENS);
    let Some(reasoning) = request.reasoning else {
        return (without, None);
    };
    if reasoning == Reasoning::Off {
        return (without, Some(Thinking::Disabled));
    }
    let forced = matches!(
        request.tool_choice,
        Some(ToolChoice::Required | ToolChoice::Named(_))
    );
    if forced || calls_without_thought(request) {
        dropped.push(Field::Reasoning);
        return (without, None);
    }
    let mut limit = request.max_tokens.unwrap_or(MAX_TOKENS_REASONING);
    if reasoning == Reasoning::Adaptive {
        return (limit, Some(Thinking::Adaptive));
    }
    let budget_tokens = reasoning
        .budget(limit, LEAST_BUDGET)
        .unwrap_or(LEAST_BUDGET);
    if request.max_tokens.is_none() && budget_tokens >= limit {
        limit = budget_tokens + MAX_TOKENS;
    }
    if budget_tokens >= limit {
        dropped.push(Field::Reasoning);
        return (without, None);
    }
    (limit, Some(Thinking::Enabled { budget_tokens }))
}

/// A turn that called tools must begin with the thought that led to it, sealed, if thinking is to go on.
fn calls_without_thought(request: &Request) -> bool {
    let turns = request.alternating();
    let last = turns.iter().rfind(|(role, _)| *role == Role::Assistant);
    last.is_some_and(|(_, parts)| {
        let calls = parts.iter().any(|p| matches!(p, Part::ToolCall(_)));
        let thought = parts.iter().any(
            |p| matches!(p, Part::Thought(t) if t.signature.is_some() || t.redacted.is_some()),
        );
        calls && !thought
    })
}

fn system(texts: &[String]) -> Option<System<'_>> {
    let mut texts = texts.iter().filter(|text| !text.is_empty());
    let first = texts.next()?;
    let blocks: Vec<_> = texts.map(|text| Block::Text { text }).collect();
    if blocks.is_empty() {
        return Some(System::Text(first));
    }
    let first = std::iter::once(Block::Text { text: first });
    Some(System::Blocks(first.chain(blocks).collect()))
}

fn messages<'a>(
    request: &'a Request,
    dropped: &mut Vec<Field>,
) -> Result<Vec<Message<'a>>, Unsupported> {
    let mut out = Vec::new();
    for (role, parts) in request.alternating() {
        let mut content = Vec::new();
        for part in parts {
            content.extend(block(part, dropped)?);
        }
        // Results of tools must come first.
        content.sort_by_key(|block| !matches!(block, Block::ToolResult { .. }));
        if content.is_empty() {
            continue;
        }
        let role = match role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        out.push(Message { role, content });
    }
    Ok(out)
}

fn block<'a>(part: &'a Part, dropped: &mut Vec<Field>) -> Result<Option<Block<'a>>, Unsupported> {
    Ok(match part {
        // Refused where it stands: an empty text says nothing.
        Part::Text(text) if text.is_empty() => None,
        Part::Text(text) => Some(Block::Text { text }),
        Part::Media(one) => Some(media(one)?),
        Part::Thought(one) => {
            let block = thought(one);
            if block.is_none() && !dropped.contains(&Field::Thoughts) {
                dropped.push(Field::Thoughts);
            }
            block
        }
        Part::ToolCall(call) => Some(Block::ToolUse {
            id: safe_id(&call.id),
            name: &call.name,
            input: &call.arguments,
        }),
        Part::ToolResult(result) => Some(tool_result(result, dropped)?),
    })
}

/// Only what was sealed may come back.
pub(super) fn thought(thought: &Thought) -> Option<Block<'_>> {
    if let Some(data) = &thought.redacted {
        return Some(Block::RedactedThinking { data });
    }
    let signature = thought.signature.as_deref()?;
    Some(Block::Thinking {
        thinking: &thought.text,
        signature,
    })
}

fn tool_result<'a>(
    result: &'a ToolResult,
    dropped: &mut Vec<Field>,
) -> Result<Block<'a>, Unsupported> {
    let mut content = Vec::new();
    for part in &result.parts {
        content.extend(block(part, dropped)?);
    }
    Ok(Block::ToolResult {
        tool_use_id: safe_id(&result.call_id),
        content,
        is_error: result.is_error,
    })
}

/// Ids may have letters, digits, `_` and `-`.
pub(in crate::protocols) fn safe_id(id: &str) -> Cow<'_, str> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if id.chars().all(is_safe) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(id.replace(|c| !is_safe(c), "_"))
}

fn media(media: &Media) -> Result<Block<'_>, Unsupported> {
    let source = match &media.source {
        Source::Base64 { media_type, data } => WireSource::Base64 { media_type, data },
        Source::Url(url) => WireSource::Url { url },
    };
    match media.kind {
        MediaKind::Image => Ok(Block::Image { source }),
        MediaKind::Document => Ok(Block::Document {
            source,
            title: media.name.as_deref(),
        }),
        MediaKind::Audio => Err(Unsupported::new(
            Field::Media,
            "has sound, which this provider does not take",
        )),
    }
}

fn tool(tool: &Tool) -> WireTool<'_> {
    let none = || Json::parse(r#"{"type":"object","properties":{}}"#).expect("it is JSON");
    WireTool {
        name: &tool.name,
        description: tool.description.as_deref(),
        input_schema: tool
            .parameters
            .as_ref()
            .map_or_else(|| Cow::Owned(none()), Cow::Borrowed),
        strict: tool.strict == Some(true),
    }
}

fn choice(request: &Request) -> Option<Choice<'_>> {
    if request.tools.is_empty() {
        return None;
    }
    let alone = request.parallel_tool_calls == Some(false);
    let (kind, name) = match &request.tool_choice {
        None if !alone => return None,
        None | Some(ToolChoice::Auto) => ("auto", None),
        Some(ToolChoice::None) => ("none", None),
        Some(ToolChoice::Required) => ("any", None),
        Some(ToolChoice::Named(name)) => ("tool", Some(name.as_str())),
    };
    Some(Choice {
        kind,
        name,
        disable_parallel_tool_use: alone && kind != "none",
    })
}

fn output_config(request: &Request) -> Result<Option<OutputConfig<'_>>, Unsupported> {
    match &request.format {
        None => Ok(None),
        Some(Format::JsonObject) => Err(Unsupported::new(
            Field::Format,
            "must have a JSON schema with this provider: it has no form for any object",
        )),
        Some(Format::JsonSchema { schema, .. }) => Ok(Some(OutputConfig {
            format: WireFormat {
                kind: "json_schema",
                schema,
            },
        })),
    }
}
