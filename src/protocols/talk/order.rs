//! Keeps what readers of streams promise, whatever a provider sends.

use super::Delta;

/// Calls of one answer: more are an attack.
pub const MAX_CALLS: usize = 1_024;

/// The order of a stream's steps.
#[derive(Debug, Default)]
pub struct Order {
    started: bool,
    calls: usize,
}

impl Order {
    /// Passes a step on where it may stand: the start once and before all else, made up where the
    /// provider left it out; calls in the order of their numbers, with an id to refer to; arguments only
    /// of calls that began.
    pub fn admit(&mut self, mut delta: Delta, mut pass: impl FnMut(Delta)) {
        let is_start = matches!(delta, Delta::Start { .. });
        if is_start && self.started {
            return;
        }
        if !self.started {
            self.started = true;
            if !is_start {
                pass(Delta::Start {
                    id: String::new(),
                    model: String::new(),
                });
            }
        }
        match &mut delta {
            Delta::ToolCall { call, .. } if *call != self.calls => return,
            Delta::ToolCall { id, call, .. } => {
                self.calls += 1;
                name_call(id, *call);
            }
            Delta::Arguments { call, .. } if *call >= self.calls => return,
            Delta::Arguments { .. }
            | Delta::Start { .. }
            | Delta::Text(_)
            | Delta::Thought(_)
            | Delta::Signature(_)
            | Delta::Redacted(_)
            | Delta::Unplaced(_)
            | Delta::Stop(_)
            | Delta::Usage(_) => {}
        }
        pass(delta);
    }
}

/// Gives a call an id whose provider gave none: results refer to it.
pub(super) fn name_call(id: &mut String, call: usize) {
    if id.is_empty() {
        *id = format!("call_{call}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_starts_once_and_first() {
        let start = |id: &str| Delta::Start {
            id: id.to_owned(),
            model: String::new(),
        };
        let text = Delta::Text("x".to_owned());
        let arguments = |call| Delta::Arguments {
            call,
            json: "{}".to_owned(),
        };
        let call = |call| Delta::ToolCall {
            call,
            id: if call == 0 { "a" } else { "" }.to_owned(),
            name: "f".to_owned(),
        };
        let named = Delta::ToolCall {
            call: 1,
            id: "call_1".to_owned(),
            name: "f".to_owned(),
        };
        let mut order = Order::default();
        let mut passed = Vec::new();
        for delta in [
            text.clone(),
            start("late"),
            arguments(0),
            call(1),
            call(0),
            arguments(0),
            call(1),
        ] {
            order.admit(delta, |delta| passed.push(delta));
        }
        assert_eq!(passed, [start(""), text, call(0), arguments(0), named]);
    }
}
