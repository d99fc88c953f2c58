//! Things that a provider keeps under ids: responses, files, batches, containers, caches. They pass untouched to
//! where they are kept; nothing of them is converted, and a body only moves through.

use super::Protocol;

/// A collection of such things, in one vendor's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    /// OpenAI's responses: made elsewhere, read and deleted here.
    Responses,
    /// OpenAI's files.
    Files,
    /// OpenAI's files that come in parts.
    Uploads,
    /// OpenAI's batches.
    Batches,
    /// OpenAI's containers, with the files in them.
    Containers,
    /// Anthropic's files.
    AnthropicFiles,
    /// Anthropic's batches of messages.
    MessageBatches,
    /// Where Google's files are sent to, whole or in pieces.
    GoogleUploads,
    /// Google's files.
    GoogleFiles,
    /// Google's batches.
    GoogleBatches,
    /// Google's models, where batches are made.
    GoogleModels,
    /// Google's caches of contents.
    GoogleCaches,
}

/// One thing that is asked of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verb {
    /// The HTTP method.
    pub method: &'static str,
    /// What stands behind the collection's path: `{id}` for an id, `{model}` for a model's name.
    pub behind: &'static str,
    /// What records and configurations call it.
    pub kind: &'static str,
}

const fn verb(method: &'static str, behind: &'static str, kind: &'static str) -> Verb {
    Verb {
        method,
        behind,
        kind,
    }
}

const FILES: &[Verb] = &[
    verb("POST", "", "file_upload"),
    verb("GET", "", "file_list"),
    verb("GET", "/{id}", "file_retrieve"),
    verb("DELETE", "/{id}", "file_delete"),
    verb("GET", "/{id}/content", "file_content"),
];

const UPLOADS: &[Verb] = &[
    verb("POST", "", "file_upload"),
    verb("POST", "/{id}/parts", "file_upload"),
    verb("POST", "/{id}/complete", "file_upload"),
    verb("POST", "/{id}/cancel", "file_upload"),
];

const RESPONSES: &[Verb] = &[
    verb("GET", "/{id}", "responses_retrieve"),
    verb("DELETE", "/{id}", "responses_delete"),
    verb("POST", "/{id}/cancel", "responses_cancel"),
    verb("GET", "/{id}/input_items", "responses_input_items"),
];

const BATCHES: &[Verb] = &[
    verb("POST", "", "batch_create"),
    verb("GET", "", "batch_list"),
    verb("GET", "/{id}", "batch_retrieve"),
    verb("POST", "/{id}/cancel", "batch_cancel"),
];

const CONTAINERS: &[Verb] = &[
    verb("POST", "", "container_create"),
    verb("GET", "", "container_list"),
    verb("GET", "/{id}", "container_retrieve"),
    verb("DELETE", "/{id}", "container_delete"),
    verb("POST", "/{id}/files", "container_file_create"),
    verb("GET", "/{id}/files", "container_file_list"),
    verb("GET", "/{id}/files/{id}", "container_file_retrieve"),
    verb("DELETE", "/{id}/files/{id}", "container_file_delete"),
    verb("GET", "/{id}/files/{id}/content", "container_file_content"),
];

const MESSAGE_BATCHES: &[Verb] = &[
    verb("POST", "", "batch_create"),
    verb("GET", "", "batch_list"),
    verb("GET", "/{id}", "batch_retrieve"),
    verb("DELETE", "/{id}", "batch_delete"),
    verb("POST", "/{id}/cancel", "batch_cancel"),
    verb("GET", "/{id}/results", "batch_results"),
];

const GOOGLE_UPLOADS: &[Verb] = &[verb("POST", "", "file_upload")];

const GOOGLE_FILES: &[Verb] = &[
    verb("GET", "", "file_list"),
    verb("GET", "/{id}", "file_retrieve"),
    verb("DELETE", "/{id}", "file_delete"),
    verb("GET", "/{id}:download", "file_content"),
];

const GOOGLE_BATCHES: &[Verb] = &[
    verb("GET", "", "batch_list"),
    verb("GET", "/{id}", "batch_retrieve"),
    verb("DELETE", "/{id}", "batch_delete"),
    verb("POST", "/{id}:cancel", "batch_cancel"),
];

const GOOGLE_MODELS: &[Verb] = &[
    verb("POST", "/{model}:batchGenerateContent", "batch_create"),
    verb("POST", "/{model}:asyncBatchEmbedContent", "batch_create"),
];

const GOOGLE_CACHES: &[Verb] = &[
    verb("POST", "", "cached_content_create"),
    verb("GET", "", "cached_content_list"),
    verb("GET", "/{id}", "cached_content_retrieve"),
    verb("PATCH", "/{id}", "cached_content_update"),
    verb("DELETE", "/{id}", "cached_content_delete"),
];

/// How a client of Google says what a piece of a file is. What else begins like these is the provider's to say.
const UPLOAD_HEADERS: &[&str] = &[
    "x-goog-upload-command",
    "x-goog-upload-content-type",
    "x-goog-upload-file-name",
    "x-goog-upload-header-content-length",
    "x-goog-upload-header-content-type",
    "x-goog-upload-offset",
    "x-goog-upload-protocol",
];

impl Verb {
    /// Whether it asks for one thing that only the account knows which made it.
    #[must_use]
    pub fn has_id(&self) -> bool {
        self.behind.contains("{id}")
    }

    /// Whether it has a body.
    #[must_use]
    pub fn has_body(&self) -> bool {
        matches!(self.method, "POST" | "PATCH")
    }
}

impl Collection {
    /// Behind the version, at clients and providers alike.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Responses => "/responses",
            Self::Files | Self::AnthropicFiles | Self::GoogleUploads | Self::GoogleFiles => {
                "/files"
            }
            Self::Uploads => "/uploads",
            Self::Batches | Self::GoogleBatches => "/batches",
            Self::Containers => "/containers",
            Self::MessageBatches => "/messages/batches",
            Self::GoogleModels => "/models",
            Self::GoogleCaches => "/cachedContents",
        }
    }

    /// All that may be asked of it.
    #[must_use]
    pub const fn verbs(self) -> &'static [Verb] {
        match self {
            Self::Responses => RESPONSES,
            Self::Files | Self::AnthropicFiles => FILES,
            Self::Uploads => UPLOADS,
            Self::Batches => BATCHES,
            Self::Containers => CONTAINERS,
            Self::MessageBatches => MESSAGE_BATCHES,
            Self::GoogleUploads => GOOGLE_UPLOADS,
            Self::GoogleFiles => GOOGLE_FILES,
            Self::GoogleBatches => GOOGLE_BATCHES,
            Self::GoogleModels => GOOGLE_MODELS,
            Self::GoogleCaches => GOOGLE_CACHES,
        }
    }

    /// Whose clients ask, and in whose words they are refused.
    #[must_use]
    pub const fn protocol(self) -> Protocol {
        match self {
            Self::Responses => Protocol::Responses,
            Self::Files | Self::Uploads | Self::Batches | Self::Containers => Protocol::Chat,
            Self::AnthropicFiles | Self::MessageBatches => Protocol::Messages,
            Self::GoogleUploads
            | Self::GoogleFiles
            | Self::GoogleBatches
            | Self::GoogleModels
            | Self::GoogleCaches => Protocol::Generate,
        }
    }

    /// Who is asked where nobody is named.
    #[must_use]
    pub const fn usual(self) -> &'static str {
        match self.protocol() {
            Protocol::Messages => "anthropic",
            Protocol::Generate => "gemini",
            Protocol::Chat
            | Protocol::Completions
            | Protocol::Embeddings
            | Protocol::Responses
            | Protocol::EmbedContent
            | Protocol::BatchEmbedContents
            | Protocol::Predict
            | Protocol::Converse
            | Protocol::Cohere
            | Protocol::Passing(_) => "openai",
        }
    }

    /// In sentences.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Responses => "responses",
            Self::Files
            | Self::Uploads
            | Self::AnthropicFiles
            | Self::GoogleUploads
            | Self::GoogleFiles => "files",
            Self::Batches | Self::MessageBatches | Self::GoogleBatches | Self::GoogleModels => {
                "batches"
            }
            Self::Containers => "containers",
            Self::GoogleCaches => "caches",
        }
    }

    /// Whether it is asked for with the keys that are marked for batches. What stands beside inference is not.
    #[must_use]
    pub const fn is_for_batches(self) -> bool {
        !matches!(
            self,
            Self::Responses | Self::Containers | Self::GoogleCaches
        )
    }

    /// Those of a client's headers without which the provider does not know what the body is.
    #[must_use]
    pub const fn headers(self) -> &'static [&'static str] {
        match self {
            Self::GoogleUploads => UPLOAD_HEADERS,
            Self::Responses
            | Self::Files
            | Self::Uploads
            | Self::Batches
            | Self::Containers
            | Self::AnthropicFiles
            | Self::MessageBatches
            | Self::GoogleFiles
            | Self::GoogleBatches
            | Self::GoogleModels
            | Self::GoogleCaches => &[],
        }
    }
}
