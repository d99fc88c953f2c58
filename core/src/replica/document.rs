//! Last-writer documents: settings and admin edits, ordered by [`Hlc`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::time::Hlc;

/// One document: the newest stamp wins, a deletion is a document without a body (a tombstone).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// `settings`, `provider/openai`, `key/openai/k-a` …
    pub name: String,
    /// When it was written.
    pub stamp: Hlc,
    /// JSON text, or nothing where it was deleted. May carry a key's secret: travels only in sealed
    /// RPC bodies and rests encrypted.
    pub body: Option<String>,
}

impl std::fmt::Debug for Document {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Document")
            .field("name", &self.name)
            .field("stamp", &self.stamp)
            .field("deleted", &self.body.is_none())
            .finish_non_exhaustive()
    }
}

/// All documents of a node.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    by_name: BTreeMap<String, Document>,
}

impl Documents {
    /// Takes the document in if it is newer than what is here. True if it was.
    pub fn merge(&mut self, document: Document) -> bool {
        match self.by_name.get(&document.name) {
            Some(here) if here.stamp >= document.stamp => false,
            Some(_) | None => {
                self.by_name.insert(document.name.clone(), document);
                true
            }
        }
    }

    /// One document, tombstones included.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Document> {
        self.by_name.get(name)
    }

    /// All documents whose name starts so, tombstones included, in order of name.
    pub fn starting_with<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Document> {
        self.by_name
            .range(prefix.to_owned()..)
            .map(|(_, document)| document)
            .take_while(move |document| document.name.starts_with(prefix))
    }

    /// All documents, tombstones included.
    pub fn iter(&self) -> impl Iterator<Item = &Document> {
        self.by_name.values()
    }

    /// A hash over names and stamps: equal digests mean equal documents.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hash = Sha256::new();
        for document in self.by_name.values() {
            hash.update((document.name.len() as u64).to_be_bytes());
            hash.update(document.name.as_bytes());
            hash.update(document.stamp.ms.to_be_bytes());
            hash.update(document.stamp.counter.to_be_bytes());
            hash.update(document.stamp.node.to_be_bytes());
        }
        let digest = hash.finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        u64::from_be_bytes(first)
    }
}
