//! What is spoken, on either side: pure conversions, without I/O, clock or configuration.
//!
//! Each protocol is a folder with one type that implements [`Spoken`]; [`Protocol`] names them all and
//! [`Protocol::spoken`] finds the type. Clients speak protocols on routes ([`crate::api::routes`] says
//! which path is which), providers speak protocols at endpoints ([`crate::providers`] says where).
//!
//! # The same on both sides
//! Nothing here builds anything: the pipeline splices the model's name into the client's bytes
//! ([`Spoken::edits`] says how) and passes events on as they came. A protocol only tells what it sees in
//! them ([`Spoken::seen`], [`Spoken::usage`]).
//!
//! # Different ones
//! Everything goes through [`talk`]:
//!
//! ```text
//! client's body ── read_request ──> talk::Request ── write_request ──> provider's body
//! provider's answer ── read_answer ──> talk::Answer ── write_answer ──> client's answer
//! provider's event ── ReadStream ──> talk::Delta … ── WriteStream ──> client's events
//! ```
//!
//! Texts that become vectors go the same way through [`talk::Texts`] and [`talk::Vectors`].
//!
//! What the other side cannot say is never lost in silence:
//!
//! * *refused*: it would change what the answer means (an image for a text-only protocol, several
//!   choices): [`Malformed`] from reading, [`Unsupported`] from writing. The client gets a 400 whose `param`
//!   is its own name of the field ([`Spoken::name_of`]).
//! * *dropped*: it only tunes or annotates (a seed, a cache mark): its path goes into
//!   [`talk::Request::unplaced`] when reading, its field into [`Written::dropped`] when writing. Dropped
//!   names are logged and stand in `extra_fields.dropped_params`. `docs/protocols.md` lists them: a row
//!   there for each.
//! * of an answer, left out: [`talk::Answer::unplaced`] and [`Spoken::omits`] tell what is logged.
//!
//! [`dropped`] puts these together. What each pair carries is seen by a test, which writes
//! `docs/pairs.md`.
//!
//! # To add a protocol
//! 1. A folder with `mod.rs` (the unit struct and `impl Spoken`), `request.rs`, `answer.rs`, `stream.rs`;
//!    look at [`messages`]. [`json::Object`] reads objects so that mistakes name their path and leftovers
//!    are seen; write with `#[derive(Serialize)]` structs and [`json::Json`] for what must keep its text.
//! 2. A variant of [`Protocol`] with its lines in the methods below.
//! 3. As a client's: its paths in [`crate::api::routes`]. As a provider's: it is named in
//!    `speaks` of a row of [`crate::config::builtin`], and the provider's adapter in [`crate::providers`]
//!    knows its endpoint.
//! 4. Snapshots of recorded shapes and a round trip (`talk` -> protocol -> `talk`) in its `tests.rs`:
//!    `samples` has generators for the round trip. Samples of every feature in `tests/fixtures/pairs`.
//!
//! A protocol that only passes through implements the required methods and leaves the conversions at
//! their defaults: they say that there is none. Most of those are a row of [`passing`].

pub mod chat;
pub mod cohere;
pub mod converse;
pub mod dropped;
pub mod embeddings;
pub mod event_stream;
pub mod framing;
pub mod generate;
pub mod json;
pub mod kept;
pub mod messages;
pub mod passing;
pub mod plain;
pub mod predict;
pub mod responses;
pub mod sse;
pub mod talk;

#[cfg(test)]
mod pairs;
#[cfg(test)]
pub(crate) mod samples;

use bytes::{Bytes, BytesMut};

use crate::api::error::ApiError;
pub use json::Malformed;
pub use sse::Event;
use talk::{Answer, Aspect, Delta, Field, Request, TextField, Texts, Usage, Vectors};

/// A wire format that clients or providers speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// OpenAI's chat completions, which most providers speak.
    Chat,
    /// Anthropic's messages, with its token counter.
    Messages,
    /// Bedrock's Converse.
    Converse,
    /// Cohere's chat, version 2.
    Cohere,
    /// OpenAI's older completions: a prompt, no conversation.
    Completions,
    /// OpenAI's embeddings.
    Embeddings,
    /// OpenAI's responses.
    Responses,
    /// Google's generateContent, with its token counter.
    Generate,
    /// Google's embedding of one text.
    EmbedContent,
    /// Google's embedding of several texts.
    BatchEmbedContents,
    /// Embeddings as Vertex AI's `predict` takes them.
    Predict,
    /// One of those that only pass.
    Passing(passing::Passing),
}

impl Protocol {
    /// How it is read and written.
    #[must_use]
    pub fn spoken(self) -> &'static dyn Spoken {
        match self {
            Self::Chat => &chat::Chat,
            Self::Messages => &messages::Messages,
            Self::Converse => &converse::Converse,
            Self::Cohere => &cohere::Cohere,
            Self::Completions => &plain::Completions,
            Self::Embeddings => &embeddings::Embeddings,
            Self::Responses => &responses::Responses,
            Self::Generate => &generate::Generate,
            Self::EmbedContent => &generate::Embed { batch: false },
            Self::BatchEmbedContents => &generate::Embed { batch: true },
            Self::Predict => &predict::Predict,
            Self::Passing(passing) => passing.spoken(),
        }
    }

    /// Whether models are talked with in it, so that it converts to any other such protocol.
    #[must_use]
    pub const fn talks(self) -> bool {
        match self {
            Self::Chat
            | Self::Messages
            | Self::Responses
            | Self::Generate
            | Self::Converse
            | Self::Cohere => true,
            Self::Completions
            | Self::Embeddings
            | Self::EmbedContent
            | Self::BatchEmbedContents
            | Self::Predict
            | Self::Passing(_) => false,
        }
    }

    /// Whether texts become vectors in it, so that it converts to any other such protocol.
    #[must_use]
    pub const fn embeds(self) -> bool {
        match self {
            Self::Embeddings | Self::EmbedContent | Self::BatchEmbedContents | Self::Predict => {
                true
            }
            Self::Chat
            | Self::Messages
            | Self::Responses
            | Self::Generate
            | Self::Converse
            | Self::Cohere
            | Self::Completions
            | Self::Passing(_) => false,
        }
    }

    /// Whether what is asked in one can be asked in the other.
    #[must_use]
    pub const fn converts_to(self, other: Self) -> bool {
        (self.talks() && other.talks()) || (self.embeds() && other.embeds())
    }

    /// Whether whole answers are always JSON.
    #[must_use]
    pub const fn answers_json(self) -> bool {
        match self {
            Self::Passing(passing) => passing.answers_json(),
            Self::Chat
            | Self::Messages
            | Self::Completions
            | Self::Embeddings
            | Self::Responses
            | Self::Generate
            | Self::Converse
            | Self::Cohere
            | Self::EmbedContent
            | Self::BatchEmbedContents
            | Self::Predict => true,
        }
    }

    /// What records, `extra_fields` and configurations call a request in it.
    #[must_use]
    pub const fn request_type(self, operation: Operation, stream: bool) -> &'static str {
        match (operation, self) {
            (Operation::CountTokens, _) => "count_tokens",
            (
                Operation::Answer,
                Self::Chat | Self::Messages | Self::Generate | Self::Converse | Self::Cohere,
            ) => {
                if stream {
                    "chat_completion_stream"
                } else {
                    "chat_completion"
                }
            }
            (Operation::Answer, Self::Responses) if stream => "responses_stream",
            (Operation::Answer, Self::Responses) => "responses",
            (Operation::Answer, Self::Completions) if stream => "text_completion_stream",
            (Operation::Answer, Self::Completions) => "text_completion",
            (
                Operation::Answer,
                Self::Embeddings | Self::EmbedContent | Self::BatchEmbedContents | Self::Predict,
            ) => "embedding",
            (Operation::Answer, Self::Passing(passing)) => passing.request_type(stream),
        }
    }

    /// In sentences.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Chat => "OpenAI's chat completions",
            Self::Messages => "Anthropic's messages",
            Self::Converse => "Bedrock's Converse",
            Self::Cohere => "Cohere's chat",
            Self::Completions => "OpenAI's completions",
            Self::Embeddings => "OpenAI's embeddings",
            Self::Responses => "OpenAI's responses",
            Self::Generate => "Google's generateContent",
            Self::EmbedContent => "Google's embedContent",
            Self::BatchEmbedContents => "Google's batchEmbedContents",
            Self::Predict => "Vertex AI's predict",
            Self::Passing(passing) => passing.path(),
        }
    }
}

/// What is asked for in a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// An answer; of embeddings the vectors. The protocol's main purpose.
    Answer,
    /// How many tokens a request has. Never streamed, never converted.
    CountTokens,
}

/// What one event of a provider's stream is. Errors are told apart before: see `pipeline::failed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Model output, or anything not known to be mere startup: it commits the stream.
    pub output: bool,
    /// From here on the answer is whole, even if the provider's end mark does not come.
    pub complete: bool,
    /// The end mark: nothing follows.
    pub ends: bool,
    /// It carries usage: merged with what came before.
    pub usage: Option<Usage>,
    /// It is nothing but the usage that the gateway asked for.
    pub usage_only: bool,
}

impl Seen {
    /// Plain output.
    pub const OUTPUT: Self = Self {
        output: true,
        complete: false,
        ends: false,
        usage: None,
        usage_only: false,
    };
}

/// How a body of the same protocol is edited on its way up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    /// The body has `model`; otherwise the path has it.
    pub model: bool,
    /// The body has `stream`; otherwise the path says it, or nothing streams.
    pub stream: bool,
    /// `stream_options.include_usage` is asked for in streams.
    pub ask_for_usage: bool,
    /// The body is a `multipart/form-data`, no JSON.
    pub form: bool,
}

/// To whom a request is written.
#[derive(Clone, Copy, Debug)]
pub struct To<'a> {
    /// The provider's own name of the model.
    pub model: &'a str,
    /// The answer is to be streamed.
    pub stream: bool,
    /// The built-in provider that it is, or is like: what is said of a protocol differs a little between
    /// its author and others.
    pub provider: &'a str,
}

/// A request written for a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// JSON.
    pub body: Bytes,
    /// What the protocol cannot say and the answer can do without.
    pub dropped: Vec<Field>,
}

/// Texts written for a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenTexts {
    /// JSON.
    pub body: Bytes,
    /// What the protocol cannot say and the vectors can do without.
    pub dropped: Vec<TextField>,
}

/// Texts say what the provider's protocol cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsaidText {
    /// What it is.
    pub field: TextField,
    /// In words, for the client: follows the field's name in a sentence.
    pub message: String,
}

impl UnsaidText {
    /// Of this field.
    #[must_use]
    pub fn new(field: TextField, message: impl Into<String>) -> Self {
        Self {
            field,
            message: message.into(),
        }
    }
}

/// A request says what the provider's protocol cannot, and an answer without it would be another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// What it is.
    pub field: Field,
    /// In words, for the client: what cannot be said and what to do about it.
    pub message: String,
}

impl Unsupported {
    /// Of this field.
    #[must_use]
    pub fn new(field: Field, message: impl Into<String>) -> Self {
        Self {
            field,
            message: message.into(),
        }
    }
}

/// What a client's answer needs that no provider tells.
#[derive(Clone, Debug)]
pub struct Shown {
    /// For answers whose provider gave no id.
    pub id: String,
    /// For answers whose provider did not name its model.
    pub model: String,
    /// Seconds since 1970.
    pub created: u64,
    /// The client asked for the usage of a stream.
    pub include_usage: bool,
    /// Tools that take one text, as [`talk::Request::text_tools`] has them.
    pub text_tools: Vec<String>,
}

impl Shown {
    /// The provider's id, where there is one.
    #[must_use]
    pub fn id_or<'a>(&'a self, given: &'a str) -> &'a str {
        if given.is_empty() { &self.id } else { given }
    }

    /// The provider's name of the model, where there is one.
    #[must_use]
    pub fn model_or<'a>(&'a self, given: &'a str) -> &'a str {
        if given.is_empty() { &self.model } else { given }
    }
}

/// Reads a provider's stream.
pub trait ReadStream: Send + std::fmt::Debug {
    /// Takes in one event that is no error. Events that are not known add nothing.
    ///
    /// # Errors
    /// When it cannot be what the provider meant: the stream is broken then.
    fn read(&mut self, event: &Event, out: &mut Vec<Delta>) -> Result<(), Malformed>;
}

/// Writes a client's stream.
pub trait WriteStream: Send + std::fmt::Debug {
    /// Writes what one step becomes, possibly nothing yet.
    fn write(&mut self, delta: Delta, out: &mut BytesMut);

    /// Writes the end of a whole answer. `extra_fields` is JSON for clients that read it.
    fn end(&mut self, extra_fields: Option<&[u8]>, out: &mut BytesMut);

    /// How many events were written, where the protocol counts them.
    fn events(&self) -> u64 {
        0
    }
}

/// One protocol.
pub trait Spoken: Sync {
    /// How bodies are edited.
    fn edits(&self) -> Edits;

    /// The usage of a whole answer.
    fn usage(&self, answer: &[u8]) -> Option<Usage>;

    /// What an event is. A committed stream's output need not be told apart from startup: only what
    /// else an event may be matters then, and the cheapest way to find out will do.
    fn seen(&self, event: &Event, committed: bool) -> Seen;

    /// What a complete stream that lacks its end mark is given.
    fn end_mark(&self) -> &'static [u8] {
        b""
    }

    /// The content type of its streams.
    fn stream_type(&self) -> &'static str {
        "text/event-stream"
    }

    /// A refusal as its clients read it.
    fn error(&self, error: &ApiError) -> Vec<u8>;

    /// A refusal as the last event of a stream. So many events went before it: some protocols count.
    fn error_event(&self, error: &ApiError, place: u64, out: &mut BytesMut);

    /// What clients of this protocol call it.
    fn name_of(&self, _field: Field) -> &'static str {
        "body"
    }

    /// What of an answer its clients cannot be told.
    fn omits(&self) -> &'static [Aspect] {
        &[]
    }

    /// A client's request.
    ///
    /// # Errors
    /// When it is not what the protocol says, or says what only this protocol knows and cannot be dropped.
    fn read_request(&self, _body: &[u8]) -> Result<Request, Malformed> {
        Err(no_conversion())
    }

    /// A request for a provider.
    ///
    /// # Errors
    /// When it says what this protocol cannot.
    fn write_request(&self, _request: &Request, _to: To<'_>) -> Result<Written, Unsupported> {
        let message = "this protocol cannot be converted to";
        Err(Unsupported::new(Field::Turns, message))
    }

    /// A provider's answer.
    ///
    /// # Errors
    /// When it is not what the protocol says.
    fn read_answer(&self, _body: &[u8]) -> Result<Answer, Malformed> {
        Err(no_conversion())
    }

    /// An answer for a client.
    fn write_answer(&self, _answer: &Answer, _shown: &Shown) -> Vec<u8> {
        Vec::new()
    }

    /// What clients of this protocol call it.
    fn name_of_text(&self, _field: TextField) -> &'static str {
        "body"
    }

    /// A client's texts.
    ///
    /// # Errors
    /// When they are not what the protocol says, or are what only this protocol knows.
    fn read_texts(&self, _body: &[u8]) -> Result<Texts, Malformed> {
        Err(no_conversion())
    }

    /// Texts for a provider.
    ///
    /// # Errors
    /// When they say what this protocol cannot.
    fn write_texts(&self, _texts: &Texts, _to: To<'_>) -> Result<WrittenTexts, UnsaidText> {
        let message = "cannot be sent in this protocol";
        Err(UnsaidText::new(TextField::Texts, message))
    }

    /// A provider's vectors.
    ///
    /// # Errors
    /// When they are not what the protocol says.
    fn read_vectors(&self, _body: &[u8]) -> Result<Vectors, Malformed> {
        Err(no_conversion())
    }

    /// Vectors for a client that asked for these texts.
    fn write_vectors(&self, _vectors: &Vectors, _texts: &Texts, _shown: &Shown) -> Vec<u8> {
        Vec::new()
    }

    /// Reads a provider's stream; none where the protocol is never converted.
    fn stream_reader(&self) -> Option<Box<dyn ReadStream>> {
        None
    }

    /// Writes a client's stream; none where the protocol is never converted.
    fn stream_writer(&self, _shown: Shown) -> Option<Box<dyn WriteStream>> {
        None
    }
}

fn no_conversion() -> Malformed {
    Malformed::at("body", "is of a protocol that cannot be converted")
}

/// Writes one server-sent event.
pub fn write_event(name: Option<&str>, data: &[u8], out: &mut BytesMut) {
    if let Some(name) = name {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\n");
    }
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(data);
    out.extend_from_slice(b"\n\n");
}
