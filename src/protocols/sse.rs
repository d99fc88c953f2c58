//! Reads server-sent events from bytes, however the network cut them.
//!
//! Lines may end in LF, CRLF or CR; comments and unknown fields are dropped; an event that the end of
//! the stream cuts short of its blank line still counts if its line is whole. Where the blank line between
//! two events is missing, data that is whole by itself ends its event. Bytes are never decoded: a character
//! may be cut anywhere.

use bytes::{Bytes, BytesMut};

/// One event longer than this is an attack.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// One event of a stream, whatever its framing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The data: JSON, or a mark such as `[DONE]`. Lines are joined by LF.
    pub data: Bytes,
    /// Its `event:` name or `:event-type`, where it has one.
    pub name: Option<Bytes>,
    /// As server-sent event for a client, its blank line included. Empty where the framing is another.
    pub wire: Bytes,
    /// The framing itself says that it is an error: `name` is then its type.
    pub exception: bool,
}

impl Event {
    /// Its name as text; empty where it has none.
    #[must_use]
    pub fn kind(&self) -> &str {
        let name = self.name.as_deref().unwrap_or_default();
        std::str::from_utf8(name).unwrap_or_default()
    }

    /// Whether its name says that it tells of an error.
    #[must_use]
    pub fn is_named_error(&self) -> bool {
        self.name.as_deref() == Some(b"error")
    }
}

/// An event grew beyond all reason.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is longer than {MAX_EVENT_BYTES} bytes")]
pub struct TooLong;

/// The reader's state between two reads of the socket.
#[derive(Debug, Default)]
pub struct SseReader {
    buffer: BytesMut,
    /// Up to here `buffer` holds no end of an event.
    scanned: usize,
    /// Where the line under way begins.
    line: usize,
    /// What the lines before it were.
    lines: Lines,
    started: bool,
}

/// The lines of an event so far.
#[derive(Clone, Copy, Debug, Default)]
struct Lines {
    data: Data,
    named: bool,
}

/// The data of an event so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Data {
    #[default]
    None,
    /// One line of it, which is JSON or a mark by itself.
    Whole,
    /// Any other.
    Part,
}

/// How the next line begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    Data,
    Name,
    Other,
    /// Too little of it is here.
    Unknown,
}

impl SseReader {
    /// Takes in what came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        const MARK: &[u8] = b"\xef\xbb\xbf";
        if !self.started && self.buffer.len() >= MARK.len() {
            self.started = true;
            if self.buffer.starts_with(MARK) {
                let _ = self.buffer.split_to(MARK.len());
            }
        }
    }

    /// The next whole event that has data.
    ///
    /// # Errors
    /// When the event under way is longer than any that is meant.
    pub fn next_event(&mut self) -> Result<Option<Event>, TooLong> {
        while let Some(end) = self.find_end() {
            let block = self.buffer.split_to(end).freeze();
            self.begin_event();
            // A mark that comes later is no start of the stream.
            self.started = true;
            if let Some(event) = parse(&block) {
                return Ok(Some(event));
            }
        }
        if self.buffer.len() > MAX_EVENT_BYTES {
            return Err(TooLong);
        }
        Ok(None)
    }

    /// What is left when the stream is over: an event without its blank line.
    pub fn last(&mut self) -> Option<Event> {
        let rest = self.buffer.split().freeze();
        self.begin_event();
        if !rest.ends_with(b"\n") && !rest.ends_with(b"\r") {
            // A line cut in the middle: only a mark that is whole by itself is believed.
            let start = memchr::memrchr2(b'\n', b'\r', &rest).map_or(0, |at| at + 1);
            if rest[start..].trim_ascii() != b"data: [DONE]" && rest[start..] != *b"data:[DONE]" {
                return parse(&rest.slice(..start));
            }
        }
        parse(&rest)
    }

    const fn begin_event(&mut self) {
        (self.scanned, self.line) = (0, 0);
        self.lines = Lines {
            data: Data::None,
            named: false,
        };
    }

    /// Where the first event ends: behind two line ends in a row, or before a line that begins another.
    fn find_end(&mut self) -> Option<usize> {
        let text = &self.buffer[..];
        let mut at = self.scanned;
        while let Some(found) = memchr::memchr2(b'\n', b'\r', &text[at..]) {
            let line_end = at + found;
            let Some(after_first) = after_line_end(text, line_end) else {
                break;
            };
            match text.get(after_first) {
                None => {
                    self.scanned = line_end;
                    return None;
                }
                Some(b'\n' | b'\r') => {
                    if let Some(end) = after_line_end(text, after_first) {
                        return Some(end);
                    }
                    self.scanned = line_end;
                    return None;
                }
                Some(_) => {}
            }
            let lines = self.lines.and(&text[self.line..line_end]);
            match lines.end_before(begins(&text[after_first..])) {
                None => {
                    self.scanned = line_end;
                    return None;
                }
                Some(true) => return Some(after_first),
                Some(false) => {}
            }
            self.lines = lines;
            (at, self.line) = (after_first, after_first);
        }
        self.scanned = at;
        None
    }
}

impl Lines {
    /// With one more.
    fn and(self, line: &[u8]) -> Self {
        let Some(value) = field(line, b"data") else {
            return Self {
                named: self.named || field(line, b"event").is_some(),
                ..self
            };
        };
        let data = match self.data {
            Data::None if is_whole(value) => Data::Whole,
            Data::None | Data::Whole | Data::Part => Data::Part,
        };
        Self { data, ..self }
    }

    /// Whether the event ends where a line begins like this, though no blank line says so. None where
    /// that cannot be told yet.
    fn end_before(self, next: Begins) -> Option<bool> {
        match (self.data, next) {
            (Data::Whole, Begins::Data) => Some(true),
            (Data::Whole, Begins::Name) => Some(self.named),
            (Data::Whole, Begins::Unknown) => None,
            (Data::Whole, Begins::Other) | (Data::None | Data::Part, _) => Some(false),
        }
    }
}

fn begins(line: &[u8]) -> Begins {
    const STARTS: [(&[u8], Begins); 6] = [
        (b"data:", Begins::Data),
        (b"data\n", Begins::Data),
        (b"data\r", Begins::Data),
        (b"event:", Begins::Name),
        (b"event\n", Begins::Name),
        (b"event\r", Begins::Name),
    ];
    let found = STARTS.iter().find(|(start, _)| line.starts_with(start));
    match found {
        Some((_, begins)) => *begins,
        None if STARTS.iter().any(|(start, _)| start.starts_with(line)) => Begins::Unknown,
        None => Begins::Other,
    }
}

/// Whether a line of data needs no other: a JSON object, or the mark of the end.
fn is_whole(value: &[u8]) -> bool {
    let value = value.trim_ascii();
    let is_object = || value.starts_with(b"{") && value.ends_with(b"}");
    value == b"[DONE]"
        || (is_object() && serde_json::from_slice::<serde::de::IgnoredAny>(value).is_ok())
}

/// A body that should have been events, without the comments in it.
pub fn without_comments(body: &[u8]) -> Vec<u8> {
    let lines = body.split(|byte| *byte == b'\n');
    let kept: Vec<&[u8]> = lines.filter(|line| !line.starts_with(b":")).collect();
    kept.join(&b'\n')
}

/// Behind the line end that starts at `at`; nothing while a CR may yet be half of a CRLF.
fn after_line_end(text: &[u8], at: usize) -> Option<usize> {
    match (text[at], text.get(at + 1)) {
        (b'\r', Some(b'\n')) => Some(at + 2),
        (b'\r', None) => None,
        _ => Some(at + 1),
    }
}

fn parse(block: &Bytes) -> Option<Event> {
    if let Some(event) = parse_plain(block) {
        return Some(event);
    }
    let (mut data, mut name): (Option<BytesMut>, Option<Bytes>) = (None, None);
    for line in block.split(|b| *b == b'\n' || *b == b'\r') {
        if let Some(value) = field(line, b"data") {
            let joined = data.get_or_insert_default();
            if !joined.is_empty() {
                joined.extend_from_slice(b"\n");
            }
            joined.extend_from_slice(value);
        } else if let Some(value) = field(line, b"event") {
            name = Some(block.slice_ref(value));
        }
    }
    let data = data?.freeze();
    let mut wire = BytesMut::with_capacity(data.len() + 32);
    if let Some(name) = &name {
        wire.extend_from_slice(b"event: ");
        wire.extend_from_slice(name);
        wire.extend_from_slice(b"\n");
    }
    for line in data.split(|b| *b == b'\n') {
        wire.extend_from_slice(b"data: ");
        wire.extend_from_slice(line);
        wire.extend_from_slice(b"\n");
    }
    wire.extend_from_slice(b"\n");
    Some(Event {
        data,
        name,
        wire: wire.freeze(),
        exception: false,
    })
}

/// The usual form, which needs no copy: one line `data: …` and its blank line, both with LF.
fn parse_plain(block: &Bytes) -> Option<Event> {
    let line = block.strip_prefix(b"data: ")?.strip_suffix(b"\n\n")?;
    if memchr::memchr2(b'\n', b'\r', line).is_some() {
        return None;
    }
    Some(Event {
        data: block.slice_ref(line),
        name: None,
        wire: block.clone(),
        exception: false,
    })
}

/// The value of a line of this field, without the one blank that may stand before it.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(name)?;
    let Some(value) = rest.strip_prefix(b":") else {
        return rest.is_empty().then_some(rest);
    };
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(parts: &[&[u8]]) -> Vec<(Option<String>, String)> {
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        let mut reader = SseReader::default();
        let mut events = Vec::new();
        for part in parts {
            reader.push(part);
            while let Some(event) = reader.next_event().unwrap() {
                events.push(event);
            }
        }
        events.extend(reader.last());
        events
            .iter()
            .map(|e| (e.name.as_ref().map(text), text(&e.data)))
            .collect()
    }

    fn data(parts: &[&[u8]]) -> Vec<String> {
        read(parts).into_iter().map(|(_, data)| data).collect()
    }

    #[test]
    fn every_legal_way_to_write_events_is_read() {
        let cases: [(&str, &[&str]); 9] = [
            ("data: a\n\ndata: b\n\n", &["a", "b"]),
            (": hi\n\n:\n\ndata: a\n\n", &["a"]),
            (": hi\ndata: a\n\n", &["a"]),
            ("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]),
            ("data: a\r\rdata: b\r\r", &["a", "b"]),
            ("data:a\n\n", &["a"]),
            ("id: 7\nretry: 10\ndata: a\n\n", &["a"]),
            ("data: a\ndata: b\n\n", &["a\nb"]),
            ("\u{feff}data: a\n\ndata: b\n", &["a", "b"]),
        ];
        for (wire, expected) in cases {
            assert_eq!(data(&[wire.as_bytes()]), expected, "{wire:?}");
        }
        let named = read(&[b"event: error\ndata: x\n\n"]);
        assert_eq!(named, [(Some("error".to_owned()), "x".to_owned())]);
    }

    #[test]
    fn a_byte_order_mark_is_one_at_the_start_only() {
        let late = b"\n\n\xef\xbb\xbfdata: a\n\n";
        assert_eq!(data(&[late]), data(&[&late[..2], &late[2..]]));
    }

    #[test]
    fn a_missing_blank_line_joins_no_two_events() {
        let cases: [(&str, &[&str]); 8] = [
            (
                "data: {}\ndata: {\"a\":1}\ndata: [DONE]\n",
                &["{}", "{\"a\":1}", "[DONE]"],
            ),
            ("data: {}\r\ndata:{}\r\n\r\n", &["{}", "{}"]),
            ("data: {}\n: hi\ndata: {}\n\n", &["{}", "{}"]),
            (
                "event: a\ndata: {}\nevent: b\ndata: {\"b\":1}\n",
                &["{}", "{\"b\":1}"],
            ),
            // JSON over several lines, and a name behind the data, are as they should be.
            (
                "data: {\ndata: \"a\": {}\ndata: }\n\n",
                &["{\n\"a\": {}\n}"],
            ),
            ("data: {\"a\":\ndata: {}\ndata: }\n\n", &["{\"a\":\n{}\n}"]),
            ("data: {}\nevent: a\n\n", &["{}"]),
            ("data: one\ndata: {}\n\n", &["one\n{}"]),
        ];
        for (wire, expected) in cases {
            assert_eq!(data(&[wire.as_bytes()]), expected, "{wire:?}");
            let bytes: Vec<&[u8]> = wire.as_bytes().chunks(1).collect();
            assert_eq!(data(&bytes), expected, "{wire:?} by bytes");
        }
        let named = read(&[b"event: a\ndata: {}\nevent: b\ndata: {}\n"]);
        let names: Vec<_> = named.iter().map(|(name, _)| name.as_deref()).collect();
        assert_eq!(names, [Some("a"), Some("b")]);
        assert_eq!(
            read(&[b"data: {}\nevent: a\n\n"])[0].0.as_deref(),
            Some("a")
        );
    }

    #[test]
    fn nothing_follows_the_last_event() {
        for end in [
            "data: {\"a\":1}",
            "data: {\"a\":1}\n",
            "data: {\"a\":1}\nid: 1\n",
            "\n",
        ] {
            let mut reader = SseReader::default();
            reader.push(end.as_bytes());
            assert_eq!(reader.next_event(), Ok(None), "{end:?}");
            let _ = reader.last();
            assert_eq!(
                (reader.next_event(), reader.last()),
                (Ok(None), None),
                "{end:?}"
            );
        }
    }

    #[test]
    fn a_line_cut_short_by_the_end_is_no_event() {
        assert_eq!(data(&[b"data: a\n\ndata: {\"b\""]), ["a"]);
        assert_eq!(data(&[b"data: a\n\ndata: [DONE]"]), ["a", "[DONE]"]);
        assert_eq!(data(&[b"data: [DONE]\n"]), ["[DONE]"]);
    }

    #[test]
    fn what_goes_to_the_client_is_in_the_usual_form() {
        let mut reader = SseReader::default();
        reader.push(b": c\r\nevent: x\r\ndata:a\r\ndata: b\r\n\r\ndata: plain\n\n");
        let first = reader.next_event().unwrap().unwrap();
        assert_eq!(first.wire, "event: x\ndata: a\ndata: b\n\n");
        assert_eq!(
            reader.next_event().unwrap().unwrap().wire,
            "data: plain\n\n"
        );
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut reader = SseReader::default();
        reader.push(&vec![b'x'; MAX_EVENT_BYTES + 1]);
        assert_eq!(reader.next_event(), Err(TooLong));
    }

    proptest! {
        /// Cuts change nothing.
        #[test]
        fn cuts_change_nothing(
            lines in prop::collection::vec("(data: ?([a-zé🦀]{0,4}|\\{\\}|\\[DONE\\])|data|event: x|id: 1|: c|)(\n|\r\n|\r)", 0..20),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let text = lines.concat();
            let mut places: Vec<usize> = cuts.iter().map(|c| c.index(text.len() + 1)).collect();
            places.push(0);
            places.push(text.len());
            places.sort_unstable();
            let parts: Vec<&[u8]> = places.windows(2).map(|w| &text.as_bytes()[w[0]..w[1]]).collect();
            prop_assert_eq!(read(&parts), read(&[text.as_bytes()]));
        }
    }
}
