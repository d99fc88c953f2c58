//! How raft's messages, log entries and stored values look as bytes.
//!
//! bincode with a limit: a length that lies cannot make a node allocate, and bytes left over are
//! refused.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The most that one value may take, in bytes. The largest is a stored raft snapshot.
const LIMIT: usize = 64 << 20;

/// Bytes that make no sense, or a value too large to be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("raft codec: {0}")]
pub(super) struct CodecError(String);

/// A value as bytes.
pub(super) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, CodecError> {
    let bytes = bincode::serde::encode_to_vec(value, bincode::config::standard())
        .map_err(|error| CodecError(error.to_string()))?;
    if bytes.len() > LIMIT {
        return Err(CodecError(format!(
            "a value of {} bytes is too large",
            bytes.len()
        )));
    }
    Ok(bytes)
}

/// The value that these bytes, all of them, stand for.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let config = bincode::config::standard().with_limit::<LIMIT>();
    let (value, used) = bincode::serde::decode_from_slice(bytes, config)
        .map_err(|error| CodecError(error.to_string()))?;
    if used == bytes.len() {
        Ok(value)
    } else {
        Err(CodecError(format!(
            "{} bytes left over",
            bytes.len() - used
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_or_padded_is_refused() {
        let bytes = encode(&(7_u64, "words".to_owned())).unwrap();
        assert_eq!(decode(&bytes), Ok((7_u64, "words".to_owned())));
        assert!(decode::<(u64, String)>(&bytes[..bytes.len() - 1]).is_err());
        let padded = [bytes, vec![0]].concat();
        assert!(decode::<(u64, String)>(&padded).is_err());
    }

    #[test]
    fn a_length_that_lies_is_refused() {
        let lie = encode(&u64::MAX).unwrap();
        assert!(decode::<Vec<u64>>(&lie).is_err());
    }
}
