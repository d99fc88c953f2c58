//! Unpacks answers that a provider compressed although nobody asked.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

/// Bytes in as they come, plain bytes out.
pub(super) enum Decoder {
    /// Nothing to do.
    Plain,
    /// gzip.
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    /// An encoding that is not known.
    Unknown,
}

impl Decoder {
    /// For an answer with these headers.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let encoding = headers
            .get(CONTENT_ENCODING)
            .map(|v| v.as_bytes().trim_ascii());
        match encoding {
            None | Some(b"" | b"identity") => Self::Plain,
            Some(b"gzip" | b"x-gzip") => Self::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))),
            Some(_) => Self::Unknown,
        }
    }

    /// The plain bytes of these.
    pub(super) fn decode(&mut self, data: Bytes) -> io::Result<Bytes> {
        match self {
            Self::Plain => Ok(data),
            Self::Gzip(decoder) => {
                decoder.write_all(&data)?;
                decoder.flush()?;
                Ok(std::mem::take(decoder.get_mut()).into())
            }
            Self::Unknown => Err(io::Error::other("its content-encoding is not known")),
        }
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http::HeaderValue;

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
        let mut decoder = Decoder::of(&headers("gzip"));
        let mut plain = Vec::new();
        for byte in packed {
            plain.extend(decoder.decode(Bytes::copy_from_slice(&[byte])).unwrap());
        }
        assert_eq!(plain, b"data: one\n\ndata: two\n\n");
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
