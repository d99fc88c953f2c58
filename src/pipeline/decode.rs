//! Unpacks answers that a provider compressed although nobody asked.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::{MultiGzDecoder, ZlibDecoder};
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, HeaderValue};

/// The most that one piece of an answer may unpack to: more is a bomb.
const MAX_UNPACKED_BYTES: usize = 16 << 20;

/// Bytes in as they come, plain bytes out.
pub(super) enum Decoder {
    /// Nothing to do.
    Plain,
    /// gzip.
    Gzip(Box<MultiGzDecoder<Unpacked>>),
    /// deflate, which is zlib's format.
    Zlib(Box<ZlibDecoder<Unpacked>>),
    /// An encoding that is not known.
    Unknown,
}

impl Decoder {
    /// For an answer with these headers.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let encoding = headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes);
        let encoding = encoding.unwrap_or_default().trim_ascii();
        match encoding.to_ascii_lowercase().as_slice() {
            b"" | b"identity" => Self::Plain,
            b"gzip" | b"x-gzip" => Self::Gzip(Box::new(MultiGzDecoder::new(Unpacked::default()))),
            b"deflate" => Self::Zlib(Box::new(ZlibDecoder::new(Unpacked::default()))),
            _ => Self::Unknown,
        }
    }

    /// The plain bytes of these.
    pub(super) fn decode(&mut self, data: Bytes) -> io::Result<Bytes> {
        match self {
            Self::Plain => Ok(data),
            Self::Gzip(decoder) => {
                decoder.write_all(&data)?;
                decoder.flush()?;
                Ok(std::mem::take(&mut decoder.get_mut().0).into())
            }
            Self::Zlib(decoder) => {
                decoder.write_all(&data)?;
                decoder.flush()?;
                Ok(std::mem::take(&mut decoder.get_mut().0).into())
            }
            Self::Unknown => Err(io::Error::other("its content-encoding is not known")),
        }
    }
}

/// What came out and was not taken yet; bounded.
#[derive(Default)]
pub(super) struct Unpacked(Vec<u8>);

impl Write for Unpacked {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.0.len() + data.len() > MAX_UNPACKED_BYTES {
            let message = format!(
                "a piece of it unpacks to more than {} MB",
                MAX_UNPACKED_BYTES >> 20
            );
            return Err(io::Error::other(message));
        }
        self.0.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;

    fn headers(encoding: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(encoding))])
    }

    #[test]
    fn gzip_is_unpacked_byte_by_byte() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(b"data: one\n\n").unwrap();
        encoder.flush().unwrap();
        encoder.write_all(b"data: two\n\n").unwrap();
        let packed = encoder.finish().unwrap();
        for name in ["gzip", "x-gzip", "GZIP", " gzip "] {
            assert_eq!(unpacked(name, &packed), b"data: one\n\ndata: two\n\n");
        }
    }

    #[test]
    fn so_is_deflate() {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(b"data: one\n\n").unwrap();
        let packed = encoder.finish().unwrap();
        assert_eq!(unpacked("deflate", &packed), b"data: one\n\n");
    }

    fn unpacked(name: &'static str, packed: &[u8]) -> Vec<u8> {
        let mut decoder = Decoder::of(&headers(name));
        let mut plain = Vec::new();
        for byte in packed {
            plain.extend(decoder.decode(Bytes::copy_from_slice(&[*byte])).unwrap());
        }
        plain
    }

    #[test]
    fn a_bomb_is_refused() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        for _ in 0..=MAX_UNPACKED_BYTES >> 20 {
            encoder.write_all(&vec![0; 1 << 20]).unwrap();
        }
        let packed = encoder.finish().unwrap();
        assert!(
            packed.len() < 400 << 10,
            "small enough to come as one piece"
        );
        assert!(Decoder::of(&headers("gzip")).decode(packed.into()).is_err());
    }

    #[test]
    fn other_encodings_are_refused_and_none_costs_nothing() {
        assert!(
            Decoder::of(&headers("br"))
                .decode(Bytes::from_static(b"x"))
                .is_err()
        );
        let mut plain = Decoder::of(&HeaderMap::new());
        assert_eq!(plain.decode(Bytes::from_static(b"x")).unwrap(), "x");
    }
}
