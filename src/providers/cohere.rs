//! Cohere: its own chat and rerank, and its endpoint that speaks OpenAI's embeddings.

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{Request, Uri};

use holdline_core::time::WallMs;

use super::{Adapter, Call, Credential, NotCallable, join, put_secret};
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

    fn sign(
        &self,
        _call: &Call<'_>,
        credential: Credential<'_>,
        _now: WallMs,
        request: &mut Request<Bytes>,
    ) -> Result<(), NotCallable> {
        match credential {
            Credential::None | Credential::Aws(_) => Ok(()),
            Credential::Secret(secret) | Credential::Token(secret) => {
                put_secret(request.headers_mut(), AUTHORIZATION, "Bearer ", secret)
            }
        }
    }
}
