//! Encryption at rest: XChaCha20-Poly1305 with a key from `encryption_key`, or from a file beside the database.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use argon2::Argon2;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use rusqlite::{Connection, OptionalExtension};

use super::{Fault, StoreError, documents};
use crate::config::Secret;

const NONCE_BYTES: usize = 24;
const PROOF: &[u8] = b"holdline documents";
const KEY_FILE: &str = "documents.key";

/// Closes and opens the bodies of documents.
#[derive(Clone)]
pub(super) struct Seal(XChaCha20Poly1305);

impl fmt::Debug for Seal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Seal")
    }
}

impl Seal {
    fn new(key: &[u8; 32]) -> Self {
        Self(XChaCha20Poly1305::new(Key::from_slice(key)))
    }

    /// Nonce and ciphertext. `name` is bound in, so that a row cannot stand in for another.
    pub(super) fn close(&self, plain: &[u8], name: &[u8]) -> Vec<u8> {
        let nonce: [u8; NONCE_BYTES] = rand::random();
        let payload = Payload {
            msg: plain,
            aad: name,
        };
        let sealed = self
            .0
            .encrypt(XNonce::from_slice(&nonce), payload)
            .expect("only bodies over 256 GiB cannot be sealed");
        [nonce.as_slice(), &sealed].concat()
    }

    /// The plain text, if key and name are those it was closed with.
    pub(super) fn open(&self, sealed: &[u8], name: &[u8]) -> Option<Vec<u8>> {
        let (nonce, rest) = sealed.split_at_checked(NONCE_BYTES)?;
        let payload = Payload {
            msg: rest,
            aad: name,
        };
        self.0.decrypt(XNonce::from_slice(nonce), payload).ok()
    }
}

/// Finds the key that the documents are sealed with. Where `encryption_key` is set for the first time,
/// they are sealed again with it.
pub(super) fn unlock(
    connection: &mut Connection,
    folder: &Path,
    passphrase: Option<&Secret>,
) -> Result<Seal, StoreError> {
    let told = |fault: &dyn fmt::Display| StoreError(format!("cannot open the documents: {fault}"));
    let row: Option<(Vec<u8>, Vec<u8>)> = connection
        .query_row("SELECT salt, proof FROM seal", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()
        .map_err(|e| told(&e))?;
    let (salt, proof) = row.map_or_else(
        || (rand::random::<[u8; 16]>().to_vec(), None),
        |(s, p)| (s, Some(p)),
    );
    let in_file = key_file(folder).map_err(|e| told(&e))?;
    let wanted = match passphrase {
        Some(passphrase) => derived(passphrase, &salt)?,
        None => match in_file {
            Some(key) => Seal::new(&key),
            None if proof.is_some() => return Err(locked(folder)),
            None => Seal::new(&make_key_file(folder).map_err(|e| told(&e))?),
        },
    };
    let fits = |seal: &Seal| {
        let proof = proof.as_ref();
        proof.is_none_or(|proof| seal.open(proof, b"proof").is_some())
    };
    if !fits(&wanted) {
        let before = in_file
            .map(|key| Seal::new(&key))
            .filter(|s| passphrase.is_some() && fits(s));
        let before = before.ok_or_else(|| locked(folder))?;
        reseal(connection, &before, &wanted).map_err(|e| told(&e))?;
    }
    if proof.is_none() {
        let proof = wanted.close(PROOF, b"proof");
        let insert = "INSERT INTO seal (one, salt, proof) VALUES (1, ?1, ?2)";
        connection
            .execute(insert, (salt, proof))
            .map_err(|e| told(&e))?;
    }
    Ok(wanted)
}

fn locked(folder: &Path) -> StoreError {
    StoreError(format!(
        "the saved edits in {} are encrypted with another key: set the encryption_key they were saved with, or restore {KEY_FILE}",
        folder.display()
    ))
}

fn reseal(connection: &mut Connection, before: &Seal, after: &Seal) -> Result<(), Fault> {
    let transaction = connection.transaction()?;
    for document in documents::load(&transaction, before)? {
        documents::put(&transaction, after, &document)?;
    }
    transaction.execute("UPDATE seal SET proof = ?1", [after.close(PROOF, b"proof")])?;
    transaction.commit()?;
    Ok(())
}

fn derived(passphrase: &Secret, salt: &[u8]) -> Result<Seal, StoreError> {
    let mut key = [0; 32];
    Argon2::default()
        .hash_password_into(passphrase.expose().as_bytes(), salt, &mut key)
        .map_err(|error| StoreError(format!("encryption_key cannot be used: {error}")))?;
    Ok(Seal::new(&key))
}

fn key_file(folder: &Path) -> io::Result<Option<[u8; 32]>> {
    match fs::read(folder.join(KEY_FILE)) {
        Ok(bytes) => bytes
            .try_into()
            .map(Some)
            .map_err(|_| io::Error::other(format!("{KEY_FILE} is damaged: it must have 32 bytes"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Readable by its owner only, and on the disk before anything is sealed with it.
fn make_key_file(folder: &Path) -> io::Result<[u8; 32]> {
    let key: [u8; 32] = rand::random();
    let unfinished = folder.join("documents.key.new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)?;
    file.write_all(&key)?;
    file.sync_all()?;
    fs::rename(unfinished, folder.join(KEY_FILE))?;
    fs::File::open(folder)?.sync_all()?;
    Ok(key)
}
