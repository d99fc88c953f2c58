//! Any bytes are read as events, the same however they are cut, and an event that was passed on is read
//! as the same event by whoever gets it.

#![no_main]

use holdline_fuzz::protocols::sse::{Event, SseReader};
use libfuzzer_sys::fuzz_target;

fn read<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Vec<Event> {
    let mut reader = SseReader::default();
    let mut events = Vec::new();
    for part in parts {
        reader.push(part);
        while let Some(event) = reader.next_event().expect("no input is that long") {
            events.push(event);
        }
    }
    events.extend(reader.last());
    assert_eq!(reader.next_event(), Ok(None));
    events
}

fn contents(events: &[Event]) -> Vec<(&[u8], Option<&[u8]>)> {
    events
        .iter()
        .map(|event| (&event.data[..], event.name.as_deref()))
        .collect()
}

fuzz_target!(|data: &[u8]| {
    let [step, stream @ ..] = data else {
        return;
    };
    let whole = read(std::iter::once(stream));
    for step in [1, usize::from(*step) + 1] {
        let cut = read(stream.chunks(step));
        assert_eq!(contents(&cut), contents(&whole));
    }
    for event in &whole {
        let again = read(std::iter::once(&event.wire[..]));
        assert_eq!(contents(&again), contents(std::slice::from_ref(event)));
    }
});
