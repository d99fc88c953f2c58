//! Whether a request can be read in one way only: its head, and where its body ends.
//!
//! RFC 9112 lets a server forgive much that two programs on a request's way may forgive differently: bare
//! line feeds, a length beside chunks, repeated lengths. Here nothing of that is forgiven.

use std::mem::MaybeUninit;

use http::StatusCode;
use memchr::memchr;

/// The most headers a request may have.
const MAX_HEADERS: usize = 100;
/// The longest body that may be stated. More does not fit into signed numbers; hyper answers it without words.
const MAX_LENGTH: u64 = i64::MAX as u64;
/// Hexadecimal digits of a chunk's size: what fits into 64 bits.
const MAX_SIZE_DIGITS: u8 = 16;
/// Bytes of a chunk's extension, and of all trailers.
const MAX_EXTRA_BYTES: usize = 16 << 10;

/// Why a request is not taken, in words for its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadHead {
    /// 400, 408 or 431.
    pub status: StatusCode,
    /// What to change.
    pub message: &'static str,
}

impl BadHead {
    const fn bad(message: &'static str) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            message,
        }
    }

    pub(super) const TOO_LARGE: Self = Self {
        status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        message: "the request's line and headers are too large: 64 KiB and 100 headers are the limit",
    };

    pub(super) const LATE: Self = Self {
        status: StatusCode::REQUEST_TIMEOUT,
        message: "the request's head did not arrive in time",
    };
}

/// Looks for the end of a head in bytes that grow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeadEnd {
    /// Behind the last line that was looked at.
    line: usize,
}

impl HeadEnd {
    /// How long the head is, empty line included; `None` while it is not whole.
    pub(super) fn find(&mut self, bytes: &[u8]) -> Result<Option<usize>, BadHead> {
        if !bytes
            .first()
            .is_none_or(|first| first.is_ascii_graphic() || *first == b'\r')
        {
            return Err(BadHead::bad(
                "this is no HTTP: a TLS client at a port without TLS?",
            ));
        }
        while let Some(feed) = memchr(b'\n', &bytes[self.line..]) {
            let (begin, end) = (self.line, self.line + feed);
            if end == begin || bytes[end - 1] != b'\r' {
                return Err(BadHead::bad(
                    "a line of the request's head does not end with CR LF",
                ));
            }
            self.line = end + 1;
            if end == begin + 1 {
                return Ok(Some(self.line));
            }
        }
        Ok(None)
    }
}

/// Empty lines before a request, which old clients send behind a body.
pub(super) fn empty_lines(bytes: &[u8]) -> usize {
    let lines = bytes.chunks_exact(2).take_while(|line| line == b"\r\n");
    lines.count() * 2
}

/// What follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// So many bytes.
    Length(u64),
    /// Chunks.
    Chunks(Chunk),
}

/// Judges a whole head.
pub(super) fn judge(head: &[u8]) -> Result<Body, BadHead> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(head, &mut headers) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => {
            return Err(BadHead::bad("the request's head breaks off"));
        }
        Err(httparse::Error::TooManyHeaders) => return Err(BadHead::TOO_LARGE),
        Err(_) => {
            return Err(BadHead::bad(
                "the request's head is not well-formed HTTP/1.1",
            ));
        }
    }
    if request
        .path
        .is_none_or(|path| path.parse::<http::Uri>().is_err())
    {
        return Err(BadHead::bad(
            "the request's target is not a valid URL or path",
        ));
    }
    let is_11 = request.version == Some(1);
    let of = |name: &'static str| {
        let named = request.headers.iter();
        named.filter(move |header| header.name.eq_ignore_ascii_case(name))
    };
    let only = |name: &'static str, twice: &'static str| {
        let mut found = of(name);
        match (found.next(), found.next()) {
            (_, Some(_)) => Err(BadHead::bad(twice)),
            (first, None) => Ok(first.map(|header| header.value.trim_ascii())),
        }
    };
    match only("host", "the request has two Host headers")? {
        None if is_11 => return Err(BadHead::bad("the request has no Host header")),
        Some(host) if !host.is_empty() && http::uri::Authority::try_from(host).is_err() => {
            return Err(BadHead::bad("the Host header is no host"));
        }
        Some(_) | None => {}
    }
    let length = only(
        "content-length",
        "the request has two Content-Length headers",
    )?;
    let encoding = only(
        "transfer-encoding",
        "the request has two Transfer-Encoding headers",
    )?;
    match (length, encoding) {
        (Some(_), Some(_)) => Err(BadHead::bad(
            "the request has both Content-Length and Transfer-Encoding",
        )),
        (None, Some(coding)) if is_11 && coding.eq_ignore_ascii_case(b"chunked") => {
            Ok(Body::Chunks(Chunk::default()))
        }
        (None, Some(_)) => Err(BadHead::bad(
            "Transfer-Encoding may only be \"chunked\", and only in HTTP/1.1",
        )),
        (Some(length), None) => digits(length)
            .map(Body::Length)
            .ok_or(BadHead::bad("Content-Length is not a number of bytes")),
        (None, None) => Ok(Body::Length(0)),
    }
}

/// Digits only: no sign, no list, and no more than any program on the way can count.
fn digits(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = is_number.then(|| std::str::from_utf8(text).ok())??;
    text.parse().ok().filter(|length| *length <= MAX_LENGTH)
}

impl Body {
    /// How many of these bytes belong to it.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<usize, BadHead> {
        match self {
            Self::Length(left) => {
                let taken =
                    usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= taken as u64;
                Ok(taken)
            }
            Self::Chunks(chunk) => chunk.take(bytes),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(
            self,
            Self::Length(0) | Self::Chunks(Chunk { at: At::End, .. })
        )
    }
}

/// Where in a chunked body we are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Chunk {
    at: At,
    size: u64,
    digits: u8,
    /// Bytes of extensions and trailers so far.
    extra: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Size,
    Extension,
    SizeFeed,
    Data,
    DataReturn,
    DataFeed,
    /// The first byte of a trailer's line.
    Line,
    Trailer,
    TrailerFeed,
    LastFeed,
    End,
}

impl Chunk {
    fn take(&mut self, bytes: &[u8]) -> Result<usize, BadHead> {
        let mut taken = 0;
        while taken < bytes.len() && self.at != At::End {
            if self.at == At::Data {
                let left = &bytes[taken..];
                let part = usize::try_from(self.size).map_or(left.len(), |s| s.min(left.len()));
                self.size -= part as u64;
                taken += part;
                if self.size == 0 {
                    self.at = At::DataReturn;
                }
            } else {
                self.at = self.next(bytes[taken])?;
                taken += 1;
            }
        }
        Ok(taken)
    }

    fn next(&mut self, byte: u8) -> Result<At, BadHead> {
        const BAD: BadHead = BadHead::bad("the body is badly framed");
        if matches!(self.at, At::Extension | At::Line | At::Trailer) {
            self.extra += 1;
            if self.extra > MAX_EXTRA_BYTES {
                return Err(BAD);
            }
        }
        Ok(match (self.at, byte) {
            (At::Size, b'\r') if self.digits > 0 => At::SizeFeed,
            (At::Size, b';') if self.digits > 0 => At::Extension,
            (At::Size, digit) => {
                let value = char::from(digit).to_digit(16).ok_or(BAD)?;
                self.digits += 1;
                if self.digits > MAX_SIZE_DIGITS {
                    return Err(BAD);
                }
                self.size = (self.size << 4) | u64::from(value);
                At::Size
            }
            (At::Extension, b'\r') => At::SizeFeed,
            (At::Extension, b'\n' | 0) => return Err(BAD),
            (At::Extension, _) => At::Extension,
            (At::SizeFeed, b'\n') => {
                self.digits = 0;
                if self.size == 0 { At::Line } else { At::Data }
            }
            (At::DataReturn, b'\r') => At::DataFeed,
            (At::DataFeed, b'\n') => At::Size,
            (At::Line, b'\r') => At::LastFeed,
            (At::Trailer, b'\r') => At::TrailerFeed,
            (At::Line | At::Trailer, b'\n' | 0) => return Err(BAD),
            (At::Line | At::Trailer, _) => At::Trailer,
            (At::TrailerFeed, b'\n') => At::Line,
            (At::LastFeed, b'\n') => At::End,
            _ => return Err(BAD),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(lines: &str) -> Result<Body, BadHead> {
        let head = format!("POST /v1 HTTP/1.1\r\nhost: x\r\n{lines}\r\n");
        assert_eq!(
            HeadEnd::default().find(head.as_bytes()),
            Ok(Some(head.len()))
        );
        judge(head.as_bytes())
    }

    #[test]
    fn what_can_be_read_in_one_way_is_taken() {
        assert_eq!(body(""), Ok(Body::Length(0)));
        assert_eq!(body("content-length: 12\r\n"), Ok(Body::Length(12)));
        assert_eq!(
            body("Transfer-Encoding: Chunked\r\n"),
            Ok(Body::Chunks(Chunk::default()))
        );
        assert_eq!(judge(b"GET / HTTP/1.0\r\n\r\n"), Ok(Body::Length(0)));
        assert_eq!(
            judge(b"GET http://a/b HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"),
            Ok(Body::Length(0))
        );
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_not() {
        for lines in [
            "host: y\r\n",
            "content-length: 1\r\ncontent-length: 1\r\n",
            "content-length: 1, 1\r\n",
            "content-length: +1\r\n",
            "content-length: 18446744073709551616\r\n",
            "content-length: 18446744073709551615\r\n",
            "content-length: 9223372036854775808\r\n",
            "content-length:\r\n",
            "content-length: 1\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: chunked, chunked\r\n",
            "transfer-encoding: gzip, chunked\r\n",
            "transfer-encoding: identity\r\n",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: \u{b}chunked\r\n",
            "content-length : 1\r\n",
            " folded: 1\r\n",
            "x-a: 1\r\n folded\r\n",
            ": nameless\r\n",
            "x-a: \0\r\n",
        ] {
            let refused = body(lines).map_err(|malformed| malformed.status.as_u16());
            assert_eq!(refused, Err(400), "{lines:?}");
        }
        for head in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a b\r\n\r\n",
            "GET  / HTTP/1.1\r\nhost: x\r\n\r\n",
            "GET / HTTP/2.0\r\nhost: x\r\n\r\n",
            "GET /\r\nhost: x\r\n\r\n",
            "POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n",
        ] {
            assert!(judge(head.as_bytes()).is_err(), "{head:?}");
        }
        let many = "x: 1\r\n".repeat(MAX_HEADERS + 1);
        assert_eq!(body(&many), Err(BadHead::TOO_LARGE));
    }

    #[test]
    fn a_head_ends_wherever_the_network_cuts_it() {
        let head = b"GET / HTTP/1.1\r\nhost: x\r\n\r\nGET";
        for cut in 0..head.len() {
            let mut end = HeadEnd::default();
            let first = end.find(&head[..cut]).unwrap();
            assert_eq!(first, (cut >= 27).then_some(27), "{cut}");
            if first.is_none() {
                assert_eq!(end.find(head).unwrap(), Some(27), "{cut}");
            }
        }
        for bare in [
            "GET / HTTP/1.1\n\n",
            "GET / HTTP/1.1\r\nhost: x\n\r\n",
            "\n",
        ] {
            assert!(
                HeadEnd::default().find(bare.as_bytes()).is_err(),
                "{bare:?}"
            );
        }
        assert_eq!(empty_lines(b"\r\n\r\nGET"), 4);
    }

    #[test]
    fn a_chunked_body_ends_wherever_the_network_cuts_it() {
        let body = b"4\r\nabcd\r\n1e;name=\"v\"\r\n0123456789012345678901234567\r\n\r\n0\r\nx-t: 1\r\n\r\nGET";
        let whole = body.len() - 3;
        for cut in 0..body.len() {
            let mut chunks = Body::Chunks(Chunk::default());
            let first = chunks.take(&body[..cut]).unwrap();
            assert_eq!(first, cut.min(whole));
            let second = chunks.take(&body[first..]).unwrap();
            assert_eq!(first + second, whole, "{cut}");
            assert!(chunks.is_over());
        }
    }

    #[test]
    fn odd_chunks_are_refused() {
        for body in [
            "\r\n",
            "g\r\n",
            "-1\r\n",
            "0x1\r\n",
            " 1\r\n",
            "1 \r\n",
            "1\n",
            "1\r\r",
            "1\r\nab",
            "1\r\na\n",
            "1;x\n",
            "fffffffffffffffff\r\n",
            "0\r\nx\n",
            "0\r\n\n",
            "0\r\n\r\r",
        ] {
            let mut chunks = Body::Chunks(Chunk::default());
            assert!(chunks.take(body.as_bytes()).is_err(), "{body:?}");
        }
        let endless = format!("0\r\n{}", "x".repeat(MAX_EXTRA_BYTES + 1));
        assert!(
            Body::Chunks(Chunk::default())
                .take(endless.as_bytes())
                .is_err()
        );
    }
}
