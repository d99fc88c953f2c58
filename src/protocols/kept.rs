//! Things that a provider keeps under ids: responses, files, batches. They pass untouched to where they are
//! kept; nothing of them is converted, and a body only moves through.

use super::Protocol;

/// A collection of such things, in one vendor's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    /// OpenAI's responses: made elsewhere, read and deleted here.
    Responses,
    /// OpenAI's files.
    Files,
    /// OpenAI's batches.
    Batches,
    /// Anthropic's files.
    AnthropicFiles,
    /// Anthropic's batches of messages.
    MessageBatches,
}

/// One thing that is asked of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verb {
    /// The HTTP method.
    pub method: &'static str,
    /// What stands behind the collection's path.
    pub behind: Behind,
    /// What records and configurations call it.
    pub kind: &'static str,
}

/// What stands behind a collection's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// Nothing: the collection itself.
    Nothing,
    /// An id, and this: nothing, or a part with its slash.
    Id(&'static str),
}

const fn verb(method: &'static str, behind: Behind, kind: &'static str) -> Verb {
    Verb {
        method,
        behind,
        kind,
    }
}

const FILES: &[Verb] = &[
    verb("POST", Behind::Nothing, "file_upload"),
    verb("GET", Behind::Nothing, "file_list"),
    verb("GET", Behind::Id(""), "file_retrieve"),
    verb("DELETE", Behind::Id(""), "file_delete"),
    verb("GET", Behind::Id("/content"), "file_content"),
];

const RESPONSES: &[Verb] = &[
    verb("GET", Behind::Id(""), "responses_retrieve"),
    verb("DELETE", Behind::Id(""), "responses_delete"),
    verb("POST", Behind::Id("/cancel"), "responses_cancel"),
    verb("GET", Behind::Id("/input_items"), "responses_input_items"),
];

const BATCHES: &[Verb] = &[
    verb("POST", Behind::Nothing, "batch_create"),
    verb("GET", Behind::Nothing, "batch_list"),
    verb("GET", Behind::Id(""), "batch_retrieve"),
    verb("POST", Behind::Id("/cancel"), "batch_cancel"),
];

const MESSAGE_BATCHES: &[Verb] = &[
    verb("POST", Behind::Nothing, "batch_create"),
    verb("GET", Behind::Nothing, "batch_list"),
    verb("GET", Behind::Id(""), "batch_retrieve"),
    verb("DELETE", Behind::Id(""), "batch_delete"),
    verb("POST", Behind::Id("/cancel"), "batch_cancel"),
    verb("GET", Behind::Id("/results"), "batch_results"),
];

impl Collection {
    /// Behind the version, at clients and providers alike.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Responses => "/responses",
            Self::Files | Self::AnthropicFiles => "/files",
            Self::Batches => "/batches",
            Self::MessageBatches => "/messages/batches",
        }
    }

    /// All that may be asked of it.
    #[must_use]
    pub const fn verbs(self) -> &'static [Verb] {
        match self {
            Self::Responses => RESPONSES,
            Self::Files | Self::AnthropicFiles => FILES,
            Self::Batches => BATCHES,
            Self::MessageBatches => MESSAGE_BATCHES,
        }
    }

    /// Whose clients ask, and in whose words they are refused.
    #[must_use]
    pub const fn protocol(self) -> Protocol {
        match self {
            Self::Responses => Protocol::Responses,
            Self::Files | Self::Batches => Protocol::Chat,
            Self::AnthropicFiles | Self::MessageBatches => Protocol::Messages,
        }
    }

    /// Who is asked where nobody is named.
    #[must_use]
    pub const fn usual(self) -> &'static str {
        match self {
            Self::Responses | Self::Files | Self::Batches => "openai",
            Self::AnthropicFiles | Self::MessageBatches => "anthropic",
        }
    }

    /// In sentences.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Responses => "responses",
            Self::Files | Self::AnthropicFiles => "files",
            Self::Batches | Self::MessageBatches => "batches",
        }
    }
}
