//! Settings and admin edits. Bodies rest sealed: they may carry keys' secrets.

use holdline_core::replica::Document;
use holdline_core::time::Hlc;
use rusqlite::{OptionalExtension, Transaction};

use super::seal::Seal;
use super::{Fault, Store, StoreError, signed, unsigned};

impl Store {
    /// Keeps documents. A stored one gives way only to a later stamp.
    ///
    /// # Errors
    /// When the database cannot be written: then none of them was kept.
    pub fn save_documents(&self, documents: &[Document]) -> Result<(), StoreError> {
        if documents.is_empty() {
            return Ok(());
        }
        self.write("documents", |t| {
            for document in documents {
                save(t, &self.seal, document)?;
            }
            Ok(())
        })
    }

    /// All documents, tombstones included.
    ///
    /// # Errors
    /// When the database cannot be read, or a body does not open.
    pub fn load_documents(&self) -> Result<Vec<Document>, StoreError> {
        self.read("documents", |connection| load(connection, &self.seal))
    }
}

fn save(t: &Transaction<'_>, seal: &Seal, document: &Document) -> Result<(), Fault> {
    let here: Option<Hlc> = t
        .query_row(
            "SELECT ms, counter, node FROM documents WHERE name = ?1",
            [&document.name],
            |row| stamp(row, 0),
        )
        .optional()?;
    if here.is_some_and(|here| here >= document.stamp) {
        return Ok(());
    }
    put(t, seal, document)
}

pub(super) fn put(t: &Transaction<'_>, seal: &Seal, document: &Document) -> Result<(), Fault> {
    let body = document
        .body
        .as_ref()
        .map(|body| seal.close(body.as_bytes(), document.name.as_bytes()));
    t.execute(
        "INSERT OR REPLACE INTO documents (name, ms, counter, node, body) VALUES (?1, ?2, ?3, ?4, ?5)",
        (
            &document.name,
            signed(document.stamp.ms),
            document.stamp.counter,
            signed(document.stamp.node),
            body,
        ),
    )?;
    Ok(())
}

pub(super) fn load(connection: &rusqlite::Connection, seal: &Seal) -> Result<Vec<Document>, Fault> {
    let mut statement =
        connection.prepare("SELECT name, ms, counter, node, body FROM documents ORDER BY name")?;
    let mut rows = statement.query([])?;
    let mut documents = Vec::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        let body: Option<Vec<u8>> = row.get(4)?;
        let body = match body {
            Some(sealed) => {
                let open = seal.open(&sealed, name.as_bytes()).ok_or(Fault::Sealed)?;
                Some(String::from_utf8(open).map_err(|_| Fault::Sealed)?)
            }
            None => None,
        };
        let stamp = stamp(row, 1)?;
        documents.push(Document { name, stamp, body });
    }
    Ok(documents)
}

fn stamp(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Hlc> {
    Ok(Hlc {
        ms: unsigned(row.get(first)?),
        counter: row.get(first + 1)?,
        node: unsigned(row.get(first + 2)?),
    })
}
