//! Chat completions, there and back.

use proptest::prelude::*;

use super::*;
use crate::protocols::samples;

const TO: To<'_> = To {
    model: "m",
    stream: false,
    provider: "groq",
};

proptest! {
    #[test]
    fn requests_come_back_as_they_were(request in samples::request()) {
        let written = Chat.write_request(&request, TO).unwrap();
        prop_assert_eq!(&written.dropped, &[]);
        let read = Chat.read_request(&written.body).unwrap();
        // Each result of a tool is a message of its own.
        let flat = |request: &Request| -> Vec<_> {
            let turns = request.alternating().into_iter();
            turns.map(|(role, parts)| (role, parts.into_iter().cloned().collect::<Vec<_>>())).collect()
        };
        prop_assert_eq!(flat(&read), flat(&request));
        prop_assert_eq!(Request { turns: Vec::new(), ..read }, Request { turns: Vec::new(), ..request });
    }
}
