//! Parts of a turn or of an answer, and the seals in them.
//!
//! Google seals a thought beside what came of it: the next text or call has the `thoughtSignature`. In
//! [`talk`](crate::protocols::talk) the seal is the thought's own.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_with::skip_serializing_none;

use crate::protocols::json::Json;
use crate::protocols::talk::{Media, Part, Source, Thought};

#[derive(Serialize)]
pub(super) struct Content<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<&'static str>,
    pub(super) parts: Vec<PartOut<'a>>,
}

/// A part. One of its first members is there.
#[skip_serializing_none]
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PartOut<'a> {
    text: Option<&'a str>,
    inline_data: Option<Inline<'a>>,
    file_data: Option<File<'a>>,
    function_call: Option<CallOut<'a>>,
    function_response: Option<ResponseOut<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    thought: bool,
    thought_signature: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Inline<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<&'static str>,
    file_uri: &'a str,
}

#[derive(Serialize)]
struct CallOut<'a> {
    /// Only for clients: not every endpoint of Google takes it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    args: &'a Json,
}

#[derive(Serialize)]
struct ResponseOut<'a> {
    name: &'a str,
    response: Outcome,
}

/// Must be an object: what a tool said is put into one unless it is one.
pub(super) enum Outcome {
    Object(Json),
    Output(String),
    Error(String),
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Object(json) => json.serialize(out),
            Self::Output(text) => out.collect_map([("output", text)]),
            Self::Error(text) => out.collect_map([("error", text)]),
        }
    }
}

/// Text.
pub(super) fn text_part(text: &str) -> PartOut<'_> {
    PartOut {
        text: Some(text),
        ..PartOut::default()
    }
}

/// A call.
pub(super) fn call_part<'a>(id: Option<&'a str>, name: &'a str, args: &'a Json) -> PartOut<'a> {
    PartOut {
        function_call: Some(CallOut { id, name, args }),
        ..PartOut::default()
    }
}

/// A tool's result.
pub(super) fn result_part(name: &str, response: Outcome) -> PartOut<'_> {
    PartOut {
        function_response: Some(ResponseOut { name, response }),
        ..PartOut::default()
    }
}

/// A medium.
pub(super) fn media_part(media: &Media) -> PartOut<'_> {
    match &media.source {
        Source::Base64 { media_type, data } => PartOut {
            inline_data: Some(Inline {
                mime_type: media_type,
                data,
            }),
            ..PartOut::default()
        },
        Source::Url(url) => PartOut {
            file_data: Some(File {
                mime_type: type_of(url),
                file_uri: url,
            }),
            ..PartOut::default()
        },
    }
}

/// The type that a URL's ending stands for; Google looks for itself where it is not told.
fn type_of(url: &str) -> Option<&'static str> {
    let path = url.split(['?', '#']).next()?;
    let (_, ending) = path.rsplit_once('.')?;
    match ending.to_ascii_lowercase().as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "webp" => Some("image/webp"),
        "gif" => Some("image/gif"),
        "heic" => Some("image/heic"),
        "pdf" => Some("application/pdf"),
        "txt" => Some("text/plain"),
        "mp3" => Some("audio/mpeg"),
        "wav" => Some("audio/wav"),
        _ => None,
    }
}

/// Writes what a model says, with each seal where Google has it.
#[derive(Default)]
pub(super) struct Sealed<'a> {
    out: Vec<PartOut<'a>>,
    seal: Option<Cow<'a, str>>,
}

impl<'a> Sealed<'a> {
    /// With a seal that came before.
    pub(super) fn with(seal: Option<String>) -> Self {
        Self {
            out: Vec::new(),
            seal: seal.map(Cow::Owned),
        }
    }

    /// A thought, as far as it is shown; its seal waits for the next part.
    pub(super) fn think(&mut self, thought: &'a Thought) {
        self.flush();
        self.seal = thought.seal();
        if !thought.text.is_empty() {
            self.out.push(PartOut {
                thought: true,
                ..text_part(&thought.text)
            });
        }
    }

    /// A text or a call.
    pub(super) fn push(&mut self, part: PartOut<'a>) {
        let thought_signature = self.seal.take();
        self.out.push(PartOut {
            thought_signature,
            ..part
        });
    }

    /// A seal for the next part, if it has none.
    pub(super) fn seal_unless_sealed(&mut self, seal: &'static str) {
        self.seal.get_or_insert(Cow::Borrowed(seal));
    }

    /// A seal of which nothing came stands beside an empty text.
    fn flush(&mut self) {
        if self.seal.is_some() {
            self.push(text_part(""));
        }
    }

    /// All parts.
    pub(super) fn finish(mut self) -> Vec<PartOut<'a>> {
        self.flush();
        self.out
    }
}

/// Reads a text or a shown thought, with the seal beside it.
pub(super) fn add_text(said: String, is_thought: bool, seal: Option<String>, out: &mut Vec<Part>) {
    if is_thought {
        out.push(Part::Thought(Thought::sealed(said, seal)));
        return;
    }
    add_seal(seal, out);
    if !said.is_empty() {
        out.push(Part::Text(said));
    }
}

/// Reads a seal: it belongs to the thought before, shown or not.
pub(super) fn add_seal(seal: Option<String>, out: &mut Vec<Part>) {
    let Some(seal) = seal else { return };
    let thought = Thought::sealed(String::new(), Some(seal));
    if let Some(Part::Thought(last)) = out.last_mut()
        && last.signature.is_none()
        && last.redacted.is_none()
        && thought.redacted.is_none()
    {
        last.signature = thought.signature;
        return;
    }
    out.push(Part::Thought(thought));
}
