//! Between the socket and hyper: passes on nothing but requests that can be read in one way only.
//!
//! hyper forgives more than a gateway in a chain of proxies should, and answers what it does not forgive
//! without words. So heads are judged before it sees them. In the place of one that is refused it gets a
//! stand-in, in turn behind the requests before it, and the service finds a [`BadHead`] on that: the
//! refusal is an answer like any other. Nothing behind it on the connection is read.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Request;
use hyper::service::Service;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::head::{BadHead, Body, HeadEnd, empty_lines, judge};

/// What hyper reads in the place of a head that is refused. Others may send it too, to no effect.
const STAND_IN: &[u8] = b"REFUSED / HTTP/1.1\r\nconnection: close\r\n\r\n";
const STAND_IN_METHOD: &str = "REFUSED";

/// Why the connection's last request is refused, once it is.
pub(super) type Refusal = Arc<OnceLock<BadHead>>;

/// What a head may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadLimits {
    pub(super) bytes: usize,
    /// From its first byte to its last.
    pub(super) time: Duration,
}

/// A socket's requests, judged.
#[derive(Debug)]
pub(super) struct Strict<S> {
    socket: S,
    limits: HeadLimits,
    refusal: Refusal,
    state: State,
    /// Read, not passed on yet.
    held: Vec<u8>,
    /// Runs while a head is incomplete.
    late: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug)]
enum State {
    Head(HeadEnd),
    /// So many bytes of a head that is held, then its body.
    Message(usize, Body),
    /// So many bytes of the stand-in were passed on.
    Refused(usize),
}

impl<S> Strict<S> {
    pub(super) fn new(socket: S, limits: HeadLimits, refusal: Refusal) -> Self {
        Self {
            socket,
            limits,
            refusal,
            state: State::Head(HeadEnd::default()),
            held: Vec::new(),
            late: None,
        }
    }

    fn refuse(&mut self, bad: BadHead) {
        // Only set once: nothing is judged afterwards.
        let _ = self.refusal.set(bad);
        self.held = Vec::new();
        self.late = None;
        self.state = State::Refused(0);
    }

    /// Judges the head in hand, if it is whole.
    fn look(&mut self, mut end: HeadEnd) {
        let found = end.find(&self.held);
        let beyond = |length: usize| length > self.limits.bytes;
        match found {
            Ok(Some(length)) if !beyond(length) => match judge(&self.held[..length]) {
                Ok(body) => {
                    self.late = None;
                    self.state = State::Message(length, body);
                }
                Err(bad) => self.refuse(bad),
            },
            Ok(None) if !beyond(self.held.len()) => self.state = State::Head(end),
            Ok(Some(_) | None) => self.refuse(BadHead::TOO_LARGE),
            Err(bad) => self.refuse(bad),
        }
    }

    /// Passes on what is held of this message.
    fn pass(&mut self, out: &mut ReadBuf<'_>) -> io::Result<()> {
        let State::Message(head, body) = &mut self.state else {
            return Ok(());
        };
        let room = self.held.len().min(out.remaining());
        let of_head = room.min(*head);
        *head -= of_head;
        // The head goes first: a body that is badly framed is then the fault of a request that is known.
        let of_body = if of_head == 0 {
            body.take(&self.held[..room]).map_err(broken)?
        } else {
            0
        };
        out.put_slice(&self.held[..of_head + of_body]);
        self.held.drain(..of_head + of_body);
        self.end_message();
        Ok(())
    }

    fn end_message(&mut self) {
        if let State::Message(0, body) = &self.state
            && body.is_over()
        {
            self.state = State::Head(HeadEnd::default());
            if self.held.is_empty() {
                // An idle connection needs no memory.
                self.held = Vec::new();
            }
        }
    }
}

impl<S: AsyncRead + Unpin> Strict<S> {
    /// More of a head. True where it goes on at once, as the end of the connection does; else it is held.
    fn read_more(
        &mut self,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<bool>> {
        let before = out.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(context, out))?;
        let new = &out.filled()[before..];
        if new.is_empty() {
            return Poll::Ready(Ok(true));
        }
        let at_once = self.held.is_empty() && new.len() <= self.limits.bytes;
        let whole = if at_once { whole(new) } else { None };
        let passed = whole.map_or(0, |(passed, body)| {
            self.state = State::Message(0, body);
            passed
        });
        self.held.extend_from_slice(&new[passed..]);
        out.set_filled(before + passed);
        self.end_message();
        Poll::Ready(Ok(passed > 0))
    }

    /// A body's bytes go through as they come; what is behind it is held.
    fn read_body(
        &mut self,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(context, out))?;
        if let State::Message(_, body) = &mut self.state {
            let new = &out.filled()[before..];
            let taken = body.take(new).map_err(broken)?;
            self.held.extend_from_slice(&new[taken..]);
            out.set_filled(before + taken);
        }
        self.end_message();
        Poll::Ready(Ok(()))
    }
}

/// How much of these bytes is a whole head, with nothing amiss in it, and what is there of its body. Most
/// requests come as one piece: they are not held.
fn whole(bytes: &[u8]) -> Option<(usize, Body)> {
    let head = HeadEnd::default().find(bytes).ok()??;
    let body = judge(&bytes[..head]).ok()?;
    let mut begun = body;
    // What is badly framed is found again when the head has gone first.
    match begun.take(&bytes[head..]) {
        Ok(taken) => Some((head + taken, begun)),
        Err(_) => Some((head, body)),
    }
}

fn broken(bad: BadHead) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, bad.message)
}

impl<S: AsyncRead + Unpin> AsyncRead for Strict<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            match &mut this.state {
                State::Refused(passed) => {
                    let left = &STAND_IN[*passed..];
                    if left.is_empty() {
                        // The end would cancel what is being answered.
                        return Poll::Pending;
                    }
                    let part = left.len().min(out.remaining());
                    out.put_slice(&left[..part]);
                    *passed += part;
                    return Poll::Ready(Ok(()));
                }
                State::Message(..) if this.held.is_empty() => {
                    return this.read_body(context, out);
                }
                State::Message(..) => return Poll::Ready(this.pass(out)),
                State::Head(end) => {
                    let end = *end;
                    if !this.held.is_empty() {
                        this.held.drain(..empty_lines(&this.held));
                        this.look(end);
                        if !matches!(this.state, State::Head(_)) {
                            continue;
                        }
                    }
                    if this.held.is_empty() {
                        this.late = None;
                    } else {
                        let limit = this.limits.time;
                        let late = this.late.get_or_insert_with(|| Box::pin(sleep(limit)));
                        if late.as_mut().poll(context).is_ready() {
                            this.refuse(BadHead::LATE);
                            continue;
                        }
                    }
                    if ready!(this.read_more(context, out))? {
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Strict<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }
}

/// Tells the service of a stand-in what it stands for.
pub(super) struct WithRefusal<S> {
    service: S,
    refusal: Refusal,
}

impl<S> WithRefusal<S> {
    pub(super) const fn new(service: S, refusal: Refusal) -> Self {
        Self { service, refusal }
    }
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for WithRefusal<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn call(&self, mut request: Request<B>) -> Self::Future {
        if request.method().as_str() == STAND_IN_METHOD
            && let Some(bad) = self.refusal.get()
        {
            request.extensions_mut().insert(*bad);
        }
        self.service.call(request)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::future::poll_fn;

    use proptest::prelude::*;

    use super::*;

    /// What came, piece by piece, then the end.
    struct Pieces(VecDeque<Vec<u8>>);

    impl AsyncRead for Pieces {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            out: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let pieces = &mut self.get_mut().0;
            if let Some(piece) = pieces.front_mut() {
                let part = piece.len().min(out.remaining());
                out.put_slice(&piece[..part]);
                piece.drain(..part);
                if piece.is_empty() {
                    pieces.pop_front();
                }
            }
            Poll::Ready(Ok(()))
        }
    }

    /// How the reading ended.
    #[derive(Debug, PartialEq, Eq)]
    enum End {
        Whole,
        Refused(BadHead),
        Broken(String),
    }

    /// What is passed on of these pieces, by reads of so many bytes.
    fn passed(pieces: VecDeque<Vec<u8>>, room: usize) -> (Vec<u8>, End) {
        let limits = HeadLimits {
            bytes: 100,
            time: Duration::from_secs(3_600),
        };
        let refusal = Refusal::default();
        let mut strict = Strict::new(Pieces(pieces), limits, Refusal::clone(&refusal));
        let mut passed = Vec::new();
        let reading = poll_fn(|context| {
            loop {
                let mut room = vec![0; room];
                let mut out = ReadBuf::new(&mut room);
                let read = Pin::new(&mut strict).poll_read(context, &mut out);
                passed.extend_from_slice(out.filled());
                match read {
                    // Only the end of the stand-in waits.
                    Poll::Pending => return Poll::Ready(End::Whole),
                    Poll::Ready(Err(error)) => return Poll::Ready(End::Broken(error.to_string())),
                    Poll::Ready(Ok(())) if out.filled().is_empty() => {
                        return Poll::Ready(End::Whole);
                    }
                    Poll::Ready(Ok(())) => {}
                }
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let end = runtime.unwrap().block_on(reading);
        (passed, refusal.get().map_or(end, |bad| End::Refused(*bad)))
    }

    fn message() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec![
            "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            "\r\n",
            "GET / HTTP/1.1\nhost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n",
            "GET /a-path-that-is-too-long-for-the-limit-of-this-test HTTP/1.1\r\nhost: a\r\nx: aaaaaaaaaaaaaaaaaaaaaaaa\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a",
        ])
    }

    proptest! {
        /// However the network cuts them and however much is asked for, the same requests are passed on and the
        /// same ones refused: no head is read in another way because it came as one piece.
        #[test]
        fn cuts_change_nothing(
            messages in prop::collection::vec(message(), 1..5),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
            room in 1..200_usize,
        ) {
            let text = messages.concat().into_bytes();
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len())).collect();
            places.extend([0, text.len()]);
            places.sort_unstable();
            places.dedup();
            let pieces = places.windows(2).map(|place| text[place[0]..place[1]].to_vec());
            let (at_once, end) = passed(VecDeque::from([text.clone()]), 8_192);
            let (in_pieces, end_in_pieces) = passed(pieces.collect(), room);
            prop_assert_eq!(&end, &end_in_pieces);
            if matches!(end, End::Broken(_)) {
                // Of a body that is badly framed, what was right may have gone on.
                prop_assert!(in_pieces.starts_with(&at_once));
            } else {
                prop_assert_eq!(at_once, in_pieces);
            }
        }
    }
}
