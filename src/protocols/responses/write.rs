//! Requests of responses: written for providers.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Number;
use serde_with::skip_serializing_none;

use crate::protocols::json::Json;
use crate::protocols::talk::{
    Effort, Field, Format, Media, MediaKind, Part, Reasoning, Request, Role, Source, Thought, Tool,
    ToolChoice, ToolResult,
};
use crate::protocols::{To, Unsupported, Written};

#[skip_serializing_none]
#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    instructions: Option<Cow<'a, str>>,
    input: Vec<ItemOut<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    tool_choice: Option<Choice<'a>>,
    parallel_tool_calls: Option<bool>,
    max_output_tokens: Option<u64>,
    temperature: Option<&'a Number>,
    top_p: Option<&'a Number>,
    text: Option<TextOut<'a>>,
    reasoning: Option<ReasoningOut>,
    #[serde(skip_serializing_if = "<[&str]>::is_empty")]
    include: &'static [&'static str],
    user: Option<&'a str>,
    /// The whole conversation is sent each time.
    store: bool,
    stream: Option<bool>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ItemOut<'a> {
    Message {
        role: &'static str,
        content: Vec<PartOut<'a>>,
    },
    Typed(Typed<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Typed<'a> {
    FunctionCall {
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: Output<'a>,
    },
    Reasoning {
        summary: Vec<PartOut<'a>>,
        encrypted_content: &'a str,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Output<'a> {
    Text(&'a str),
    Parts(Vec<PartOut<'a>>),
}

#[skip_serializing_none]
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum PartOut<'a> {
    InputText {
        text: &'a str,
    },
    OutputText {
        text: &'a str,
    },
    SummaryText {
        text: &'a str,
    },
    InputImage {
        image_url: Cow<'a, str>,
    },
    InputFile {
        filename: Option<&'a str>,
        file_data: Option<String>,
        file_url: Option<&'a str>,
    },
    InputAudio {
        input_audio: Sound<'a>,
    },
}

#[derive(Serialize)]
struct Sound<'a> {
    data: &'a str,
    format: &'a str,
}

#[skip_serializing_none]
#[derive(Serialize)]
struct WireTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    description: Option<&'a str>,
    parameters: Option<&'a Json>,
    /// Strict where it is absent: said in every case.
    strict: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Choice<'a> {
    Word(&'static str),
    Named {
        #[serde(rename = "type")]
        kind: &'static str,
        name: &'a str,
    },
}

#[derive(Serialize)]
struct TextOut<'a> {
    format: FormatOut<'a>,
}

#[skip_serializing_none]
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum FormatOut<'a> {
    JsonObject,
    JsonSchema {
        name: &'a str,
        description: Option<&'a str>,
        schema: &'a Json,
        strict: Option<bool>,
    },
}

#[derive(Serialize)]
struct ReasoningOut {
    effort: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

/// Writes a request for a provider.
pub(super) fn write(request: &Request, to: To<'_>) -> Result<Written, Unsupported> {
    if !request.stop.is_empty() {
        let message = "cannot be said to this provider: it knows no texts that end an answer";
        return Err(Unsupported::new(Field::Stop, message));
    }
    let mut dropped = Vec::new();
    for (field, said) in [
        (Field::TopK, request.top_k.is_some()),
        (Field::Seed, request.seed.is_some()),
        (Field::FrequencyPenalty, request.frequency_penalty.is_some()),
        (Field::PresencePenalty, request.presence_penalty.is_some()),
        (
            Field::ParallelToolCalls,
            request.parallel_tool_calls == Some(false) && request.tools.is_empty(),
        ),
    ] {
        if said {
            dropped.push(field);
        }
    }
    let reasoning = request.reasoning.map(reasoning);
    let thinks = reasoning.as_ref().is_some_and(|r| r.summary.is_some());
    let body = Body {
        model: to.model,
        instructions: instructions(&request.system),
        input: input(request, &mut dropped)?,
        tools: request.tools.iter().map(tool).collect(),
        tool_choice: request.tool_choice.as_ref().map(choice),
        parallel_tool_calls: request
            .parallel_tool_calls
            .filter(|_| !request.tools.is_empty()),
        max_output_tokens: request.max_tokens,
        temperature: request.temperature.as_ref(),
        top_p: request.top_p.as_ref(),
        text: request.format.as_ref().map(|format| TextOut {
            format: self::format(format),
        }),
        reasoning,
        // Nothing is stored: the seal is the only way to go on with a thought.
        include: if thinks {
            &["reasoning.encrypted_content"]
        } else {
            &[]
        },
        user: request.user.as_deref(),
        store: false,
        stream: to.stream.then_some(true),
    };
    let body = serde_json::to_vec(&body).expect("strings, numbers and JSON can be written");
    Ok(Written {
        body: body.into(),
        dropped,
    })
}

fn instructions(system: &[String]) -> Option<Cow<'_, str>> {
    match system {
        [] => None,
        [one] => Some(one.into()),
        [..] => Some(system.join("\n\n").into()),
    }
}

fn input<'a>(
    request: &'a Request,
    dropped: &mut Vec<Field>,
) -> Result<Vec<ItemOut<'a>>, Unsupported> {
    let mut out = Vec::new();
    for turn in &request.turns {
        // Words between other items are a message of their own.
        let mut said = Vec::new();
        let role = match turn.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        for part in &turn.parts {
            let typed = match part {
                Part::Text(text) if turn.role == Role::User => {
                    said.push(PartOut::InputText { text });
                    continue;
                }
                Part::Text(text) => {
                    said.push(PartOut::OutputText { text });
                    continue;
                }
                Part::Media(one) => {
                    said.push(media(one)?);
                    continue;
                }
                Part::Thought(one) => match thought(one) {
                    Some(item) => item,
                    None => {
                        note(Field::Thoughts, dropped);
                        continue;
                    }
                },
                Part::ToolCall(call) => Typed::FunctionCall {
                    call_id: &call.id,
                    name: &call.name,
                    arguments: call.arguments.text(),
                },
                Part::ToolResult(result) => tool_result(result, dropped)?,
            };
            flush(role, &mut said, &mut out);
            out.push(ItemOut::Typed(typed));
        }
        flush(role, &mut said, &mut out);
    }
    Ok(out)
}

fn flush<'a>(role: &'static str, said: &mut Vec<PartOut<'a>>, out: &mut Vec<ItemOut<'a>>) {
    if !said.is_empty() {
        let content = std::mem::take(said);
        out.push(ItemOut::Message { role, content });
    }
}

fn note(field: Field, dropped: &mut Vec<Field>) {
    if !dropped.contains(&field) {
        dropped.push(field);
    }
}

/// Only what was sealed may come back.
fn thought(thought: &Thought) -> Option<Typed<'_>> {
    let encrypted_content = thought.signature.as_deref()?;
    let shown = Some(thought.text.as_str()).filter(|text| !text.is_empty());
    let summary = shown.map(|text| PartOut::SummaryText { text });
    Some(Typed::Reasoning {
        summary: summary.into_iter().collect(),
        encrypted_content,
    })
}

fn tool_result<'a>(
    result: &'a ToolResult,
    dropped: &mut Vec<Field>,
) -> Result<Typed<'a>, Unsupported> {
    if result.is_error {
        note(Field::ToolErrors, dropped);
    }
    let mut parts = Vec::new();
    for part in &result.parts {
        parts.push(match part {
            Part::Text(text) => PartOut::InputText { text },
            Part::Media(one) => media(one)?,
            Part::Thought(_) | Part::ToolCall(_) | Part::ToolResult(_) => {
                let message = "a tool's result holds something else than text and media";
                return Err(Unsupported::new(Field::Turns, message));
            }
        });
    }
    let output = match parts.as_slice() {
        [] => Output::Text(""),
        [PartOut::InputText { text }] => Output::Text(text),
        [..] => Output::Parts(parts),
    };
    Ok(Typed::FunctionCallOutput {
        call_id: &result.call_id,
        output,
    })
}

fn media(media: &Media) -> Result<PartOut<'_>, Unsupported> {
    let name = media.name.as_deref();
    Ok(match (media.kind, &media.source) {
        (MediaKind::Image, Source::Url(url)) => PartOut::InputImage {
            image_url: url.into(),
        },
        (MediaKind::Image, Source::Base64 { media_type, data }) => PartOut::InputImage {
            image_url: format!("data:{media_type};base64,{data}").into(),
        },
        (MediaKind::Document, Source::Url(url)) => PartOut::InputFile {
            filename: name,
            file_data: None,
            file_url: Some(url),
        },
        (MediaKind::Document, Source::Base64 { media_type, data }) => PartOut::InputFile {
            filename: Some(name.unwrap_or("document.pdf")),
            file_data: Some(format!("data:{media_type};base64,{data}")),
            file_url: None,
        },
        (MediaKind::Audio, Source::Base64 { media_type, data }) => {
            let format = media_type.strip_prefix("audio/").unwrap_or(media_type);
            let format = if format == "mpeg" { "mp3" } else { format };
            PartOut::InputAudio {
                input_audio: Sound { data, format },
            }
        }
        (MediaKind::Audio, Source::Url(_)) => {
            let message = "sound can only be sent to this provider as base64, not as a URL";
            return Err(Unsupported::new(Field::Media, message));
        }
    })
}

fn tool(tool: &Tool) -> WireTool<'_> {
    WireTool {
        kind: "function",
        name: &tool.name,
        description: tool.description.as_deref(),
        parameters: tool.parameters.as_ref(),
        strict: tool.strict == Some(true),
    }
}

fn choice(choice: &ToolChoice) -> Choice<'_> {
    match choice {
        ToolChoice::Auto => Choice::Word("auto"),
        ToolChoice::None => Choice::Word("none"),
        ToolChoice::Required => Choice::Word("required"),
        ToolChoice::Named(name) => Choice::Named {
            kind: "function",
            name,
        },
    }
}

fn format(format: &Format) -> FormatOut<'_> {
    match format {
        Format::JsonObject => FormatOut::JsonObject,
        Format::JsonSchema {
            name,
            description,
            schema,
            strict,
        } => FormatOut::JsonSchema {
            name: name.as_deref().unwrap_or("answer"),
            description: description.as_deref(),
            schema,
            strict: *strict,
        },
    }
}

fn reasoning(reasoning: Reasoning) -> ReasoningOut {
    let effort = match reasoning.effort() {
        None => "none",
        Some(Effort::Minimal) => "minimal",
        Some(Effort::Low) => "low",
        Some(Effort::Medium) => "medium",
        Some(Effort::High | Effort::Max) => "high",
    };
    ReasoningOut {
        effort,
        summary: (effort != "none").then_some("auto"),
    }
}
