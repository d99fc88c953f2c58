//! A streamed answer, piece by piece.

use super::answer::{Stop, Usage};

/// One step of an answer under way. Blocks are implied: whoever needs their beginnings and ends writes
/// them where the kind of what comes changes.
///
/// Writers are promised, by [`super::Order`] where a provider does not keep to it: [`Delta::Start`] first and
/// once; the start of a tool call before its arguments; tool calls numbered from 0 in the order of their
/// starts, not of the provider's indices. The last `Stop` counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// The answer begins.
    Start {
        /// The provider's id of it; empty where it gave none.
        id: String,
        /// The model, as the provider names it; empty where it does not.
        model: String,
    },
    /// More text.
    Text(String),
    /// More reasoning.
    Thought(String),
    /// The seal of the reasoning before.
    Signature(String),
    /// Reasoning of which nothing is shown.
    Redacted(String),
    /// The model begins to call a tool.
    ToolCall {
        /// Which one of this answer, from 0.
        call: usize,
        /// What its result refers to.
        id: String,
        /// Of the function.
        name: String,
    },
    /// More of the JSON text of a call's arguments. A call without any has none: `{}` is meant.
    Arguments {
        /// Which call.
        call: usize,
        /// A piece of JSON text.
        json: String,
    },
    /// The path of something that has no place here: it is left out, and that is told.
    Unplaced(String),
    /// Why the answer ends.
    Stop(Stop),
    /// What it has cost so far: merge with what was told before.
    Usage(Usage),
}
