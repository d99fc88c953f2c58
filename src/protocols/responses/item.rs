//! A response as clients read it: what whole answers and streams have in common.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use super::text_tool;
use crate::protocols::Shown;
use crate::protocols::talk::{Stop, Usage};

/// One item of a response, finished or under way.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Made from the response's id and the item's place.
    pub(super) id: String,
    /// What it holds so far.
    pub(super) body: Body,
    /// Nothing is added any more.
    pub(super) is_done: bool,
}

/// What an item holds.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// Text.
    Message(String),
    /// Reasoning, with what must come back with it.
    Reasoning { text: String, seal: Option<String> },
    /// A call of a function. Arguments are JSON text.
    Call {
        call_id: String,
        name: String,
        arguments: String,
    },
    /// A call of a tool that takes one text. Its arguments are those of the function that stood for it.
    TextCall {
        call_id: String,
        name: String,
        arguments: String,
    },
}

impl Body {
    /// A call of this tool, as the client declared it.
    pub(super) fn call(shown: &Shown, call_id: String, name: String, arguments: String) -> Self {
        if shown.text_tools.contains(&name) {
            return Self::TextCall {
                call_id,
                name,
                arguments,
            };
        }
        Self::Call {
            call_id,
            name,
            arguments,
        }
    }
}

impl Item {
    /// An empty item at this place of a response.
    pub(super) fn new(response: &str, place: usize, body: Body) -> Self {
        let kind = match body {
            Body::Message(_) => "msg",
            Body::Reasoning { .. } => "rs",
            Body::Call { .. } => "fc",
            Body::TextCall { .. } => "ctc",
        };
        let response = response.strip_prefix("resp_").unwrap_or(response);
        Self {
            id: format!("{kind}_{response}_{place}"),
            body,
            is_done: false,
        }
    }

    /// As JSON holds it.
    pub(super) fn out(&self) -> ItemOut<'_> {
        let id = self.id.as_str();
        let status = if self.is_done {
            "completed"
        } else {
            "in_progress"
        };
        match &self.body {
            Body::Message(text) => {
                // A message under way is announced before its first part.
                let is_begun = self.is_done || !text.is_empty();
                ItemOut::Message {
                    id,
                    status,
                    role: "assistant",
                    content: is_begun.then(|| PartOut::of(text)).into_iter().collect(),
                }
            }
            Body::Reasoning { text, seal } => {
                let summary = (!text.is_empty()).then_some(SummaryOut::SummaryText { text });
                ItemOut::Reasoning {
                    id,
                    status,
                    summary: summary.into_iter().collect(),
                    encrypted_content: seal.as_deref(),
                }
            }
            Body::Call {
                call_id,
                name,
                arguments,
            } => ItemOut::FunctionCall {
                id,
                status,
                call_id,
                name,
                arguments,
            },
            Body::TextCall {
                call_id,
                name,
                arguments,
            } => ItemOut::CustomToolCall {
                id,
                status,
                call_id,
                name,
                // A text under way is announced before it can be read.
                input: if self.is_done {
                    text_tool::input(arguments)
                } else {
                    Cow::Borrowed("")
                },
            },
        }
    }
}

/// An item.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ItemOut<'a> {
    Message {
        id: &'a str,
        status: &'static str,
        role: &'static str,
        content: Vec<PartOut<'a>>,
    },
    Reasoning {
        id: &'a str,
        status: &'static str,
        summary: Vec<SummaryOut<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        encrypted_content: Option<&'a str>,
    },
    FunctionCall {
        id: &'a str,
        status: &'static str,
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
    },
    CustomToolCall {
        id: &'a str,
        status: &'static str,
        call_id: &'a str,
        name: &'a str,
        input: Cow<'a, str>,
    },
}

/// A part of a message.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum PartOut<'a> {
    OutputText {
        text: &'a str,
        annotations: [(); 0],
        logprobs: [(); 0],
    },
}

impl<'a> PartOut<'a> {
    pub(super) const fn of(text: &'a str) -> Self {
        Self::OutputText {
            text,
            annotations: [],
            logprobs: [],
        }
    }
}

/// A part of shown reasoning.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum SummaryOut<'a> {
    SummaryText { text: &'a str },
}

/// A response.
#[derive(Serialize)]
pub(super) struct ResponseOut<'a> {
    id: &'a str,
    object: &'static str,
    created_at: u64,
    status: &'static str,
    background: bool,
    error: Option<()>,
    incomplete_details: Option<Incomplete>,
    instructions: Option<()>,
    max_output_tokens: Option<()>,
    model: &'a str,
    output: Vec<ItemOut<'a>>,
    parallel_tool_calls: bool,
    previous_response_id: Option<()>,
    store: bool,
    temperature: Option<()>,
    text: TextOut,
    tool_choice: &'static str,
    tools: [(); 0],
    top_p: Option<()>,
    truncation: &'static str,
    usage: Option<UsageOut>,
    metadata: Empty,
}

#[derive(Serialize)]
struct Incomplete {
    reason: &'static str,
}

#[derive(Serialize)]
struct TextOut {
    format: FormatOut,
}

#[derive(Serialize)]
struct FormatOut {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
struct UsageOut {
    input_tokens: u64,
    input_tokens_details: InputDetails,
    output_tokens: u64,
    output_tokens_details: OutputDetails,
    total_tokens: u64,
}

#[derive(Serialize)]
struct InputDetails {
    cached_tokens: u64,
}

#[derive(Serialize)]
struct OutputDetails {
    reasoning_tokens: u64,
}

impl From<Usage> for UsageOut {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.input,
            input_tokens_details: InputDetails {
                cached_tokens: usage.cached,
            },
            output_tokens: usage.output,
            output_tokens_details: OutputDetails {
                reasoning_tokens: usage.reasoning,
            },
            total_tokens: usage.total(),
        }
    }
}

/// How a response ended; none while it is under way.
pub(super) type End<'a> = Option<(&'a Stop, Usage)>;

/// `status`, and the reason where it says that something is missing.
pub(super) const fn status(stop: &Stop) -> (&'static str, Option<&'static str>) {
    match stop {
        Stop::Length => ("incomplete", Some("max_output_tokens")),
        Stop::Filtered => ("incomplete", Some("content_filter")),
        Stop::End | Stop::Sequence(_) | Stop::ToolCalls | Stop::Paused => ("completed", None),
    }
}

impl<'a> ResponseOut<'a> {
    /// A response of these items. What it repeats of the request is what everybody may assume.
    pub(super) fn new(
        id: &'a str,
        model: &'a str,
        created_at: u64,
        items: &'a [Item],
        end: End<'_>,
    ) -> Self {
        let (status, reason) = end.map_or(("in_progress", None), |(stop, _)| status(stop));
        Self {
            id,
            object: "response",
            created_at,
            status,
            background: false,
            error: None,
            incomplete_details: reason.map(|reason| Incomplete { reason }),
            instructions: None,
            max_output_tokens: None,
            model,
            output: items.iter().map(Item::out).collect(),
            parallel_tool_calls: true,
            previous_response_id: None,
            store: false,
            temperature: None,
            text: TextOut {
                format: FormatOut { kind: "text" },
            },
            tool_choice: "auto",
            tools: [],
            top_p: None,
            truncation: "disabled",
            usage: end.map(|(_, usage)| usage.into()),
            metadata: Empty {},
        }
    }
}

/// The id that clients see: they know a response by its prefix.
pub(super) fn response_id(shown: &Shown, given: &str) -> String {
    let id = shown.id_or(given);
    if id.starts_with("resp_") {
        return id.to_owned();
    }
    format!("resp_{id}")
}

/// An event about a whole response.
#[derive(Serialize)]
pub(super) struct Whole<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) sequence_number: u64,
    pub(super) response: ResponseOut<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) extra_fields: Option<&'a RawValue>,
}
