//! The only place that knows how messages become bytes: a version byte, then bincode.
//!
//! Decoding is bounded, refuses trailing bytes and other versions, and never panics.

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Raised when a message or record changes its shape.
const VERSION: u8 = 1;

/// The largest RPC message: a table of some 100,000 records.
pub(crate) const MESSAGE_LIMIT: usize = 64 << 20;

/// The largest value in gossip. Records are under 600 bytes.
pub(crate) const GOSSIP_LIMIT: usize = 4 << 10;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CodecError {
    #[error("the message is empty or too large")]
    Size,
    #[error("the message has version {0}, not {VERSION}")]
    Version(u8),
    #[error("the message makes no sense")]
    Malformed,
    #[error("the message goes on after its end")]
    Trailing,
}

/// Bytes for the wire, at most `LIMIT` of them.
pub(crate) fn encode<const LIMIT: usize>(message: &impl Serialize) -> Result<Vec<u8>, CodecError> {
    let mut bytes = vec![VERSION];
    let mut body =
        bincode::serde::encode_to_vec(message, config::<LIMIT>()).map_err(|_| CodecError::Size)?;
    bytes.append(&mut body);
    if bytes.len() > LIMIT {
        return Err(CodecError::Size);
    }
    Ok(bytes)
}

/// The message in these bytes, all of them.
pub(crate) fn decode<M: DeserializeOwned, const LIMIT: usize>(
    bytes: &[u8],
) -> Result<M, CodecError> {
    if bytes.len() > LIMIT {
        return Err(CodecError::Size);
    }
    let (&version, body) = bytes.split_first().ok_or(CodecError::Size)?;
    if version != VERSION {
        return Err(CodecError::Version(version));
    }
    let (message, read) = bincode::serde::decode_from_slice(body, config::<LIMIT>())
        .map_err(|_| CodecError::Malformed)?;
    if read < body.len() {
        return Err(CodecError::Trailing);
    }
    Ok(message)
}

const fn config<const LIMIT: usize>() -> Configuration<LittleEndian, Varint, Limit<LIMIT>> {
    bincode::config::standard().with_limit::<LIMIT>()
}
