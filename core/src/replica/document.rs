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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn document(name: &str, ms: u64, body: Option<&str>) -> Document {
        Document {
            name: name.to_owned(),
            stamp: Hlc {
                ms,
                counter: 0,
                node: 1,
            },
            body: body.map(str::to_owned),
        }
    }

    fn body<'a>(documents: &'a Documents, name: &str) -> Option<&'a str> {
        documents.get(name)?.body.as_deref()
    }

    #[test]
    fn the_newest_write_wins_in_any_order() {
        let (old, new) = (document("s", 1, Some("old")), document("s", 2, Some("new")));
        let mut forth = Documents::default();
        assert!(forth.merge(old.clone()) && forth.merge(new.clone()));
        let mut back = Documents::default();
        assert!(back.merge(new.clone()));
        assert!(!back.merge(old) && !back.merge(new));
        assert_eq!(body(&forth, "s"), Some("new"));
        assert_eq!(body(&back, "s"), Some("new"));
        assert_eq!(forth.digest(), back.digest());
    }

    #[test]
    fn a_deletion_outlives_older_writes_and_yields_to_newer_ones() {
        let mut documents = Documents::default();
        documents.merge(document("k", 5, None));
        assert!(!documents.merge(document("k", 4, Some("late"))));
        assert!(documents.get("k").unwrap().body.is_none());
        assert!(documents.merge(document("k", 6, Some("again"))));
        assert_eq!(body(&documents, "k"), Some("again"));
    }

    #[test]
    fn a_prefix_finds_its_documents_and_no_others() {
        let mut documents = Documents::default();
        for name in ["key/a/1", "key/a/2", "key/ab/1", "provider/a", "key/a"] {
            documents.merge(document(name, 1, None));
        }
        let found: Vec<&str> = documents
            .starting_with("key/a/")
            .map(|d| d.name.as_str())
            .collect();
        assert_eq!(found, ["key/a/1", "key/a/2"]);
        assert_eq!(documents.starting_with("x").count(), 0);
        assert_eq!(documents.starting_with("").count(), 5);
    }

    #[test]
    fn a_body_is_never_in_debug_output() {
        let shown = format!("{:?}", document("key/a/1", 1, Some("sk-secret")));
        assert!(
            !shown.contains("sk-secret") && shown.contains("key/a/1"),
            "{shown}"
        );
    }

    fn documents() -> impl Strategy<Value = Vec<Document>> {
        let one = (0..4u8, 0..6u64, 0..3u64).prop_map(|(name, ms, node)| Document {
            name: format!("d{name}"),
            stamp: Hlc {
                ms,
                counter: 0,
                node,
            },
            // A stamp is issued once: equal stamps carry equal bodies.
            body: (node != 2).then(|| format!("{name} {ms} {node}")),
        });
        prop::collection::vec(one, 0..20)
    }

    fn merged(all: impl IntoIterator<Item = Document>) -> Documents {
        let mut documents = Documents::default();
        for document in all {
            documents.merge(document);
        }
        documents
    }

    proptest! {
        /// Any order, with any repetition, ends in the same documents, and the digest tells so.
        #[test]
        fn merging_is_a_join(all in documents(), order in any::<prop::sample::Index>()) {
            let straight = merged(all.clone());
            let mut turned = all.clone();
            if !turned.is_empty() {
                let at = order.index(turned.len());
                turned.rotate_left(at);
                turned.reverse();
            }
            let other = merged(turned.into_iter().chain(all));
            prop_assert!(straight.iter().eq(other.iter()));
            prop_assert_eq!(straight.digest(), other.digest());
        }

        #[test]
        fn different_stamps_give_different_digests(all in documents(), extra in 10..20u64) {
            let before = merged(all.clone());
            let mut after = merged(all);
            after.merge(document("d0", extra, None));
            prop_assert_ne!(before.digest(), after.digest());
        }
    }
}
