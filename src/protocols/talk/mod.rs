//! What is said between a client and a model, in no protocol's words.
//!
//! A request, an answer and the pieces of a streamed answer: each protocol reads its own shapes into
//! these and writes them out of these. What two protocols share has a place here; what only one of them
//! knows has not, and is refused or dropped by name (see [`super::Spoken::read_request`]).

mod answer;
mod aspect;
mod embed;
mod order;
mod request;
mod stream;

pub use answer::{Answer, Stop, Usage};
pub use aspect::Aspect;
pub use embed::{Text, TextField, Texts, Vectors};
pub use order::{MAX_CALLS, Order};
pub use request::{
    Effort, Field, Format, Media, MediaKind, Part, Reasoning, Request, Role, Source, Thought, Tool,
    ToolCall, ToolChoice, ToolResult, Turn,
};
pub use stream::Delta;
