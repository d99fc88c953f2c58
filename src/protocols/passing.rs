//! Protocols that only pass: the same on both sides, never converted. A new one is a variant and a row.

use bytes::BytesMut;
use memchr::memmem;

use super::talk::Usage;
use super::{Edits, Event, Seen, Spoken, chat, write_event};
use crate::api::error::ApiError;

/// OpenAI's endpoints beside those that talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Passing {
    /// Sorts documents by a query; Cohere's shape, which others took over.
    Rerank,
    /// Whether text may be said.
    Moderations,
    /// Images from text.
    ImageGenerations,
    /// Images from images; a form.
    ImageEdits,
    /// The same image in other ways; a form.
    ImageVariations,
    /// Sound from text.
    Speech,
    /// Text from sound; a form.
    Transcriptions,
    /// English text from sound; a form.
    Translations,
}

impl Passing {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Rerank,
        Self::Moderations,
        Self::ImageGenerations,
        Self::ImageEdits,
        Self::ImageVariations,
        Self::Speech,
        Self::Transcriptions,
        Self::Translations,
    ];

    /// Behind the version, at clients and providers alike.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Rerank => "/rerank",
            Self::Moderations => "/moderations",
            Self::ImageGenerations => "/images/generations",
            Self::ImageEdits => "/images/edits",
            Self::ImageVariations => "/images/variations",
            Self::Speech => "/audio/speech",
            Self::Transcriptions => "/audio/transcriptions",
            Self::Translations => "/audio/translations",
        }
    }

    /// What `extra_fields` and log records call such a request.
    #[must_use]
    pub const fn request_type(self, stream: bool) -> &'static str {
        match self {
            Self::Rerank => "rerank",
            Self::Moderations => "moderation",
            Self::ImageGenerations if stream => "image_generation_stream",
            Self::ImageGenerations => "image_generation",
            Self::ImageEdits if stream => "image_edit_stream",
            Self::ImageEdits => "image_edit",
            Self::ImageVariations => "image_variation",
            Self::Speech if stream => "speech_stream",
            Self::Speech => "speech",
            Self::Transcriptions | Self::Translations if stream => "transcription_stream",
            Self::Transcriptions | Self::Translations => "transcription",
        }
    }

    /// How it is read.
    #[must_use]
    pub const fn spoken(self) -> &'static dyn Spoken {
        match self {
            Self::Rerank | Self::Moderations => &Quiet { form: false },
            Self::ImageGenerations | Self::Speech => &Streaming { form: false },
            Self::ImageVariations => &Quiet { form: true },
            Self::ImageEdits | Self::Transcriptions | Self::Translations => {
                &Streaming { form: true }
            }
        }
    }

    /// Whether whole answers are always JSON.
    #[must_use]
    pub const fn answers_json(self) -> bool {
        match self {
            Self::Speech | Self::Transcriptions | Self::Translations => false,
            Self::Rerank
            | Self::Moderations
            | Self::ImageGenerations
            | Self::ImageEdits
            | Self::ImageVariations => true,
        }
    }
}

/// Never streams.
#[derive(Clone, Copy, Debug)]
struct Quiet {
    form: bool,
}

/// Streams events whose type says when all is there: `image_generation.completed`,
/// `transcript.text.done`.
#[derive(Clone, Copy, Debug)]
struct Streaming {
    form: bool,
}

impl Spoken for Quiet {
    fn edits(&self) -> Edits {
        Edits {
            model: true,
            form: self.form,
            ..Edits::default()
        }
    }

    fn usage(&self, answer: &[u8]) -> Option<Usage> {
        chat::usage(answer)
    }

    fn seen(&self, _event: &Event, _committed: bool) -> Seen {
        Seen::OUTPUT
    }

    fn error(&self, error: &ApiError) -> Vec<u8> {
        error.to_json()
    }

    fn error_event(&self, error: &ApiError, _place: u64, out: &mut BytesMut) {
        write_event(None, &error.to_json(), out);
    }
}

impl Spoken for Streaming {
    fn edits(&self) -> Edits {
        Edits {
            model: true,
            stream: true,
            form: self.form,
            ..Edits::default()
        }
    }

    fn usage(&self, answer: &[u8]) -> Option<Usage> {
        chat::usage(answer)
    }

    fn seen(&self, event: &Event, _committed: bool) -> Seen {
        let has = |mark: &[u8]| memmem::find(&event.data, mark).is_some();
        let complete = has(b".completed\"") || has(b".done\"");
        Seen {
            complete,
            usage: complete.then(|| chat::usage(&event.data)).flatten(),
            ..Seen::OUTPUT
        }
    }

    fn error(&self, error: &ApiError) -> Vec<u8> {
        error.to_json()
    }

    fn error_event(&self, error: &ApiError, _place: u64, out: &mut BytesMut) {
        write_event(Some("error"), &error.to_json(), out);
    }
}
