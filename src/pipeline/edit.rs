//! Bodies are edited, not rebuilt: what the gateway needs is peeked at, what it changes is cut out.
//!
//! [`JsonBody::parse`] reads the top-level members that the protocol's [`Edits`] name, and `fallbacks`,
//! and remembers where they stand. [`JsonBody::for_upstream`] replaces the model's name, takes
//! `fallbacks` out and asks for a stream's usage. Every other byte goes up as it came: unknown fields,
//! order, blanks, the text of numbers, escapes, members that stand twice.

mod form;
mod members;
mod reshape;

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::value::RawValue;

use holdline_core::halves;

use members::{Field, Members};

pub(super) use reshape::reshaped;

use crate::protocols::Edits;
use crate::protocols::json::{MAX_DEPTH, is_too_deep};

/// Places in one body that the gateway changes: more are an attack, not a request.
const MAX_CUTS: usize = 64;

/// Fallbacks of one request that are looked at.
const MAX_FALLBACKS: usize = 64;

/// A JSON request, with what the gateway reads of it.
#[derive(Debug)]
pub(crate) struct JsonBody {
    /// As asked for: `provider/model` or a bare model. Empty where the protocol has it in the path.
    pub(crate) model: String,
    /// The answer is to be streamed.
    pub(crate) stream: bool,
    /// The client itself asked for the usage of a stream.
    pub(crate) include_usage: bool,
    /// `provider/model` each, in order; what cannot be read as one is left out.
    pub(crate) fallbacks: Vec<String>,
    /// As it came.
    pub(crate) bytes: Bytes,
    edits: Edits,
    cuts: Vec<Cut>,
}

/// A piece of the body that is replaced.
#[derive(Debug, PartialEq, Eq)]
struct Cut {
    at: Range<usize>,
    by: Replacement,
}

#[derive(Debug, PartialEq, Eq)]
enum Replacement {
    Nothing,
    /// As JSON text.
    Model,
    /// The member that is missing, as JSON text; behind a comma where another stands before it.
    ModelMember {
        comma: bool,
    },
    /// As it is.
    BareModel,
    Text(&'static str),
}

/// Why a body is refused: always the caller's to mend.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EditError {
    #[error("the body is not valid JSON: {0}")]
    NotJson(String),
    #[error("the body must be a JSON object")]
    NotAnObject,
    #[error("the body is nested too deeply: at most {MAX_DEPTH} levels are allowed")]
    TooDeep,
    #[error("the body has no `model`: send one as \"provider/model\" or \"model\"")]
    NoModel,
    #[error("`model` must be a string, as \"provider/model\" or \"model\", and not be empty")]
    BadModel,
    #[error("the body must be a form: multipart/form-data with a boundary, and a part `model`")]
    NotAForm,
    #[error("`stream` must be true or false")]
    BadStream,
    #[error(
        "`model`, `stream`, `stream_options` or `fallbacks` stands more than once too often in the body"
    )]
    TooManyCuts,
}

impl JsonBody {
    /// Reads a body.
    pub(crate) fn parse(bytes: Bytes, edits: Edits) -> Result<Self, EditError> {
        Self::read_whole(bytes, edits, false)
    }

    /// Reads a body whose path names the model: it may lack the name, which the provider is told all the same.
    pub(crate) fn parse_named(bytes: Bytes, edits: Edits) -> Result<Self, EditError> {
        Self::read_whole(bytes, edits, true)
    }

    fn read_whole(bytes: Bytes, edits: Edits, named: bool) -> Result<Self, EditError> {
        if is_too_deep(&bytes) {
            return Err(EditError::TooDeep);
        }
        let read = Self::read_text(&bytes, &bytes, edits, named);
        if !matches!(read, Err(EditError::NotJson(_))) {
            return read;
        }
        // Half a character in a member's name is no reason to refuse what passes as it is.
        match halves::mended(&bytes) {
            Some(mended) => Self::read_text(&bytes, &mended, edits, named),
            None => read,
        }
    }

    /// Reads `text`, which has everything where `bytes` has it.
    fn read_text(bytes: &Bytes, text: &[u8], edits: Edits, named: bool) -> Result<Self, EditError> {
        let mut body = Self::unread(bytes.clone(), edits);
        let read = body.read(text)?;
        if edits.model && !read.has_model {
            if !named {
                return Err(EditError::NoModel);
            }
            let comma = read.keeps_some;
            body.cut(read.end..read.end, Replacement::ModelMember { comma })?;
        } else if edits.model && !named && body.model.trim().is_empty() {
            return Err(EditError::BadModel);
        }
        if body.stream && edits.ask_for_usage {
            body.ask_for_usage(text, read.stream_options, read.end)?;
        }
        body.cuts.sort_by_key(|cut| cut.at.start);
        Ok(body)
    }

    fn unread(bytes: Bytes, edits: Edits) -> Self {
        Self {
            model: String::new(),
            stream: false,
            include_usage: false,
            fallbacks: Vec::new(),
            bytes,
            edits,
            cuts: Vec::new(),
        }
    }

    /// The body for a provider that calls the model by this name.
    pub(crate) fn for_upstream(&self, model: &str) -> Bytes {
        let quoted = serde_json::to_string(model).expect("text can be written");
        let mut out = BytesMut::with_capacity(self.bytes.len() + quoted.len() + 64);
        let mut copied = 0;
        for cut in &self.cuts {
            out.put_slice(&self.bytes[copied..cut.at.start]);
            match cut.by {
                Replacement::Nothing => {}
                Replacement::Model => out.put_slice(quoted.as_bytes()),
                Replacement::ModelMember { comma } => {
                    out.put_slice(if comma { b",\"model\":" } else { b"\"model\":" });
                    out.put_slice(quoted.as_bytes());
                }
                Replacement::BareModel => out.put_slice(model.as_bytes()),
                Replacement::Text(text) => out.put_slice(text.as_bytes()),
            }
            copied = cut.at.end;
        }
        out.put_slice(&self.bytes[copied..]);
        out.freeze()
    }

    fn cut(&mut self, at: Range<usize>, by: Replacement) -> Result<(), EditError> {
        if self.cuts.len() == MAX_CUTS {
            return Err(EditError::TooManyCuts);
        }
        self.cuts.push(Cut { at, by });
        Ok(())
    }

    fn read<'a>(&mut self, bytes: &'a [u8]) -> Result<Read<'a>, EditError> {
        let mut read = Read::default();
        let mut failed = None;
        let mut taken_out_first = false;
        let mut kept = false;
        let end = Members::visit(bytes, |member| {
            if failed.is_some() {
                return;
            }
            let whole = member.after..member.value.end;
            let result = if member.field == Field::Fallbacks {
                self.fallbacks = read_fallbacks(member.raw);
                taken_out_first |= !kept;
                self.cut(whole, Replacement::Nothing)
            } else {
                let comma = taken_out_first && !kept;
                kept = true;
                let cut = if comma {
                    self.cut(
                        member.after..after_comma(bytes, member.after),
                        Replacement::Nothing,
                    )
                } else {
                    Ok(())
                };
                cut.and_then(|()| self.take(&member, &mut read))
            };
            failed = result.err();
        })?;
        read.end = end;
        read.keeps_some = kept;
        failed.map_or(Ok(read), Err)
    }

    /// Takes in a member that stays in the body.
    fn take<'a>(
        &mut self,
        member: &members::Member<'a>,
        read: &mut Read<'a>,
    ) -> Result<(), EditError> {
        match member.field {
            Field::Model if self.edits.model => {
                read.has_model = true;
                self.model =
                    serde_json::from_str(member.raw.get()).map_err(|_| EditError::BadModel)?;
                self.cut(member.value.clone(), Replacement::Model)
            }
            Field::Stream if self.edits.stream => {
                self.stream = match member.raw.get() {
                    "true" => true,
                    "false" | "null" => false,
                    _ => return Err(EditError::BadStream),
                };
                Ok(())
            }
            Field::StreamOptions => {
                read.stream_options = Some((member.raw, member.value.start));
                Ok(())
            }
            Field::Model
            | Field::Stream
            | Field::Fallbacks
            | Field::IncludeUsage
            | Field::AnthropicVersion
            | Field::Other => Ok(()),
        }
    }

    /// Sees to it that the provider tells a stream's usage, whatever the client asked.
    fn ask_for_usage(
        &mut self,
        bytes: &[u8],
        options: Option<(&RawValue, usize)>,
        end: usize,
    ) -> Result<(), EditError> {
        let Some((raw, start)) = options else {
            let text = r#","stream_options":{"include_usage":true}"#;
            return self.cut(end..end, Replacement::Text(text));
        };
        let text = raw.get();
        if text == "null" {
            let by = Replacement::Text(r#"{"include_usage":true}"#);
            return self.cut(start..start + text.len(), by);
        }
        if !text.starts_with('{') {
            return Ok(()); // The provider says what is wrong with it.
        }
        let mut asked = None;
        let mut is_empty = true;
        let inner_end = Members::visit(&bytes[start..start + text.len()], |member| {
            is_empty = false;
            if member.field == Field::IncludeUsage {
                let at = start + member.value.start..start + member.value.end;
                asked = Some((at, member.raw.get() == "true"));
            }
        })?;
        match asked {
            Some((_, true)) => {
                self.include_usage = true;
                Ok(())
            }
            Some((at, false)) => self.cut(at, Replacement::Text("true")),
            None => {
                let text = if is_empty {
                    r#""include_usage":true"#
                } else {
                    r#","include_usage":true"#
                };
                let at = start + inner_end;
                self.cut(at..at, Replacement::Text(text))
            }
        }
    }
}

/// What is needed of the members once all were seen.
#[derive(Default)]
struct Read<'a> {
    has_model: bool,
    stream_options: Option<(&'a RawValue, usize)>,
    /// Where the last member ends.
    end: usize,
    /// Some member stays.
    keeps_some: bool,
}

/// Strings, or objects with `provider` and `model`; the rest is left out.
fn read_fallbacks(raw: &RawValue) -> Vec<String> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Fallback {
        Text(String),
        Parts { provider: String, model: String },
    }
    let entries: Vec<&RawValue> = serde_json::from_str(raw.get()).unwrap_or_default();
    let entries = entries.into_iter().take(MAX_FALLBACKS);
    entries
        .filter_map(|entry| match serde_json::from_str(entry.get()).ok()? {
            Fallback::Text(text) => Some(text),
            Fallback::Parts { provider, model } => Some(format!("{provider}/{model}")),
        })
        .filter(|text| !text.trim().is_empty())
        .collect()
}

/// The place behind the comma that follows, over blanks.
fn after_comma(bytes: &[u8], from: usize) -> usize {
    let blanks = bytes[from..].iter().take_while(|b| b.is_ascii_whitespace());
    let comma = from + blanks.count();
    comma + usize::from(bytes.get(comma) == Some(&b','))
}

#[cfg(test)]
mod tests;
