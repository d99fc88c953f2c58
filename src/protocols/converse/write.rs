//! Requests of Converse: written for providers.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Number;
use serde_with::skip_serializing_none;

use super::answer::ReasoningOut;
use super::read::format_of;
use crate::protocols::json::Json;
use crate::protocols::messages::{Thinking, safe_id, thinking};
use crate::protocols::talk::{
    Effort, Field, Format, Media, MediaKind, Part, Reasoning, Request, Role, Source, Thought, Tool,
    ToolChoice, ToolResult,
};
use crate::protocols::{To, Unsupported, Written};

#[skip_serializing_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    #[serde(skip_serializing_if = "Inference::is_empty")]
    inference_config: Inference<'a>,
    tool_config: Option<ToolConfig<'a>>,
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "More::is_empty")]
    additional_model_request_fields: More,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Block<'a> {
    Text(&'a str),
    Image(Medium<'a>),
    Document(Medium<'a>),
    ReasoningContent(ReasoningOut<'a>),
    #[serde(rename_all = "camelCase")]
    ToolUse {
        tool_use_id: Cow<'a, str>,
        name: &'a str,
        input: &'a Json,
    },
    #[serde(rename_all = "camelCase")]
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: Vec<Self>,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'static str>,
    },
}

#[derive(Serialize)]
struct Medium<'a> {
    format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    source: WireSource<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum WireSource<'a> {
    Bytes(&'a str),
    S3Location { uri: &'a str },
}

#[skip_serializing_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Inference<'a> {
    max_tokens: Option<u64>,
    temperature: Option<&'a Number>,
    top_p: Option<&'a Number>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop_sequences: &'a [String],
}

impl Inference<'_> {
    const fn is_empty(&self) -> bool {
        self.max_tokens.is_none()
            && self.temperature.is_none()
            && self.top_p.is_none()
            && self.stop_sequences.is_empty()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig<'a> {
    tools: Vec<WireTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum WireTool<'a> {
    ToolSpec(Spec<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: Schema<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    strict: bool,
}

#[derive(Serialize)]
struct Schema<'a> {
    json: Cow<'a, Json>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Choice<'a> {
    Auto {},
    Any {},
    Tool { name: &'a str },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutputConfig<'a> {
    text_format: TextFormat<'a>,
}

#[derive(Serialize)]
struct TextFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    structure: Structure<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Structure<'a> {
    json_schema: WireFormat<'a>,
}

/// The schema is the text of JSON.
#[skip_serializing_none]
#[derive(Serialize)]
struct WireFormat<'a> {
    schema: &'a str,
    name: Option<&'a str>,
    description: Option<&'a str>,
}

/// What is the model vendor's own.
#[skip_serializing_none]
#[derive(Default, Serialize)]
struct More {
    top_k: Option<u64>,
    thinking: Option<Thinking>,
    reasoning_effort: Option<&'static str>,
}

impl More {
    const fn is_empty(&self) -> bool {
        self.top_k.is_none() && self.thinking.is_none() && self.reasoning_effort.is_none()
    }
}

/// Whose model it is, as far as it makes a difference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Vendor {
    Anthropic,
    OpenAi,
    Other,
}

impl Vendor {
    fn of(model: &str) -> Self {
        if model.contains("anthropic.") || model.contains("claude") {
            Self::Anthropic
        } else if model.contains("openai.") || model.contains("gpt-oss") {
            Self::OpenAi
        } else {
            Self::Other
        }
    }
}

/// Writes a request for a provider.
pub(super) fn write(request: &Request, to: To<'_>) -> Result<Written, Unsupported> {
    let vendor = Vendor::of(to.model);
    let mut dropped = Vec::new();
    for (field, said) in [
        (Field::Seed, request.seed.is_some()),
        (Field::FrequencyPenalty, request.frequency_penalty.is_some()),
        (Field::PresencePenalty, request.presence_penalty.is_some()),
        (Field::User, request.user.is_some()),
        (
            Field::ParallelToolCalls,
            request.parallel_tool_calls == Some(false),
        ),
    ] {
        if said {
            dropped.push(field);
        }
    }
    let (max_tokens, more) = reasoning(request, vendor, &mut dropped);
    let body = Body {
        messages: messages(request, &mut dropped)?,
        system: texts(&request.system),
        inference_config: Inference {
            max_tokens,
            temperature: temperature(request, &more, &mut dropped)?,
            top_p: request.top_p.as_ref(),
            stop_sequences: &request.stop,
        },
        tool_config: tool_config(request, &mut dropped)?,
        output_config: output_config(request)?,
        additional_model_request_fields: more,
    };
    let body = serde_json::to_vec(&body).expect("strings, numbers and JSON can be written");
    Ok(Written {
        body: body.into(),
        dropped,
    })
}

fn texts(texts: &[String]) -> Vec<Block<'_>> {
    let texts = texts.iter().filter(|text| !text.is_empty());
    texts.map(|text| Block::Text(text)).collect()
}

/// How much may be thought, in the words of the model's vendor, and the token limit around it.
fn reasoning(request: &Request, vendor: Vendor, dropped: &mut Vec<Field>) -> (Option<u64>, More) {
    let mut more = More::default();
    let mut max_tokens = request.max_tokens;
    match (vendor, request.reasoning) {
        (_, None) => {}
        // Models of Anthropic do not reason unless they are told to; the others cannot be told not to.
        (_, Some(Reasoning::Off)) => dropped.push(Field::Reasoning),
        (Vendor::Anthropic, Some(_)) => {
            let (limit, thinking) = thinking(request, dropped);
            if thinking.is_some() {
                (max_tokens, more.thinking) = (Some(limit), thinking);
            }
        }
        (Vendor::OpenAi, Some(reasoning)) => {
            more.reasoning_effort = reasoning.effort().map(|effort| match effort {
                Effort::Minimal | Effort::Low => "low",
                Effort::Medium => "medium",
                Effort::High | Effort::Max => "high",
            });
        }
        (Vendor::Other, Some(_)) => dropped.push(Field::Reasoning),
    }
    // Reasoning of Anthropic's models fixes how candidates are sampled.
    if vendor == Vendor::Anthropic && more.thinking.is_none() {
        more.top_k = request.top_k;
    } else if request.top_k.is_some() {
        dropped.push(Field::TopK);
    }
    (max_tokens, more)
}

/// Reasoning fixes the temperature; without it the scale ends at 1.
fn temperature<'a>(
    request: &'a Request,
    more: &More,
    dropped: &mut Vec<Field>,
) -> Result<Option<&'a Number>, Unsupported> {
    let given = request.temperature.as_ref();
    let value = given.and_then(Number::as_f64).unwrap_or(0.0);
    if value > 1.0 {
        let message = "must be at most 1 with this provider";
        return Err(Unsupported::new(Field::Temperature, message));
    }
    if more.thinking.is_some() && given.is_some() && value < 1.0 {
        dropped.push(Field::Temperature);
        return Ok(None);
    }
    Ok(given)
}

fn messages<'a>(
    request: &'a Request,
    dropped: &mut Vec<Field>,
) -> Result<Vec<Message<'a>>, Unsupported> {
    let mut names = Names::default();
    let mut out = Vec::new();
    for (role, parts) in request.alternating() {
        let mut content = Vec::new();
        for part in parts {
            content.extend(block(part, &mut names, dropped)?);
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

fn block<'a>(
    part: &'a Part,
    names: &mut Names,
    dropped: &mut Vec<Field>,
) -> Result<Option<Block<'a>>, Unsupported> {
    Ok(match part {
        // Refused where it stands: an empty text says nothing.
        Part::Text(text) if text.is_empty() => None,
        Part::Text(text) => Some(Block::Text(text)),
        Part::Media(one) => Some(media(one, names)?),
        Part::Thought(thought) if is_sealed(thought) => {
            Some(Block::ReasoningContent(thought.into()))
        }
        Part::Thought(_) => {
            if !dropped.contains(&Field::Thoughts) {
                dropped.push(Field::Thoughts);
            }
            None
        }
        Part::ToolCall(call) => Some(Block::ToolUse {
            tool_use_id: safe_id(&call.id),
            name: &call.name,
            input: &call.arguments,
        }),
        Part::ToolResult(result) => Some(tool_result(result, names, dropped)?),
    })
}

/// Only what was sealed may come back.
const fn is_sealed(thought: &Thought) -> bool {
    thought.signature.is_some() || thought.redacted.is_some()
}

fn tool_result<'a>(
    result: &'a ToolResult,
    names: &mut Names,
    dropped: &mut Vec<Field>,
) -> Result<Block<'a>, Unsupported> {
    let mut content = Vec::new();
    for part in &result.parts {
        content.extend(block(part, names, dropped)?);
    }
    Ok(Block::ToolResult {
        tool_use_id: safe_id(&result.call_id),
        content,
        status: result.is_error.then_some("error"),
    })
}

fn media<'a>(media: &'a Media, names: &mut Names) -> Result<Block<'a>, Unsupported> {
    let refused = |message: &str| Unsupported::new(Field::Media, message);
    let (source, media_type) = match &media.source {
        Source::Base64 { media_type, data } => (WireSource::Bytes(data), media_type.as_str()),
        Source::Url(uri) if uri.starts_with("s3://") => {
            (WireSource::S3Location { uri }, by_ending(uri))
        }
        Source::Url(_) => {
            return Err(refused(
                "has the address of a file, which this provider does not fetch: send the file itself, as base64",
            ));
        }
    };
    let format = format_of(media.kind, media_type).ok_or_else(|| {
        refused(match media.kind {
            MediaKind::Image => "has an image that is no PNG, JPEG, GIF or WebP",
            MediaKind::Document => {
                "has a file that is no PDF, text, Markdown, HTML, CSV, Word or Excel document"
            }
            MediaKind::Audio => "has sound, which this provider does not take",
        })
    })?;
    let name = (media.kind == MediaKind::Document).then(|| names.next(media.name.as_deref()));
    let medium = Medium {
        format,
        name,
        source,
    };
    Ok(match media.kind {
        MediaKind::Document => Block::Document(medium),
        MediaKind::Image | MediaKind::Audio => Block::Image(medium),
    })
}

/// The media type that the ending of a file's name stands for.
fn by_ending(uri: &str) -> &'static str {
    match uri.rsplit('.').next().unwrap_or_default() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        "csv" => "text/csv",
        "html" => "text/html",
        "txt" => "text/plain",
        "md" => "text/markdown",
        _ => "",
    }
}

/// Documents must have names, each its own, of few characters.
#[derive(Default)]
struct Names {
    given: BTreeSet<String>,
    /// How often each was asked for.
    asked: BTreeMap<String, usize>,
}

impl Names {
    fn next(&mut self, given: Option<&str>) -> String {
        let allowed =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '(' | ')' | '[' | ']');
        let given = given.unwrap_or("document").chars().take(100);
        let plain: String = given.map(|c| if allowed(c) { c } else { '-' }).collect();
        let number = self.asked.entry(plain.clone()).or_default();
        loop {
            *number += 1;
            let name = if *number == 1 {
                plain.clone()
            } else {
                format!("{plain}-{number}")
            };
            if self.given.insert(name.clone()) {
                return name;
            }
        }
    }
}

/// The tools. A conversation in which tools were called must declare them, whether or not they may be
/// called again.
fn tool_config<'a>(
    request: &'a Request,
    dropped: &mut Vec<Field>,
) -> Result<Option<ToolConfig<'a>>, Unsupported> {
    let called = called(request);
    if request.tool_choice == Some(ToolChoice::None) {
        if called.is_empty() {
            // What may not be called is not offered.
            if !request.tools.is_empty() {
                dropped.push(Field::Tools);
            }
            return Ok(None);
        }
        let message =
            "cannot be none with this provider once tools were called in the conversation";
        return Err(Unsupported::new(Field::ToolChoice, message));
    }
    let mut tools: Vec<_> = request.tools.iter().map(tool).collect();
    if tools.is_empty() {
        tools.extend(called.into_iter().map(|name| {
            WireTool::ToolSpec(Spec {
                name,
                description: None,
                input_schema: Schema {
                    json: Cow::Owned(any_object()),
                },
                strict: false,
            })
        }));
    }
    if tools.is_empty() {
        if request.tool_choice.is_some() {
            dropped.push(Field::ToolChoice);
        }
        return Ok(None);
    }
    let tool_choice = match &request.tool_choice {
        None | Some(ToolChoice::None) => None,
        Some(ToolChoice::Auto) => Some(Choice::Auto {}),
        Some(ToolChoice::Required) => Some(Choice::Any {}),
        Some(ToolChoice::Named(name)) => Some(Choice::Tool { name }),
    };
    Ok(Some(ToolConfig { tools, tool_choice }))
}

/// The names of tools that were called.
fn called(request: &Request) -> BTreeSet<&str> {
    let parts = request.turns.iter().flat_map(|turn| &turn.parts);
    parts
        .filter_map(|part| match part {
            Part::ToolCall(call) => Some(call.name.as_str()),
            Part::Text(_) | Part::Media(_) | Part::Thought(_) | Part::ToolResult(_) => None,
        })
        .collect()
}

fn tool(tool: &Tool) -> WireTool<'_> {
    WireTool::ToolSpec(Spec {
        name: &tool.name,
        description: tool.description.as_deref().filter(|text| !text.is_empty()),
        input_schema: Schema {
            json: tool
                .parameters
                .as_ref()
                .map_or_else(|| Cow::Owned(any_object()), Cow::Borrowed),
        },
        strict: tool.strict == Some(true),
    })
}

fn any_object() -> Json {
    Json::parse(r#"{"type":"object","properties":{}}"#).expect("it is JSON")
}

fn output_config(request: &Request) -> Result<Option<OutputConfig<'_>>, Unsupported> {
    match &request.format {
        None => Ok(None),
        Some(Format::JsonObject) => Err(Unsupported::new(
            Field::Format,
            "must have a JSON schema with this provider: it has no form for any object",
        )),
        Some(Format::JsonSchema {
            name,
            description,
            schema,
            ..
        }) => Ok(Some(OutputConfig {
            text_format: TextFormat {
                kind: "json_schema",
                structure: Structure {
                    json_schema: WireFormat {
                        schema: schema.text(),
                        name: name.as_deref(),
                        description: description.as_deref(),
                    },
                },
            },
        })),
    }
}
