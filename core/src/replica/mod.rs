//! Replicated data other than holds: last-writer documents.

pub mod document;

pub use document::{Document, Documents};
