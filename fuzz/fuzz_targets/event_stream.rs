//! Any bytes are read as an AWS event stream, the same however they are cut; what was read once is read
//! again as the same event, and a damaged frame is refused for good.

#![no_main]

use holdline_fuzz::protocols::event_stream::{BadFrame, EventStreamReader};
use holdline_fuzz::protocols::sse::Event;
use libfuzzer_sys::fuzz_target;

/// The events up to the first damaged frame, and whether there was one.
fn read<'a>(parts: impl Iterator<Item = &'a [u8]>) -> (Vec<Event>, Option<BadFrame>) {
    let mut reader = EventStreamReader::default();
    let mut events = Vec::new();
    for part in parts {
        reader.push(part);
        loop {
            match reader.next_event() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(error) => return (events, Some(error)),
            }
        }
    }
    (events, None)
}

fuzz_target!(|data: &[u8]| {
    let [step, stream @ ..] = data else {
        return;
    };
    let whole = read(std::iter::once(stream));
    for step in [1, usize::from(*step) + 1] {
        assert_eq!(read(stream.chunks(step)), whole);
    }
    for event in &whole.0 {
        let again = read(std::iter::once(&event.wire[..]));
        assert_eq!(again, (vec![event.clone()], None));
    }
});
