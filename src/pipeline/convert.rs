//! An answer on its way from the provider's protocol to the client's, where those differ.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use tracing::debug;

use holdline_core::halves;

use super::course::Course;
use super::failed::Failed;
use crate::protocols::dropped::{self, LeftOut};
use crate::protocols::talk::{Delta, Order, Usage};
use crate::protocols::{Event, Malformed, Protocol, ReadStream, Shown, WriteStream};

/// A stream, read in one protocol and written in another.
#[derive(Debug)]
pub(super) struct Conversion {
    reader: Box<dyn ReadStream>,
    writer: Box<dyn WriteStream>,
    deltas: Vec<Delta>,
    order: Order,
    client: Protocol,
    left_out: LeftOut,
    request: String,
}

impl Conversion {
    /// Between the provider's protocol and the client's; none where they are the same.
    pub(super) fn of(course: &Course, from: Protocol) -> Option<Self> {
        let client = course.inbound.route.protocol;
        if from == client {
            return None;
        }
        Some(Self {
            reader: from.spoken().stream_reader()?,
            writer: client.spoken().stream_writer(shown(course))?,
            deltas: Vec::new(),
            order: Order::default(),
            client,
            left_out: LeftOut::default(),
            request: course.id.clone(),
        })
    }

    /// Writes what an event becomes.
    pub(super) fn pass(&mut self, event: &Event, out: &mut BytesMut) -> Result<(), Failed> {
        let read = match halves::mended(&event.data) {
            Some(mended) => {
                let mended = Event {
                    data: mended.into(),
                    ..event.clone()
                };
                self.reader.read(&mended, &mut self.deltas)
            }
            None => self.reader.read(event, &mut self.deltas),
        };
        for delta in self.deltas.drain(..) {
            self.left_out.see(self.client.spoken(), &delta);
            let writer = &mut self.writer;
            self.order.admit(delta, |delta| writer.write(delta, out));
        }
        read.map_err(|e| Failed::broken(format!("the provider's stream cannot be read: {e}")))
    }

    /// How many events were written, where the client's protocol counts them.
    pub(super) fn events(&self) -> u64 {
        self.writer.events()
    }

    /// Writes the end of a whole answer.
    pub(super) fn end(&mut self, extra_fields: Option<&[u8]>, out: &mut BytesMut) {
        self.writer.end(extra_fields, out);
        tell(&self.request, self.left_out.names());
    }
}

/// A whole answer for the client, with its usage.
pub(super) fn answer(
    course: &Course,
    from: Protocol,
    body: &[u8],
) -> Result<(Vec<u8>, Option<Usage>), Failed> {
    let unreadable =
        |e: Malformed| Failed::broken(format!("the provider's answer cannot be read: {e}"));
    let mended = halves::mended(body);
    let body = mended.as_deref().unwrap_or(body);
    if from.embeds() {
        return vectors(course, from, body).map_err(unreadable);
    }
    let answer = from.spoken().read_answer(body).map_err(unreadable)?;
    let client = course.inbound.route.protocol.spoken();
    tell(&course.id, &dropped::of_answer(client, &answer));
    let written = client.write_answer(&answer, &shown(course));
    Ok((written, Some(answer.usage)))
}

/// Not worth an operator's while: what the client does not see is nothing that it asked for.
fn tell(request: &str, left_out: &[String]) {
    if !left_out.is_empty() {
        debug!(
            request,
            fields = left_out.join(", "),
            "left out of the answer what the client's protocol cannot say"
        );
    }
}

/// Vectors for the client, one for each of its texts.
fn vectors(
    course: &Course,
    from: Protocol,
    body: &[u8],
) -> Result<(Vec<u8>, Option<Usage>), Malformed> {
    let vectors = from.spoken().read_vectors(body)?;
    let texts = course.inbound.texts().map_err(Clone::clone)?;
    let (given, asked) = (vectors.vectors.len(), texts.texts.len());
    if given != asked {
        let message = format!("has {given} vectors for {asked} texts");
        return Err(Malformed::at("body", message));
    }
    let client = course.inbound.route.protocol.spoken();
    let written = client.write_vectors(&vectors, texts, &shown(course));
    let usage = vectors.tokens.map(|input| Usage {
        input,
        ..Usage::default()
    });
    Ok((written, usage))
}

/// Only clients of responses have such tools.
fn text_tools(course: &Course) -> Vec<String> {
    if course.inbound.route.protocol != Protocol::Responses {
        return Vec::new();
    }
    let talk = course.inbound.talk();
    talk.map_or_else(|_| Vec::new(), |request| request.text_tools.clone())
}

fn shown(course: &Course) -> Shown {
    let flight = course.flight.as_ref();
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Shown {
        id: course.id.clone(),
        model: flight.map_or("", |f| f.upstream_model()).to_owned(),
        created: since.map_or(0, |since| since.as_secs()),
        include_usage: course.inbound.body.include_usage,
        text_tools: text_tools(course),
    }
}
