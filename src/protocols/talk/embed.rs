//! Texts that are turned into vectors, in no protocol's words.

use crate::protocols::json::Json;

/// What a client wants vectors of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// One vector each, in order.
    pub texts: Vec<Text>,
    /// How long the vectors are to be; as long as the model's where nothing is said.
    pub dimensions: Option<u64>,
    /// The client wants the numbers as base64 of little-endian `f32`.
    pub base64: bool,
    /// Paths of what only the client's protocol knows: dropped.
    pub unplaced: Vec<String>,
}

/// One text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// It.
    pub text: String,
    /// What its vector is for, as Google names it: `RETRIEVAL_DOCUMENT` …
    pub task: Option<String>,
    /// The title of the document that it is of.
    pub title: Option<String>,
}

/// What a model made of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vectors {
    /// In the order of the texts: lists of numbers, as they were written.
    pub vectors: Vec<Json>,
    /// The model, as the provider names it; empty where it does not.
    pub model: String,
    /// Tokens of the texts, where they were counted.
    pub tokens: Option<u64>,
}

/// What of [`Texts`] a provider's protocol may be unable to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextField {
    /// The texts themselves.
    Texts,
    /// What a vector is for.
    Task,
    /// The document's title.
    Title,
}
