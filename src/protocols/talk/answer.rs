//! What a model answers.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::order::name_call;
use super::request::{Part, ToolCall};
use crate::protocols::json::{Malformed, Member, Object, read_answer};

/// One whole answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The provider's id of it; empty where it gave none.
    pub id: String,
    /// The model, as the provider names it; empty where it does not.
    pub model: String,
    /// Text, thoughts, tool calls, in order.
    pub parts: Vec<Part>,
    /// Why it ends.
    pub stop: Stop,
    /// What it cost.
    pub usage: Usage,
    /// Paths in the provider's answer that have no place here: they are left out, and that is told.
    pub unplaced: Vec<String>,
}

impl Answer {
    /// Reads a provider's body: what `read` takes of none of its objects is unplaced.
    ///
    /// # Errors
    /// When it is no JSON object, or what `read` says.
    pub fn read(
        body: &[u8],
        read: impl FnOnce(&mut Object<'_>) -> Result<Self, Malformed>,
    ) -> Result<Self, Malformed> {
        let (mut answer, unplaced) = read_answer(body, read)?;
        answer.unplaced.extend(unplaced);
        let calls = answer.parts.iter_mut().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            Part::Text(_) | Part::Media(_) | Part::Thought(_) | Part::ToolResult(_) => None,
        });
        for (n, call) in calls.enumerate() {
            name_call(&mut call.id, n);
        }
        Ok(answer)
    }

    /// A call in it; none of one that the token limit cut in the middle, which is told as left out.
    ///
    /// # Errors
    /// When a call of an answer that is not cut cannot be read.
    pub fn call(
        place: &Member<'_>,
        is_cut: bool,
        read: Result<ToolCall, Malformed>,
    ) -> Result<Option<Part>, Malformed> {
        match read {
            Ok(call) => Ok(Some(Part::ToolCall(call))),
            Err(_) if is_cut => {
                place.not_passed_on();
                Ok(None)
            }
            Err(malformed) => Err(malformed),
        }
    }
}

/// Why an answer ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// All is said.
    #[default]
    End,
    /// One of the client's texts came up, this one where it is told.
    Sequence(Option<String>),
    /// The token limit, or the model's own.
    Length,
    /// Tools are to be called.
    ToolCalls,
    /// A filter of the provider stepped in, or the model refused.
    Filtered,
    /// A long turn was interrupted and may be gone on with.
    Paused,
}

/// Tokens, as the provider counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// In, those from a cache included.
    pub input: u64,
    /// Out, reasoning included.
    pub output: u64,
    /// Of `input`: read from a cache.
    pub cached: u64,
    /// Of `input`: written to a cache.
    pub cache_written: u64,
    /// Of `output`: reasoning.
    pub reasoning: u64,
}

impl Usage {
    /// In and out.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Takes in what a later event says: counts only grow.
    pub fn merge(&mut self, other: Self) {
        self.input = self.input.max(other.input);
        self.output = self.output.max(other.output);
        self.cached = self.cached.max(other.cached);
        self.cache_written = self.cache_written.max(other.cache_written);
        self.reasoning = self.reasoning.max(other.reasoning);
    }
}

/// As log records show it: flat, in OpenAI's words.
impl Serialize for Usage {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut all = out.serialize_struct("Usage", 6)?;
        all.serialize_field("prompt_tokens", &self.input)?;
        all.serialize_field("completion_tokens", &self.output)?;
        all.serialize_field("total_tokens", &self.total())?;
        if self.cached > 0 {
            all.serialize_field("cached_tokens", &self.cached)?;
        }
        if self.cache_written > 0 {
            all.serialize_field("cache_written_tokens", &self.cache_written)?;
        }
        if self.reasoning > 0 {
            all.serialize_field("reasoning_tokens", &self.reasoning)?;
        }
        all.end()
    }
}
