//! Cohere: its own chat and rerank, and its endpoint that speaks OpenAI's embeddings.

use http::Uri;

use super::{Adapter, Call, NotCallable, join};
use crate::protocols::Protocol;
use crate::protocols::passing::Passing;

/// The adapter.
#[derive(Clone, Copy, Debug)]
pub struct Cohere;

impl Adapter for Cohere {
    fn endpoint(&self, call: &Call<'_>) -> Result<Uri, NotCallable> {
        let path = match call.protocol {
            Protocol::Embeddings => "/compatibility/v1/embeddings",
            Protocol::Cohere => "/v2/chat",
            Protocol::Passing(Passing::Rerank) => "/v2/rerank",
            Protocol::Chat
            | Protocol::Messages
            | Protocol::Responses
            | Protocol::Generate
            | Protocol::Converse
            | Protocol::Completions
            | Protocol::EmbedContent
            | Protocol::BatchEmbedContents
            | Protocol::Predict
            | Protocol::Passing(_) => {
                return Err("Cohere is asked in its own protocol only".into());
            }
        };
        join(call.base(), path)
    }

    fn lists(&self, call: &Call<'_>) -> Result<Vec<Uri>, NotCallable> {
        Ok(vec![join(call.base(), "/v1/models?page_size=1000")?])
    }
}
