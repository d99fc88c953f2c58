//! Bodies on their way to a provider: whole, or a client's own that moves through as it comes.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};

/// What is sent.
pub(in crate::pipeline) enum Sent {
    /// Known as a whole: it can be sent again.
    Whole(Option<Bytes>),
    /// Read from the client as the provider takes it, once.
    Passing(Passing),
}

/// A client's body. No more of it is in memory than what one read of its socket brought.
pub(in crate::pipeline) struct Passing {
    client: Incoming,
    left: usize,
    progress: Arc<Progress>,
}

/// How far a client's body got, for who waits for the answer.
#[derive(Debug)]
pub(in crate::pipeline) struct Progress(Mutex<State>);

#[derive(Clone, Copy, Debug)]
struct State {
    moved: Instant,
    over: bool,
    broken: Option<Broken>,
}

/// Why a client's body did not get through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::pipeline) enum Broken {
    #[error("the body is larger than what is allowed")]
    TooLarge,
    #[error("the body ended early or is badly framed")]
    Client,
}

impl Passing {
    /// Of at most so many bytes.
    pub(in crate::pipeline) fn new(client: Incoming, limit: usize) -> (Self, Arc<Progress>) {
        let state = State {
            moved: Instant::now(),
            over: false,
            broken: None,
        };
        let progress = Arc::new(Progress(Mutex::new(state)));
        let passing = Self {
            client,
            left: limit,
            progress: Arc::clone(&progress),
        };
        (passing, progress)
    }

    fn poll_client(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let frame = match Pin::new(&mut self.client).poll_frame(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(frame) => frame,
        };
        let mut state = self.progress.lock();
        state.moved = Instant::now();
        let broken = match frame {
            None => {
                state.over = true;
                return Poll::Ready(None);
            }
            Some(Err(_)) => Broken::Client,
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                match self.left.checked_sub(bytes) {
                    Some(left) => {
                        self.left = left;
                        state.over = self.client.is_end_stream();
                        return Poll::Ready(Some(Ok(frame)));
                    }
                    None => Broken::TooLarge,
                }
            }
        };
        state.broken = Some(broken);
        Poll::Ready(Some(Err(broken)))
    }
}

impl Progress {
    /// When it last moved.
    pub(in crate::pipeline) fn moved(&self) -> Instant {
        self.lock().moved
    }

    /// Whether all of it was read.
    pub(in crate::pipeline) fn is_over(&self) -> bool {
        self.lock().over
    }

    /// Why it did not get through, where that lies with the client.
    pub(in crate::pipeline) fn broken(&self) -> Option<Broken> {
        self.lock().broken
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Bytes> for Sent {
    fn from(bytes: Bytes) -> Self {
        Self::Whole((!bytes.is_empty()).then_some(bytes))
    }
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Self::Passing(passing) => passing.poll_client(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Passing(passing) => passing.client.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            Self::Passing(passing) => passing.client.size_hint(),
        }
    }
}
