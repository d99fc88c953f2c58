//! What a client asks of a model.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Number;

use crate::protocols::json::{Json, Malformed, Object, read_request};

/// One request. Whom it is for (the model) and whether the answer is streamed stand beside it: see
/// [`crate::protocols::To`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// Instructions, in order. Those that stand between turns are moved here.
    pub system: Vec<String>,
    /// The conversation, oldest first. Two turns of the same role may follow each other.
    pub turns: Vec<Turn>,
    /// Functions that the model may call.
    pub tools: Vec<Tool>,
    /// Of them, by name, those that take one text in the client's protocol: here their arguments have one member
    /// for it.
    pub text_tools: Vec<String>,
    /// Whether it must.
    pub tool_choice: Option<ToolChoice>,
    /// Whether it may call several at once.
    pub parallel_tool_calls: Option<bool>,
    /// Most tokens of the answer, reasoning included.
    pub max_tokens: Option<u64>,
    /// As the client's protocol scales it.
    pub temperature: Option<Number>,
    /// Nucleus sampling.
    pub top_p: Option<Number>,
    /// How many candidates are sampled from.
    pub top_k: Option<u64>,
    /// For answers that can be repeated.
    pub seed: Option<i64>,
    /// Against repeated words.
    pub frequency_penalty: Option<Number>,
    /// Against repeated topics.
    pub presence_penalty: Option<Number>,
    /// Texts that end the answer.
    pub stop: Vec<String>,
    /// Absent is free text.
    pub format: Option<Format>,
    /// How much the model is to think.
    pub reasoning: Option<Reasoning>,
    /// The client's own name for its user.
    pub user: Option<String>,
    /// Paths in the client's request that have no place here: they are dropped, and that is told.
    pub unplaced: Vec<String>,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The client's side, results of tools included.
    User,
    /// The model.
    Assistant,
}

/// One turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Whose.
    pub role: Role,
    /// What was said, in order.
    pub parts: Vec<Part>,
}

/// A piece of a turn or of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// An image, a document or sound; never of an assistant.
    Media(Media),
    /// What the model thought.
    Thought(Thought),
    /// A call that the model makes.
    ToolCall(ToolCall),
    /// What came of one; only of a user.
    ToolResult(ToolResult),
}

impl Part {
    /// Whether this side may say it.
    #[must_use]
    pub fn fits(&self, role: Role) -> bool {
        match self {
            Self::Text(_) => true,
            Self::Media(_) | Self::ToolResult(_) => role == Role::User,
            Self::Thought(_) | Self::ToolCall(_) => role == Role::Assistant,
        }
    }

    /// Whether a tool's result may hold it.
    #[must_use]
    pub const fn fits_result(&self) -> bool {
        match self {
            Self::Text(_) | Self::Media(_) => true,
            Self::Thought(_) | Self::ToolCall(_) | Self::ToolResult(_) => false,
        }
    }
}

/// Something that is no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// What it is.
    pub kind: MediaKind,
    /// Its bytes, or where they are.
    pub source: Source,
    /// A file's name, where it has one.
    pub name: Option<String>,
}

/// What a medium is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaKind {
    /// A picture.
    Image,
    /// A PDF or a text file.
    Document,
    /// Sound.
    Audio,
}

/// Where a medium's bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Here, as base64.
    Base64 {
        /// Such as `image/png`.
        media_type: String,
        /// Without line breaks, not decoded.
        data: String,
    },
    /// There.
    Url(String),
}

/// Reasoning that the model shows, or only hands back sealed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thought {
    /// As far as it is shown.
    pub text: String,
    /// The provider's seal: it must come back to it unchanged.
    pub signature: Option<String>,
    /// Nothing of it is shown: this is all of it.
    pub redacted: Option<String>,
}

/// Tells the seal of reasoning that is not shown from that of shown reasoning, where both stand in one place.
const REDACTED: &str = "redacted:";

impl Thought {
    /// Its seal, shown or not, for protocols that have one place for both.
    #[must_use]
    pub fn seal(&self) -> Option<Cow<'_, str>> {
        match &self.redacted {
            Some(data) => Some(format!("{REDACTED}{data}").into()),
            None => self.signature.as_deref().map(Cow::Borrowed),
        }
    }

    /// Of a text and a seal out of that one place.
    #[must_use]
    pub fn sealed(text: String, seal: Option<String>) -> Self {
        let redacted = seal.as_deref().and_then(|seal| seal.strip_prefix(REDACTED));
        let redacted = redacted.map(str::to_owned);
        Self {
            text,
            signature: seal.filter(|_| redacted.is_none()),
            redacted,
        }
    }
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// What its result refers to. Protocols without ids get one made from the place in the conversation.
    pub id: String,
    /// Of the function.
    pub name: String,
    /// An object as the model wrote it.
    pub arguments: Json,
}

/// The result of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// Of which call.
    pub call_id: String,
    /// Text and media.
    pub parts: Vec<Part>,
    /// The tool failed.
    pub is_error: bool,
}

/// A function that the model may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// For the model.
    pub description: Option<String>,
    /// JSON schema of its arguments.
    pub parameters: Option<Json>,
    /// Arguments must fit the schema.
    pub strict: Option<bool>,
}

/// Whether tools are to be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    /// As the model likes.
    Auto,
    /// None.
    None,
    /// Some.
    Required,
    /// This one.
    Named(String),
}

/// The form of the answer's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// Any JSON object.
    JsonObject,
    /// JSON of this schema.
    JsonSchema {
        /// Of the schema.
        name: Option<String>,
        /// For the model.
        description: Option<String>,
        /// The schema.
        schema: Json,
        /// The text must fit it.
        strict: Option<bool>,
    },
}

/// How much the model is to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reasoning {
    /// Not at all.
    Off,
    /// In words.
    Effort(Effort),
    /// In tokens.
    Budget(u64),
    /// As much as the model likes.
    Adaptive,
}

/// An amount of thinking, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// Hardly any.
    Minimal,
    /// Some.
    Low,
    /// The usual.
    Medium,
    /// Much.
    High,
    /// All there is.
    Max,
}

impl Effort {
    /// Share of the token limit that goes into thinking, in percent.
    const fn percent(self) -> u64 {
        match self {
            Self::Minimal => 5,
            Self::Low => 15,
            Self::Medium => 40,
            Self::High => 70,
            Self::Max => 90,
        }
    }
}

impl Reasoning {
    /// Tokens for thinking where a protocol wants a number, at least `least`; `None` for none at all.
    #[must_use]
    pub fn budget(self, max_tokens: u64, least: u64) -> Option<u64> {
        match self {
            Self::Off => None,
            Self::Budget(tokens) => Some(tokens.max(least)),
            Self::Effort(effort) => Some((max_tokens * effort.percent() / 100).max(least)),
            Self::Adaptive => Some((max_tokens * Effort::Medium.percent() / 100).max(least)),
        }
    }

    /// Words for it where a protocol wants those; `None` for none at all.
    #[must_use]
    pub const fn effort(self) -> Option<Effort> {
        match self {
            Self::Off => None,
            Self::Effort(effort) => Some(effort),
            Self::Budget(0..=2_047) => Some(Effort::Low),
            Self::Budget(2_048..=12_287) | Self::Adaptive => Some(Effort::Medium),
            Self::Budget(_) => Some(Effort::High),
        }
    }
}

impl Request {
    /// Reads a client's body: what `read` takes of none of its objects is unplaced.
    ///
    /// # Errors
    /// When it is no JSON object, or what `read` says.
    pub fn read(
        body: &[u8],
        read: impl FnOnce(&mut Object<'_>) -> Result<Self, Malformed>,
    ) -> Result<Self, Malformed> {
        let (mut request, unplaced) = read_request(body, read)?;
        request.unplaced.extend(unplaced);
        Ok(request)
    }

    /// The name of each call's function by the call's id, for protocols whose results state it.
    #[must_use]
    pub fn tool_names(&self) -> HashMap<&str, &str> {
        let parts = self.turns.iter().flat_map(|turn| &turn.parts);
        let calls = parts.filter_map(|part| match part {
            Part::ToolCall(call) => Some((call.id.as_str(), call.name.as_str())),
            Part::Text(_) | Part::Media(_) | Part::Thought(_) | Part::ToolResult(_) => None,
        });
        calls.collect()
    }

    /// What of the answer's form is no part of its schema, for protocols that know only that.
    pub fn labels(&self) -> impl Iterator<Item = Field> {
        let (name, description) = match &self.format {
            Some(Format::JsonSchema {
                name, description, ..
            }) => (name.is_some(), description.is_some()),
            Some(Format::JsonObject) | None => (false, false),
        };
        let labels = [
            (Field::FormatName, name),
            (Field::FormatDescription, description),
        ];
        labels
            .into_iter()
            .filter_map(|(field, said)| said.then_some(field))
    }

    /// Whether it chooses among tools of which it has none.
    #[must_use]
    pub fn has_idle_choice(&self) -> bool {
        self.tool_choice.is_some() && self.tools.is_empty()
    }

    /// Whether arguments of some tool must fit its schema.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.tools.iter().any(|tool| tool.strict == Some(true))
    }

    /// The turns with neighbours of the same role made one, for protocols in which roles alternate.
    #[must_use]
    pub fn alternating(&self) -> Vec<(Role, Vec<&Part>)> {
        let mut out: Vec<(Role, Vec<&Part>)> = Vec::new();
        for turn in &self.turns {
            match out.last_mut().filter(|(role, _)| *role == turn.role) {
                Some((_, parts)) => parts.extend(&turn.parts),
                None => out.push((turn.role, turn.parts.iter().collect())),
            }
        }
        out
    }
}

/// Something of a request that a protocol may not be able to say. Each protocol has its own name for it:
/// see [`crate::protocols::Spoken::name_of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The conversation.
    Turns,
    /// Media in it, or of a kind or source that does not pass.
    Media,
    /// Reasoning in it.
    Thoughts,
    /// Tools.
    Tools,
    /// Which of them.
    ToolChoice,
    /// Several at once.
    ParallelToolCalls,
    /// That a tool failed.
    ToolErrors,
    /// The answer's length.
    MaxTokens,
    /// Sampling.
    Temperature,
    /// Sampling.
    TopP,
    /// Sampling.
    TopK,
    /// Sampling.
    Seed,
    /// Sampling.
    FrequencyPenalty,
    /// Sampling.
    PresencePenalty,
    /// Texts that end the answer.
    Stop,
    /// The form of the answer.
    Format,
    /// How much to think.
    Reasoning,
    /// Whose request it is.
    User,
    /// What a file in the conversation is called.
    MediaName,
    /// The seals of reasoning in it.
    Seals,
    /// That arguments of tools must fit their schemas.
    Strict,
    /// The name of the answer's schema.
    FormatName,
    /// What is said of the answer's schema.
    FormatDescription,
}
