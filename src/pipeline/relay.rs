//! A committed stream on its way to the client: read as the client reads, passed on at once.
//!
//! The upstream is polled only while the client takes frames, so a slow client slows its provider down
//! and nothing piles up. Dropping the relay drops the upstream call; the [`Course`] in it then tells of
//! a caller that left. After an error the stream ends with one error event in the client's dialect and without an end mark.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::account::{Closing, Told};
use super::convert::Conversion;
use super::course::Course;
use super::failed::{Failed, Late};
use super::opening::{Opened, with_extra_fields};
use super::{extra_fields, failure_told};
use crate::protocols::{Event, write_event};
use crate::server::BodyError;

/// A frame is sent off when it has grown this large.
const MAX_FRAME: usize = 64 << 10;

/// How often the connection's task is given a turn to hand over what the same read brought.
const MAX_YIELDS: u8 = 2;

/// The body of a streamed answer.
pub(super) struct Relay {
    course: Course,
    opened: Opened,
    /// Where the client speaks another protocol than the provider.
    conversion: Option<Conversion>,
    out: BytesMut,
    idle_limit: Duration,
    silence: Pin<Box<Sleep>>,
    last_heard: Instant,
    callers: Option<Pin<Box<Sleep>>>,
    /// The answer is whole, whether its end mark comes or not.
    complete: bool,
    yields: u8,
    /// Events of the provider that the client has.
    passed: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Flowing,
    /// All is in `out`.
    Ended,
}

impl Relay {
    /// Starts with what was held back.
    pub(super) fn new(course: Course, mut opened: Opened) -> Self {
        let flight = course.flight.as_ref();
        let idle_limit = flight.map_or(Duration::from_secs(60), |f| {
            f.provider.network.stream_idle_timeout
        });
        let now = Instant::now();
        let deadline = course.inbound.deadline.map(Instant::from_std);
        let held_back = std::mem::take(&mut opened.held_back);
        let mut relay = Self {
            conversion: Conversion::of(&course, opened.protocol),
            course,
            opened,
            out: BytesMut::new(),
            idle_limit,
            silence: Box::pin(tokio::time::sleep_until(now + idle_limit)),
            last_heard: now,
            callers: deadline.map(|at| Box::pin(tokio::time::sleep_until(at))),
            complete: false,
            yields: 0,
            passed: 0,
            state: State::Flowing,
        };
        for event in held_back {
            relay.pass(&event);
        }
        relay
    }

    /// Writes one event for the client, and learns from it.
    fn pass(&mut self, event: &Event) {
        if self.state == State::Ended {
            return;
        }
        if let Some(failed) = self.opened.judge.error_event(event) {
            self.end_badly(failed);
            return;
        }
        let seen = self.opened.protocol.spoken().seen(event, true);
        self.complete |= seen.complete;
        if let Some(usage) = seen.usage {
            self.course.usage.get_or_insert_default().merge(usage);
        }
        if let Some(conversion) = &mut self.conversion {
            if let Err(failed) = conversion.pass(event, &mut self.out) {
                self.end_badly(failed);
                return;
            }
        } else if seen.usage_only && !self.course.inbound.body.include_usage {
            // Only the gateway asked for it.
        } else if self.course.inbound.route.unified && (seen.complete || seen.usage_only) {
            let extra = extra_fields(&self.course);
            let data = with_extra_fields(&event.data, &extra);
            let name = Some(event.kind()).filter(|name| !name.is_empty());
            write_event(name, &data, &mut self.out);
        } else {
            self.out.extend_from_slice(&event.wire);
        }
        self.passed += 1;
        if seen.ends {
            self.end_well();
        } else if self.complete && self.nothing_follows() {
            self.end_with_mark();
        }
    }

    /// Whether this provider says no more once its model has finished: only where a mark is missing then.
    fn nothing_follows(&self) -> bool {
        let rules = self.course.flight.as_ref().map(|f| &f.provider.custom);
        let has_mark = !self.opened.protocol.spoken().end_mark().is_empty();
        rules.is_some_and(|rules| {
            rules.no_end_mark && has_mark && (!rules.waits_for_usage || self.course.usage.is_some())
        })
    }

    /// The answer is whole, and the provider did not say so.
    fn end_with_mark(&mut self) {
        if self.conversion.is_none() {
            let mark = self.opened.protocol.spoken().end_mark();
            self.out.extend_from_slice(mark);
        }
        self.end_well();
    }

    fn end_well(&mut self) {
        if let Some(conversion) = &mut self.conversion {
            let unified = self.course.inbound.route.unified;
            let extra = unified.then(|| extra_fields(&self.course));
            conversion.end(extra.as_deref(), &mut self.out);
        }
        self.state = State::Ended;
        self.course.observe(None);
        let _ = self.course.next();
        self.course.end(&Closing::SERVED);
    }

    /// One error event in the client's dialect, and the end.
    fn end_badly(&mut self, failed: Failed) {
        let error = failure_told(&self.course, &failed);
        let client = self.course.inbound.route.protocol.spoken();
        let conversion = self.conversion.as_ref();
        let place = conversion.map_or(self.passed, Conversion::events);
        client.error_event(&error, place, &mut self.out);
        self.state = State::Ended;
        let class = failed.failure.class;
        self.course.observe(Some(&failed));
        self.course.end(&Closing {
            status: 200,
            failure: Some(Told {
                class: Some(class),
                error_type: error.extra_fields.error_type,
            }),
        });
    }

    /// The provider has sent all it had.
    fn provider_ended(&mut self) {
        self.opened.over = true;
        self.drain();
        if self.state == State::Flowing {
            if self.complete {
                self.end_with_mark();
            } else {
                let message = "the provider ended the stream before it was complete".to_owned();
                self.end_badly(Failed::broken(message));
            }
        }
    }

    /// Passes on every whole event.
    fn drain(&mut self) {
        while self.state == State::Flowing {
            match self.opened.next_event() {
                Ok(Some(event)) => self.pass(&event),
                Ok(None) => return,
                Err(message) => self.end_badly(Failed::broken(message)),
            }
        }
    }

    fn heard(&mut self, data: Bytes) {
        self.last_heard = Instant::now();
        match self.opened.take(data) {
            Ok(()) => self.drain(),
            Err(message) => self.end_badly(Failed::broken(message)),
        }
    }

    /// Whether a limit ran out; the timer is moved only when it fires, not with every event.
    fn poll_limits(&mut self, context: &mut Context<'_>) -> Option<Late> {
        if let Some(callers) = &mut self.callers
            && callers.as_mut().poll(context).is_ready()
        {
            return Some(Late::Caller);
        }
        while self.silence.as_mut().poll(context).is_ready() {
            let due = self.last_heard + self.idle_limit;
            if due <= Instant::now() {
                return Some(Late::Provider("stream_idle_timeout"));
            }
            self.silence.as_mut().reset(due);
        }
        None
    }

    fn flush(&mut self) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.yields = 0;
        Poll::Ready(Some(Ok(Frame::data(self.out.split().freeze()))))
    }
}

impl HttpBody for Relay {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let relay = self.get_mut();
        loop {
            if relay.state == State::Ended || relay.out.len() >= MAX_FRAME {
                if relay.out.is_empty() {
                    return Poll::Ready(None);
                }
                return relay.flush();
            }
            match Pin::new(&mut relay.opened.upstream).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        relay.yields = 0;
                        relay.heard(data);
                    }
                }
                Poll::Ready(Some(Err(_))) => {
                    let message = "the provider cut the stream off".to_owned();
                    relay.drain();
                    if relay.state == State::Flowing {
                        relay.end_badly(Failed::broken(message));
                    }
                }
                Poll::Ready(None) => relay.provider_ended(),
                Poll::Pending if relay.out.is_empty() => {
                    if let Some(late) = relay.poll_limits(context) {
                        relay.end_badly(Failed::late(late, relay.idle_limit));
                        continue;
                    }
                    return Poll::Pending;
                }
                // What one read of the socket brought comes over in several turns of the connection's
                // task: waiting for them makes one frame, and one write, of a burst.
                Poll::Pending if relay.yields < MAX_YIELDS => {
                    relay.yields += 1;
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Pending => return relay.flush(),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.state == State::Ended && self.out.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
