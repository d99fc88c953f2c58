//! What an answer may say that some clients cannot be told.

use super::{Answer, Delta, Part, Stop, Usage};

/// Something of an answer that not every protocol has a place for: see
/// [`omits`](crate::protocols::Spoken::omits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// The seals of reasoning.
    Seals,
    /// Reasoning of which nothing is shown.
    Hidden,
    /// Which of the client's texts ended the answer.
    StopText,
    /// That a turn was interrupted.
    Pause,
    /// Tokens that were put into a cache.
    CacheWritten,
    /// Tokens of reasoning, among those of the answer.
    ReasoningTokens,
}

impl Aspect {
    /// Those of a whole answer.
    #[must_use]
    pub fn of(answer: &Answer) -> Vec<Self> {
        let mut found = Vec::new();
        for part in &answer.parts {
            if let Part::Thought(thought) = part {
                found.extend(thought.signature.as_ref().map(|_| Self::Seals));
                found.extend(thought.redacted.as_ref().map(|_| Self::Hidden));
            }
        }
        found.extend(Self::of_stop(&answer.stop));
        found.extend(Self::of_usage(answer.usage));
        found
    }

    /// Those of one step of a stream.
    #[must_use]
    pub fn of_step(delta: &Delta) -> Vec<Self> {
        match delta {
            Delta::Signature(_) => vec![Self::Seals],
            Delta::Redacted(_) => vec![Self::Hidden],
            Delta::Stop(stop) => Self::of_stop(stop).into_iter().collect(),
            Delta::Usage(usage) => Self::of_usage(*usage).collect(),
            Delta::Start { .. }
            | Delta::Text(_)
            | Delta::Thought(_)
            | Delta::ToolCall { .. }
            | Delta::Arguments { .. }
            | Delta::Unplaced(_) => Vec::new(),
        }
    }

    const fn of_stop(stop: &Stop) -> Option<Self> {
        match stop {
            Stop::Sequence(_) => Some(Self::StopText),
            Stop::Paused => Some(Self::Pause),
            Stop::End | Stop::Length | Stop::ToolCalls | Stop::Filtered => None,
        }
    }

    fn of_usage(usage: Usage) -> impl Iterator<Item = Self> {
        let counted = [
            (Self::CacheWritten, usage.cache_written),
            (Self::ReasoningTokens, usage.reasoning),
        ];
        let counted = counted.into_iter().filter(|(_, count)| *count > 0);
        counted.map(|(aspect, _)| aspect)
    }

    /// In a log line.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Seals => "seals of reasoning",
            Self::Hidden => "hidden reasoning",
            Self::StopText => "the text that ended the answer",
            Self::Pause => "that the turn was interrupted",
            Self::CacheWritten => "tokens put into a cache",
            Self::ReasoningTokens => "tokens of reasoning",
        }
    }
}
