//! The providers that are known by name: what each speaks and where it lives.

use crate::protocols::Protocol;
use crate::protocols::passing::Passing;
use crate::providers::{Kind, bedrock, vertex};

/// One provider that needs no `custom_provider_config`.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// The name in config.json.
    pub name: &'static str,
    /// How it is called.
    pub kind: Kind,
    /// What it speaks. What a client asks in another protocol is converted to the first.
    pub speaks: &'static [Protocol],
    /// Used where `network_config.base_url` is absent; none where only the operator can know it.
    pub base_url: Option<&'static str>,
    /// Chat completions, behind the base URL.
    pub chat_path: &'static str,
    /// Whether a key may have no value.
    pub value_optional: bool,
}

/// Chat completions of most providers.
pub const CHAT_PATH: &str = "/v1/chat/completions";

/// Chat and what stands beside it at most providers.
const LIKE_OPENAI: &[Protocol] = &[Protocol::Chat, Protocol::Completions, Protocol::Embeddings];

/// What OpenAI itself speaks.
const OPENAI: &[Protocol] = &[
    Protocol::Chat,
    Protocol::Completions,
    Protocol::Embeddings,
    Protocol::Responses,
];

/// What Google speaks.
const GOOGLE: &[Protocol] = &[
    Protocol::Generate,
    Protocol::EmbedContent,
    Protocol::BatchEmbedContents,
    Protocol::Embeddings,
];

/// The built-in provider of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Builtin> {
    ALL.iter().find(|builtin| builtin.name == name)
}

const fn openai(name: &'static str, base_url: &'static str) -> Builtin {
    Builtin {
        name,
        kind: Kind::OpenAi,
        speaks: LIKE_OPENAI,
        base_url: Some(base_url),
        chat_path: CHAT_PATH,
        value_optional: false,
    }
}

/// Runs at the operator's own address.
const fn self_hosted(name: &'static str, base_url: Option<&'static str>) -> Builtin {
    Builtin {
        name,
        kind: Kind::OpenAi,
        speaks: LIKE_OPENAI,
        base_url,
        chat_path: CHAT_PATH,
        value_optional: true,
    }
}

/// Known, and not spoken yet.
const fn other(name: &'static str, base_url: &'static str) -> Builtin {
    Builtin {
        name,
        kind: Kind::Unspoken,
        speaks: &[],
        base_url: Some(base_url),
        chat_path: CHAT_PATH,
        value_optional: true,
    }
}

/// In alphabetical order of each kind.
pub const ALL: &[Builtin] = &[
    openai("cerebras", "https://api.cerebras.ai"),
    openai("deepseek", "https://api.deepseek.com"),
    openai("fireworks", "https://api.fireworks.ai/inference"),
    openai("groq", "https://api.groq.com/openai"),
    openai("huggingface", "https://router.huggingface.co"),
    openai("mistral", "https://api.mistral.ai"),
    openai("nebius", "https://api.tokenfactory.nebius.com"),
    Builtin {
        speaks: OPENAI,
        ..openai("openai", "https://api.openai.com")
    },
    openai("openrouter", "https://openrouter.ai/api"),
    openai("parasail", "https://api.parasail.io"),
    Builtin {
        chat_path: "/chat/completions",
        ..openai("perplexity", "https://api.perplexity.ai")
    },
    openai("together", "https://api.together.xyz"),
    Builtin {
        speaks: OPENAI,
        ..openai("xai", "https://api.x.ai")
    },
    self_hosted("ollama", Some("http://localhost:11434")),
    self_hosted("sgl", None),
    self_hosted("vllm", None),
    Builtin {
        kind: Kind::Anthropic,
        speaks: &[Protocol::Messages],
        ..openai("anthropic", "https://api.anthropic.com")
    },
    Builtin {
        kind: Kind::Gemini,
        speaks: GOOGLE,
        ..openai("gemini", "https://generativelanguage.googleapis.com")
    },
    // At each key's own endpoint.
    Builtin {
        kind: Kind::Azure,
        speaks: OPENAI,
        ..self_hosted("azure", None)
    },
    Builtin {
        kind: Kind::Bedrock,
        speaks: &[Protocol::Converse],
        ..self_hosted("bedrock", Some(bedrock::ADDRESS))
    },
    // What is spoken depends on whose model it is: see `Kind::speaks`.
    Builtin {
        kind: Kind::Vertex,
        speaks: vertex::OF_GOOGLE,
        ..self_hosted("vertex", Some(vertex::ADDRESS))
    },
    other("bedrock_mantle", "https://bedrock-mantle.us-east-1.api.aws"),
    Builtin {
        kind: Kind::Cohere,
        speaks: &[
            Protocol::Cohere,
            Protocol::Embeddings,
            Protocol::Passing(Passing::Rerank),
        ],
        ..openai("cohere", "https://api.cohere.com")
    },
    other("deepgram", "https://api.deepgram.com"),
    other("elevenlabs", "https://api.elevenlabs.io"),
    other("replicate", "https://api.replicate.com"),
    other("runway", "https://api.dev.runwayml.com"),
    other("runware", "https://api.runware.ai"),
    other("sarvam", "https://api.sarvam.ai"),
];
