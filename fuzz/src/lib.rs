//! What the fuzz targets share: the protocols' own files, what must hold of every conversion, and
//! changes that keep an input JSON.
//!
//! The files are built in here by their paths: the gateway around them would have to be built for every
//! run.

#[path = "../../src/api/error.rs"]
pub mod api_error;
#[path = "../../src/protocols/mod.rs"]
pub mod protocols;

/// Where the protocols look for the shape of a refusal.
pub mod api {
    pub use crate::api_error as error;
}

/// What a refusal is answered in.
pub mod server {
    /// Bytes are enough: nothing is sent.
    pub type Body = Vec<u8>;
}

pub mod answer;
pub mod mutate;
pub mod request;
pub mod samples;
pub mod vectors;

use protocols::Protocol;

/// Those that convert to each other.
pub const TALK: [Protocol; 6] = [
    Protocol::Chat,
    Protocol::Messages,
    Protocol::Responses,
    Protocol::Generate,
    Protocol::Converse,
    Protocol::Cohere,
];

/// What is written must be one JSON value.
pub fn assert_json(bytes: &[u8]) {
    let read: Result<&serde_json::value::RawValue, _> = serde_json::from_slice(bytes);
    assert!(read.is_ok(), "no JSON: {}", String::from_utf8_lossy(bytes));
}
