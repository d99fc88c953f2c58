//! Google's Gemini: the model stands in the path, the key in `x-goog-api-key`. OpenAI's embeddings are
//! asked of its endpoint that speaks like OpenAI.

use bytes::Bytes;
use http::{HeaderName, Request, Uri};

use holdline_core::time::WallMs;

use super::{Adapter, Call, Credential, NotCallable, join, percent_encoded};
use crate::protocols::{Operation, Protocol};

const KEY_HEADER: HeaderName = HeaderName::from_static("x-goog-api-key");

/// The adapter.
#[derive(Clone, Copy, Debug)]
pub struct Gemini;

/// What is done with a model, behind its name; also in Vertex' paths. Streams come as server-sent events.
///
/// # Errors
/// When Google is not asked that.
pub fn verb(call: &Call<'_>) -> Result<&'static str, NotCallable> {
    match (call.protocol, call.operation) {
        (Protocol::Generate, Operation::Answer) if call.stream => {
            Ok("streamGenerateContent?alt=sse")
        }
        (Protocol::Generate, Operation::Answer) => Ok("generateContent"),
        (Protocol::Generate, Operation::CountTokens) => Ok("countTokens"),
        (Protocol::EmbedContent, Operation::Answer) => Ok("embedContent"),
        (Protocol::BatchEmbedContents, Operation::Answer) => Ok("batchEmbedContents"),
        (Protocol::Predict, Operation::Answer) => Ok("predict"),
        (
            Protocol::Chat
            | Protocol::Messages
            | Protocol::Completions
            | Protocol::Embeddings
            | Protocol::Responses
            | Protocol::Converse
            | Protocol::Cohere
            | Protocol::Passing(_),
            _,
        )
        | (_, Operation::CountTokens) => Err("it has no address for this protocol".into()),
    }
}

impl Adapter for Gemini {
    fn endpoint(&self, call: &Call<'_>) -> Result<Uri, NotCallable> {
        if call.protocol == Protocol::Embeddings {
            return join(call.base(), "/v1beta/openai/embeddings");
        }
        let model = call.model.strip_prefix("models/").unwrap_or(call.model);
        let resource = match model.strip_prefix("tunedModels/") {
            Some(tuned) => format!("tunedModels/{}", percent_encoded(tuned)),
            None => format!("models/{}", percent_encoded(model)),
        };
        join(call.base(), &format!("/v1beta/{resource}:{}", verb(call)?))
    }

    fn lists(&self, call: &Call<'_>) -> Result<Vec<Uri>, NotCallable> {
        Ok(vec![join(call.base(), "/v1beta/models?pageSize=1000")?])
    }

    fn sign(
        &self,
        call: &Call<'_>,
        credential: Credential<'_>,
        _now: WallMs,
        request: &mut Request<Bytes>,
    ) -> Result<(), NotCallable> {
        let key_header = (call.protocol != Protocol::Embeddings).then_some(KEY_HEADER);
        credential.put(request.headers_mut(), key_header)
    }
}
