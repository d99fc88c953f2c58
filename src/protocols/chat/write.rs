//! Requests of chat completions: written for providers.

use serde::Serialize;
use serde_json::Number;
use serde_with::skip_serializing_none;

use crate::protocols::json::Json;
use crate::protocols::talk::{
    Effort, Field, Format, Media, MediaKind, Part, Reasoning, Request, Role, Source, Tool,
    ToolChoice,
};
use crate::protocols::{To, Unsupported, Written};

#[skip_serializing_none]
#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    tool_choice: Option<Choice<'a>>,
    parallel_tool_calls: Option<bool>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    temperature: Option<&'a Number>,
    top_p: Option<&'a Number>,
    top_k: Option<u64>,
    seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    random_seed: Option<i64>,
    frequency_penalty: Option<&'a Number>,
    presence_penalty: Option<&'a Number>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
    response_format: Option<WireFormat<'a>>,
    reasoning_effort: Option<&'static str>,
    user: Option<&'a str>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Message<'a> {
    System {
        content: Content<'a>,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        content: Option<Content<'a>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: Content<'a>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Parts(Vec<WirePart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WirePart<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: Url },
    InputAudio { input_audio: Sound<'a> },
    File { file: File<'a> },
}

#[derive(Serialize)]
struct Url {
    url: String,
}

#[derive(Serialize)]
struct Sound<'a> {
    data: &'a str,
    format: &'a str,
}

#[derive(Serialize)]
struct File<'a> {
    filename: &'a str,
    file_data: String,
}

#[derive(Serialize)]
pub(super) struct WireCall<'a> {
    pub(super) id: &'a str,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: CalledFunction<'a>,
}

#[derive(Serialize)]
pub(super) struct CalledFunction<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
}

#[derive(Serialize)]
struct WireTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[skip_serializing_none]
#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: Option<&'a str>,
    parameters: Option<&'a Json>,
    strict: Option<bool>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Choice<'a> {
    Word(&'static str),
    Named {
        #[serde(rename = "type")]
        kind: &'static str,
        function: Name<'a>,
    },
}

#[derive(Serialize)]
struct Name<'a> {
    name: &'a str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireFormat<'a> {
    JsonObject,
    JsonSchema { json_schema: Schema<'a> },
}

#[skip_serializing_none]
#[derive(Serialize)]
struct Schema<'a> {
    name: &'a str,
    description: Option<&'a str>,
    schema: &'a Json,
    strict: Option<bool>,
}

/// Writes a request for a provider.
pub(super) fn write(request: &Request, to: To<'_>) -> Result<Written, Unsupported> {
    let mut dropped = Vec::new();
    let by_the_author = matches!(to.provider, "openai" | "azure");
    let top_k = request.top_k.filter(|_| !by_the_author);
    if request.top_k.is_some() && top_k.is_none() {
        dropped.push(Field::TopK);
    }
    let is_mistral = to.provider == "mistral";
    let user = request.user.as_deref().filter(|_| !is_mistral);
    if request.user.is_some() && user.is_none() {
        dropped.push(Field::User);
    }
    let reasoning_effort = request.reasoning.and_then(|reasoning| {
        let effort = effort(reasoning, to);
        if effort.is_none() {
            dropped.push(Field::Reasoning);
        }
        effort
    });
    if request.parallel_tool_calls == Some(false) && request.tools.is_empty() {
        dropped.push(Field::ParallelToolCalls);
    }
    let body = Body {
        model: to.model,
        messages: messages(request, &mut dropped)?,
        tools: request.tools.iter().map(tool).collect(),
        tool_choice: request.tool_choice.as_ref().map(choice),
        parallel_tool_calls: request
            .parallel_tool_calls
            .filter(|_| !request.tools.is_empty()),
        max_tokens: request.max_tokens.filter(|_| !by_the_author),
        max_completion_tokens: request.max_tokens.filter(|_| by_the_author),
        temperature: request.temperature.as_ref(),
        top_p: request.top_p.as_ref(),
        top_k,
        seed: request.seed.filter(|_| !is_mistral),
        random_seed: request.seed.filter(|_| is_mistral),
        frequency_penalty: request.frequency_penalty.as_ref(),
        presence_penalty: request.presence_penalty.as_ref(),
        stop: &request.stop,
        response_format: request.format.as_ref().map(format),
        reasoning_effort,
        user,
        stream: to.stream.then_some(true),
        stream_options: to.stream.then_some(StreamOptions {
            include_usage: true,
        }),
    };
    let body = serde_json::to_vec(&body).expect("strings, numbers and JSON can be written");
    Ok(Written {
        body: body.into(),
        dropped,
    })
}

/// Models that do not reason refuse to be told how much; their names are all that tells them apart.
fn effort(reasoning: Reasoning, to: To<'_>) -> Option<&'static str> {
    let takes_it = match to.provider {
        "openai" | "azure" => {
            let name = to.model.rsplit('/').next().unwrap_or(to.model);
            let mut letters = name.bytes();
            let is_o =
                letters.next() == Some(b'o') && letters.next().is_some_and(|b| b.is_ascii_digit());
            is_o || name.starts_with("gpt-5") || name.starts_with("gpt-oss")
        }
        "mistral" => false,
        _ => true,
    };
    let effort = reasoning.effort().filter(|_| takes_it)?;
    Some(match effort {
        Effort::Minimal => "minimal",
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High | Effort::Max => "high",
    })
}

fn messages<'a>(
    request: &'a Request,
    dropped: &mut Vec<Field>,
) -> Result<Vec<Message<'a>>, Unsupported> {
    let mut out = Vec::new();
    if !request.system.is_empty() {
        let texts = request.system.iter();
        let parts = texts.map(|text| WirePart::Text { text }).collect();
        out.push(Message::System {
            content: content(parts),
        });
    }
    for turn in &request.turns {
        match turn.role {
            Role::User => user(&turn.parts, &mut out, dropped)?,
            Role::Assistant => out.push(assistant(&turn.parts, dropped)?),
        }
    }
    Ok(out)
}

/// Results of tools are messages of their own. What media they hold follows in the user's words: a
/// tool's message can only have text.
fn user<'a>(
    parts: &'a [Part],
    out: &mut Vec<Message<'a>>,
    dropped: &mut Vec<Field>,
) -> Result<(), Unsupported> {
    let mut said = Vec::new();
    for part in parts {
        match part {
            Part::Text(text) => said.push(WirePart::Text { text }),
            Part::Media(one) => said.push(media(one)?),
            Part::ToolResult(result) => {
                let mut texts = Vec::new();
                for part in &result.parts {
                    match part {
                        Part::Text(text) => texts.push(WirePart::Text { text }),
                        Part::Media(one) => said.push(media(one)?),
                        Part::Thought(_) | Part::ToolCall(_) | Part::ToolResult(_) => {
                            return Err(misplaced());
                        }
                    }
                }
                if result.is_error && !dropped.contains(&Field::ToolErrors) {
                    dropped.push(Field::ToolErrors);
                }
                out.push(Message::Tool {
                    tool_call_id: &result.call_id,
                    content: content(texts),
                });
            }
            Part::Thought(_) | Part::ToolCall(_) => return Err(misplaced()),
        }
    }
    if !said.is_empty() {
        out.push(Message::User {
            content: content(said),
        });
    }
    Ok(())
}

fn assistant<'a>(parts: &'a [Part], dropped: &mut Vec<Field>) -> Result<Message<'a>, Unsupported> {
    let (mut said, mut tool_calls) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            Part::Text(text) => said.push(WirePart::Text { text }),
            Part::ToolCall(call) => tool_calls.push(WireCall {
                id: &call.id,
                kind: "function",
                function: CalledFunction {
                    name: &call.name,
                    arguments: call.arguments.text(),
                },
            }),
            // Providers want back only what they sealed themselves.
            Part::Thought(_) if dropped.contains(&Field::Thoughts) => {}
            Part::Thought(_) => dropped.push(Field::Thoughts),
            Part::Media(_) | Part::ToolResult(_) => return Err(misplaced()),
        }
    }
    let content = (!said.is_empty() || tool_calls.is_empty()).then(|| content(said));
    Ok(Message::Assistant {
        content,
        tool_calls,
    })
}

fn misplaced() -> Unsupported {
    Unsupported::new(
        Field::Turns,
        "a turn holds a part that only the other side can say",
    )
}

/// One text as a string, which every provider reads.
fn content(parts: Vec<WirePart<'_>>) -> Content<'_> {
    match parts.as_slice() {
        [] => Content::Text(""),
        [WirePart::Text { text }] => Content::Text(text),
        [..] => Content::Parts(parts),
    }
}

fn media(media: &Media) -> Result<WirePart<'_>, Unsupported> {
    let url = match &media.source {
        Source::Url(url) => url.clone(),
        Source::Base64 { media_type, data } => format!("data:{media_type};base64,{data}"),
    };
    match (media.kind, &media.source) {
        (MediaKind::Image, _) => Ok(WirePart::ImageUrl {
            image_url: Url { url },
        }),
        (MediaKind::Document, Source::Base64 { .. }) => Ok(WirePart::File {
            file: File {
                filename: media.name.as_deref().unwrap_or("document.pdf"),
                file_data: url,
            },
        }),
        (MediaKind::Audio, Source::Base64 { media_type, data }) => {
            let format = media_type.strip_prefix("audio/").unwrap_or(media_type);
            let format = if format == "mpeg" { "mp3" } else { format };
            Ok(WirePart::InputAudio {
                input_audio: Sound { data, format },
            })
        }
        (MediaKind::Document | MediaKind::Audio, Source::Url(_)) => Err(Unsupported::new(
            Field::Media,
            "documents and sound can only be sent to this provider as base64, not as a URL",
        )),
    }
}

fn tool(tool: &Tool) -> WireTool<'_> {
    WireTool {
        kind: "function",
        function: Function {
            name: &tool.name,
            description: tool.description.as_deref(),
            parameters: tool.parameters.as_ref(),
            strict: tool.strict,
        },
    }
}

fn choice(choice: &ToolChoice) -> Choice<'_> {
    match choice {
        ToolChoice::Auto => Choice::Word("auto"),
        ToolChoice::None => Choice::Word("none"),
        ToolChoice::Required => Choice::Word("required"),
        ToolChoice::Named(name) => Choice::Named {
            kind: "function",
            function: Name { name },
        },
    }
}

fn format(format: &Format) -> WireFormat<'_> {
    match format {
        Format::JsonObject => WireFormat::JsonObject,
        Format::JsonSchema {
            name,
            description,
            schema,
            strict,
        } => WireFormat::JsonSchema {
            json_schema: Schema {
                name: name.as_deref().unwrap_or("answer"),
                description: description.as_deref(),
                schema,
                strict: *strict,
            },
        },
    }
}
