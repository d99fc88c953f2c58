//! What became of a feature on the other side, seen by comparing what arrives with it and without it.

use std::collections::BTreeSet;

use bytes::BytesMut;
use serde_json::Value;

use super::sample::{Leaf, Samples, Side, leaves};
use crate::protocols::dropped::{self, LeftOut};
use crate::protocols::event_stream::EventStreamReader;
use crate::protocols::samples::{gathered, shown};
use crate::protocols::sse::SseReader;
use crate::protocols::talk::{Delta, Order};
use crate::protocols::{Event, Protocol, To};

/// What was seen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// It stands where the other protocol has it.
    Carried,
    /// Something of it arrived, in other words or places.
    Changed(Change),
    /// A 400 of this `param`.
    Refused(String),
    /// Left out, and told by these names.
    Dropped(Vec<String>),
    /// Nothing arrived, nobody is told.
    Silent,
}

/// How what arrived differs from how the other side puts it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Change {
    /// What arrived besides, or instead.
    pub(super) other: Vec<Leaf>,
    /// What is not there, where nothing else is.
    pub(super) missing: Vec<String>,
    /// What was left out and told.
    pub(super) told: Vec<String>,
}

/// What a conversion gave: the other side's body and what was told of it, or the `param` of a refusal.
type Converted = Result<(Value, BTreeSet<String>), String>;

/// A provider that requests are written for.
pub(super) struct Provider {
    /// In the table's head.
    pub(super) title: &'static str,
    pub(super) protocol: Protocol,
    pub(super) like: &'static str,
    pub(super) model: &'static str,
}

/// What becomes of a feature of a request on its way to a provider. `expected` is what the provider's own
/// protocol says for it.
pub(super) fn of_request(
    client: &Samples,
    feature: &str,
    to: &Provider,
    theirs: &Samples,
) -> Outcome {
    let pair = client.pair(Side::Request, feature).expect("it has it");
    let feature = Feature {
        said: said(client, Side::Request, feature),
        expected: said(theirs, Side::Request, feature),
    };
    let convert = |body: &Value| request(client.protocol, body, to);
    judge(convert(&pair.0), convert(&pair.1), &feature)
}

/// What becomes of a feature of a whole answer, and of a streamed one.
pub(super) fn of_answer(provider: &Samples, feature: &str, client: &Samples) -> (Outcome, Outcome) {
    let pair = provider.pair(Side::Answer, feature).expect("it has it");
    let made = Feature {
        said: said(provider, Side::Answer, feature),
        expected: said(client, Side::Answer, feature),
    };
    let (from, to) = (provider.protocol, client.protocol);
    let whole = judge(answer(from, &pair.0, to), answer(from, &pair.1, to), &made);
    let on = provider.stands_on(Side::Answer, feature);
    let streamed = judge(
        stream(from, &provider.stream(Some(feature)), to),
        stream(from, &provider.stream(on), to),
        &made,
    );
    (whole, streamed)
}

/// What a feature adds to a body, as either side puts it.
struct Feature {
    said: BTreeSet<Leaf>,
    /// Nothing where that side cannot say it.
    expected: BTreeSet<Leaf>,
}

fn said(theirs: &Samples, side: Side, feature: &str) -> BTreeSet<Leaf> {
    let Some((with, without)) = theirs.pair(side, feature) else {
        return BTreeSet::new();
    };
    let without = leaves(&without);
    leaves(&with)
        .into_iter()
        .filter(|leaf| !without.contains(leaf))
        .collect()
}

fn judge(with: Converted, without: Converted, feature: &Feature) -> Outcome {
    let expected = &feature.expected;
    let (with, told) = match with {
        Ok(converted) => converted,
        Err(param) => return Outcome::Refused(param),
    };
    let (without, told_before) = match without {
        Ok(converted) => converted,
        // What it stands on is refused already.
        Err(param) => return Outcome::Refused(param),
    };
    let before = leaves(&without);
    let arrived: BTreeSet<Leaf> = leaves(&with)
        .into_iter()
        .filter(|leaf| !before.contains(leaf))
        .collect();
    // Told before too is what the feature only changes, such as the name of a file that has one.
    let is_its_own = |name: &&String| {
        !told_before.contains(*name) || feature.said.iter().any(|(path, _)| path == *name)
    };
    let told: Vec<String> = told.iter().filter(is_its_own).cloned().collect();
    if !expected.is_empty() && expected.is_subset(&arrived) && told.is_empty() {
        Outcome::Carried
    } else if !arrived.is_empty() {
        let missing = expected.difference(&arrived);
        Outcome::Changed(Change {
            other: arrived.difference(expected).cloned().collect(),
            missing: missing.map(|(path, _)| path.clone()).collect(),
            told,
        })
    } else if !told.is_empty() {
        Outcome::Dropped(told)
    } else {
        Outcome::Silent
    }
}

fn request(client: Protocol, body: &Value, to: &Provider) -> Converted {
    let spoken = client.spoken();
    let request = spoken
        .read_request(body.to_string().as_bytes())
        .map_err(|malformed| malformed.path)?;
    let aim = To {
        model: to.model,
        stream: false,
        provider: to.like,
    };
    let written = to.protocol.spoken().write_request(&request, aim);
    let written = written.map_err(|unsupported| spoken.name_of(unsupported.field).to_owned())?;
    let body = serde_json::from_slice(&written.body).expect("what is written is JSON");
    let told = dropped::of_request(spoken, &request, &written);
    Ok((body, told.into_iter().collect()))
}

fn answer(from: Protocol, body: &Value, to: Protocol) -> Converted {
    let answer = from.spoken().read_answer(body.to_string().as_bytes());
    let answer = answer.expect("the sample is an answer");
    let written = to.spoken().write_answer(&answer, &shown());
    let body = serde_json::from_slice(&written).expect("what is written is JSON");
    let told = dropped::of_answer(to.spoken(), &answer);
    Ok((body, told.into_iter().collect()))
}

/// A stream is seen as the whole answer that the client's own reader makes of it: that this reader
/// understands its protocol is tested with the samples of streams.
fn stream(from: Protocol, events: &[Event], to: Protocol) -> Converted {
    let mut left_out = LeftOut::default();
    let mut writer = to.spoken().stream_writer(shown()).expect("it converts");
    let mut out = BytesMut::new();
    for delta in deltas(from, events) {
        left_out.see(to.spoken(), &delta);
        writer.write(delta, &mut out);
    }
    writer.end(None, &mut out);
    let answer = gathered(deltas(to, &events_in(to, &out)));
    let written = to.spoken().write_answer(&answer, &shown());
    let body = serde_json::from_slice(&written).expect("what is written is JSON");
    Ok((body, left_out.names().iter().cloned().collect()))
}

/// The steps of a stream.
pub(super) fn deltas(from: Protocol, events: &[Event]) -> Vec<Delta> {
    let mut reader = from.spoken().stream_reader().expect("it converts");
    let (mut order, mut read, mut deltas) = (Order::default(), Vec::new(), Vec::new());
    for event in events {
        reader
            .read(event, &mut read)
            .expect("it is of the protocol");
        for delta in read.drain(..) {
            order.admit(delta, |delta| deltas.push(delta));
        }
    }
    deltas
}

fn events_in(protocol: Protocol, out: &[u8]) -> Vec<Event> {
    if protocol == Protocol::Converse {
        let mut reader = EventStreamReader::default();
        reader.push(out);
        return std::iter::from_fn(|| reader.next_event().expect("frames are whole")).collect();
    }
    let mut reader = SseReader::default();
    reader.push(out);
    std::iter::from_fn(|| reader.next_event().expect("events are short")).collect()
}
