//! Messages, there and back.

use proptest::prelude::*;

use super::*;
use crate::protocols::samples;

const TO: To<'_> = To {
    model: "m",
    stream: false,
    provider: "anthropic",
};

proptest! {
    #[test]
    fn requests_come_back_as_they_were(request in samples::request()) {
        let written = Messages.write_request(&request, TO).unwrap();
        prop_assert_eq!(&written.dropped, &[]);
        let read = Messages.read_request(&written.body).unwrap();
        let flat = |request: &Request| -> Vec<_> {
            let turns = request.alternating().into_iter();
            turns
                .map(|(role, parts)| {
                    let mut parts: Vec<_> = parts.into_iter().cloned().collect();
                    // Results of tools go first.
                    parts.sort_by_key(|p| !matches!(p, crate::protocols::talk::Part::ToolResult(_)));
                    (role, parts)
                })
                .collect()
        };
        prop_assert_eq!(flat(&read), flat(&request));
        prop_assert_eq!(Request { turns: Vec::new(), ..read }, Request { turns: Vec::new(), ..request });
    }
}
