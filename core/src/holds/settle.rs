//! What an answer does to the registers that cover its route: pure, judged against the token.

use super::record::Register;
use crate::failure::Reason;
use crate::time::Mono;

/// The registers that cover a route, as they were when the request was sent.
///
/// The answer is judged against this; the current state may only suppress a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The whole key's register.
    pub key: Launched,
    /// The model's register.
    pub model: Launched,
    /// When the request was sent.
    pub sent: Mono,
}

/// One register at launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Its state.
    pub register: Register,
    /// Held, and its wait had run out.
    pub due: bool,
}

/// What a provider (or the lack of one) said, as far as holds care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It served: for a stream, the first real output.
    Served,
    /// One of the six refusals.
    Refused(Refusal),
    /// The request was at fault: the provider had let the key through.
    CallerFault,
    /// Transient, timeout, unknown, or a refusal that must not hold.
    Inconclusive,
    /// The caller left. Says nothing.
    Cancelled,
}

/// A refusal with what the provider said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// The wait it stated, unclamped, in milliseconds.
    pub stated_ms: Option<u64>,
    /// Its words, scrubbed and cut by the caller.
    pub words: String,
    /// Its HTTP status.
    pub status: u16,
}
