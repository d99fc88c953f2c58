//! OpenAI, and all who are called like it: `Authorization: Bearer`, paths under `/v1`.

use http::Uri;

use super::{Adapter, Call, NotCallable, Reshape, join};
use crate::protocols::kept::Collection;
use crate::protocols::{Operation, Protocol};

/// The adapter.
#[derive(Clone, Copy, Debug)]
pub struct OpenAi;

impl Adapter for OpenAi {
    fn endpoint(&self, call: &Call<'_>) -> Result<Uri, NotCallable> {
        let chat = call.provider.chat_path.as_str();
        if call.protocol == Protocol::Chat {
            return join(call.base(), chat);
        }
        let path = path(call.protocol, call.operation)?;
        join(call.base(), &format!("{}{path}", folder(chat)))
    }

    fn collection(
        &self,
        call: &Call<'_>,
        collection: Collection,
        behind: &str,
    ) -> Result<Uri, NotCallable> {
        let (folder, path) = (folder(&call.provider.chat_path), collection.path());
        join(call.base(), &format!("{folder}{path}{behind}"))
    }

    fn reshape<'a>(&self, call: &Call<'a>) -> Reshape<'a> {
        reshape(self.like(call))
    }

    fn lists(&self, call: &Call<'_>) -> Result<Vec<Uri>, NotCallable> {
        // Beside chat completions, wherever those are.
        let root = call.provider.chat_path.strip_suffix("/chat/completions");
        let path = format!("{}/models", root.unwrap_or("/v1"));
        Ok(vec![join(call.base(), &path)?])
    }
}

/// Mistral tells the usage of every stream, and refuses to be asked for it.
pub(super) fn reshape(like: &str) -> Reshape<'static> {
    Reshape {
        without_stream_options: like == "mistral",
        ..Reshape::default()
    }
}

/// What stands beside chat completions.
fn folder(chat_path: &str) -> &str {
    chat_path.strip_suffix("/chat/completions").unwrap_or("/v1")
}

/// Behind the version, of any provider with OpenAI's paths.
pub(super) fn path(protocol: Protocol, operation: Operation) -> Result<&'static str, NotCallable> {
    match (protocol, operation) {
        (Protocol::Chat, Operation::Answer) => Ok("/chat/completions"),
        (Protocol::Completions, Operation::Answer) => Ok("/completions"),
        (Protocol::Embeddings, Operation::Answer) => Ok("/embeddings"),
        (Protocol::Passing(passing), Operation::Answer) => Ok(passing.path()),
        (Protocol::Responses, Operation::Answer) => Ok("/responses"),
        (Protocol::Responses, Operation::CountTokens) => Ok("/responses/input_tokens"),
        (
            Protocol::Messages
            | Protocol::Converse
            | Protocol::Cohere
            | Protocol::Generate
            | Protocol::EmbedContent
            | Protocol::BatchEmbedContents
            | Protocol::Predict,
            _,
        )
        | (_, Operation::CountTokens) => Err("it has no address for this protocol".into()),
    }
}
