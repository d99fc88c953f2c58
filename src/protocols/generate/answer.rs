//! Whole answers of generateContent.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Serialize;

use super::parts::{Content, PartOut, Sealed, add_seal, add_text, call_part, text_part};
use super::wire::{UsageIn, UsageOut, finish_reason, stop};
use crate::protocols::json::{Json, Object, read_answer};
use crate::protocols::talk::{Answer, Part, Stop, ToolCall, Usage};
use crate::protocols::{Malformed, Shown};

/// A whole answer, or one event of a stream.
pub(super) struct Piece {
    pub(super) id: String,
    pub(super) model: String,
    /// Of the first candidate: nobody asked for more.
    pub(super) parts: Vec<Part>,
    /// Why it ends, if it does.
    pub(super) reason: Option<String>,
    /// The question itself was refused: there is no candidate.
    pub(super) blocked: bool,
    pub(super) usage: Option<Usage>,
    /// Paths of what has no place in the words of `talk`.
    pub(super) unplaced: Vec<String>,
}

/// Reads a provider's answer.
pub(super) fn read(body: &[u8]) -> Result<Answer, Malformed> {
    let piece = read_piece(body, 0)?;
    let is_call = |part: &Part| matches!(part, Part::ToolCall(_));
    let calls = piece.parts.iter().any(is_call);
    Ok(Answer {
        id: piece.id,
        model: piece.model,
        parts: piece.parts,
        stop: match piece.reason {
            _ if piece.blocked => Stop::Filtered,
            Some(reason) => stop(&reason, calls),
            None => return Err(Malformed::at("candidates", "has none that is finished")),
        },
        usage: piece.usage.unwrap_or_default(),
        unplaced: piece.unplaced,
    })
}

/// Reads an answer, or an event of a stream in which so many calls came before.
pub(super) fn read_piece(body: &[u8], calls: usize) -> Result<Piece, Malformed> {
    let (piece, unplaced) = read_answer(body, |top| members(top, calls))?;
    Ok(Piece { unplaced, ..piece })
}

fn members(top: &mut Object<'_>, calls: usize) -> Result<Piece, Malformed> {
    top.skip(&["createTime"]);
    let usage: Option<UsageIn> = top.read("usageMetadata", "an object of counts")?;
    let mut piece = Piece {
        id: top.text("responseId")?.unwrap_or_default(),
        model: top.text("modelVersion")?.unwrap_or_default(),
        parts: Vec::new(),
        reason: None,
        blocked: false,
        usage: usage.map(UsageIn::usage),
        unplaced: Vec::new(),
    };
    if let Some(feedback) = top.take("promptFeedback") {
        piece.blocked = feedback.object()?.take("blockReason").is_some();
    }
    let candidates = match top.take("candidates") {
        Some(candidates) => candidates.items()?,
        None => Vec::new(),
    };
    if let Some(first) = candidates.into_iter().next() {
        let mut candidate = first.object()?;
        candidate.skip(&["index", "safetyRatings", "avgLogprobs", "tokenCount"]);
        if let Some(content) = candidate.take("content") {
            parts(&mut content.object()?, &mut piece, calls)?;
        }
        piece.reason = candidate.text("finishReason")?;
    }
    Ok(piece)
}

/// Parts that no request asks for, such as code that the provider ran, are left out.
fn parts(content: &mut Object<'_>, piece: &mut Piece, mut calls: usize) -> Result<(), Malformed> {
    content.skip(&["role"]);
    let Some(list) = content.take("parts") else {
        return Ok(());
    };
    for item in list.items()? {
        let mut part = item.object()?;
        let is_thought = part.read::<bool>("thought", "true or false")?;
        let seal = part.text("thoughtSignature")?;
        if let Some(said) = part.take("text") {
            add_text(
                said.text()?,
                is_thought == Some(true),
                seal,
                &mut piece.parts,
            );
        } else if let Some(call) = part.take("functionCall") {
            add_seal(seal, &mut piece.parts);
            let mut call = call.object()?;
            let own = call.text("id")?.filter(|id| !id.is_empty());
            let name = call.need("name")?.text()?;
            let arguments = match call.take("args") {
                Some(args) => args.json_object()?,
                None => Json::empty_object(),
            };
            piece.parts.push(Part::ToolCall(ToolCall {
                id: own.unwrap_or_else(|| call_id(&piece.id, calls, &name, &arguments)),
                name,
                arguments,
            }));
            calls += 1;
        }
    }
    Ok(())
}

/// The id of a call that has none. It must be the only one in its conversation, so it is made from the
/// answer's, or else from what is called.
fn call_id(answer: &str, call: usize, name: &str, arguments: &Json) -> String {
    if answer.is_empty() {
        let mut hasher = DefaultHasher::new();
        (name, arguments.text()).hash(&mut hasher);
        return format!("call_{:016x}_{call}", hasher.finish());
    }
    let is_safe = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let safe: String = answer.chars().filter(is_safe).take(40).collect();
    format!("call_{safe}_{call}")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Body<'a> {
    pub(super) candidates: [Candidate<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage_metadata: Option<UsageOut>,
    pub(super) model_version: &'a str,
    pub(super) response_id: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    pub(super) content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) finish_reason: Option<&'static str>,
    pub(super) index: u32,
}

impl<'a> Candidate<'a> {
    pub(super) fn of(parts: Vec<PartOut<'a>>, finish_reason: Option<&'static str>) -> Self {
        Self {
            content: Content {
                role: Some("model"),
                parts,
            },
            finish_reason,
            index: 0,
        }
    }
}

/// Writes an answer for a client.
pub(super) fn write(answer: &Answer, shown: &Shown) -> Vec<u8> {
    let mut out = Sealed::default();
    for part in &answer.parts {
        match part {
            Part::Text(text) => out.push(text_part(text)),
            Part::Thought(thought) => out.think(thought),
            Part::ToolCall(call) => {
                out.push(call_part(Some(&call.id), &call.name, &call.arguments))
            }
            // Models say neither.
            Part::Media(_) | Part::ToolResult(_) => {}
        }
    }
    let body = Body {
        candidates: [Candidate::of(
            out.finish(),
            Some(finish_reason(&answer.stop)),
        )],
        usage_metadata: Some(answer.usage.into()),
        model_version: shown.model_or(&answer.model),
        response_id: shown.id_or(&answer.id),
    };
    serde_json::to_vec(&body).expect("strings, numbers and JSON can be written")
}
