//! The body of an answer: whole, a stream of the data path, or the admin router's.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

/// Why a body cannot go on: hyper closes the connection then.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// What hyper writes to a client.
pub enum Body {
    /// Known as a whole.
    Whole(Option<Bytes>),
    /// Made while it is read.
    Stream(Pin<Box<dyn HttpBody<Data = Bytes, Error = BodyError> + Send>>),
    /// Of the axum router.
    Router(axum::body::Body),
}

impl Body {
    /// No bytes.
    #[must_use]
    pub const fn empty() -> Self {
        Self::Whole(None)
    }

    /// A body that makes its frames as it is polled.
    pub fn stream(body: impl HttpBody<Data = Bytes, Error = BodyError> + Send + 'static) -> Self {
        Self::Stream(Box::pin(body))
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        let bytes = bytes.into();
        Self::Whole((!bytes.is_empty()).then_some(bytes))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Self::Stream(body) => body.as_mut().poll_frame(context),
            Self::Router(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Stream(body) => body.is_end_stream(),
            Self::Router(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            Self::Stream(body) => body.size_hint(),
            Self::Router(body) => body.size_hint(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Whole(_) => "Body::Whole",
            Self::Stream(_) => "Body::Stream",
            Self::Router(_) => "Body::Router",
        })
    }
}
