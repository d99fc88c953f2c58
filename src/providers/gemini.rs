//! Google's Gemini: the model stands in the path, the key in `x-goog-api-key`. OpenAI's embeddings are
//! asked of its endpoint that speaks like OpenAI.

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderName, Request, Uri};

use holdline_core::time::WallMs;

use super::{Adapter, Call, Credential, NotCallable, join, percent_encoded};
use crate::protocols::kept::Collection;
use crate::protocols::{Operation, Protocol};

const KEY_HEADER: HeaderName = HeaderName::from_static("x-goog-api-key");

const VERSION: &str = "/v1beta";

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
            return join(call.base(), &format!("{VERSION}/openai/embeddings"));
        }
        let model = call.model.strip_prefix("models/").unwrap_or(call.model);
        let resource = match model.strip_prefix("tunedModels/") {
            Some(tuned) => format!("tunedModels/{}", percent_encoded(tuned)),
            None => format!("models/{}", percent_encoded(model)),
        };
        join(
            call.base(),
            &format!("{VERSION}/{resource}:{}", verb(call)?),
        )
    }

    fn collection(
        &self,
        call: &Call<'_>,
        collection: Collection,
        behind: &str,
    ) -> Result<Uri, NotCallable> {
        let path = format!("{VERSION}{}{behind}", collection.path());
        let uri = join(call.base(), &path)?;
        if collection == Collection::GoogleUploads {
            before_version(uri, "/upload", &path)
        } else {
            Ok(uri)
        }
    }

    fn lists(&self, call: &Call<'_>) -> Result<Vec<Uri>, NotCallable> {
        Ok(vec![join(
            call.base(),
            &format!("{VERSION}/models?pageSize=1000"),
        )?])
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

/// Google has another root for uploads, before the version at the end of a base URL too.
fn before_version(uri: Uri, root: &str, path: &str) -> Result<Uri, NotCallable> {
    let unfit = || NotCallable::from("the provider's base URL has no place for uploads");
    let front = uri.path().strip_suffix(path).ok_or_else(unfit)?;
    let query = uri.query().map(|query| format!("?{query}"));
    let target = format!("{front}{root}{path}{}", query.unwrap_or_default());
    let mut parts = uri.into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(target).map_err(|_| unfit())?);
    Uri::from_parts(parts).map_err(|_| unfit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_have_a_root_of_their_own() {
        for (base, expected) in [
            ("https://h", "https://h/upload/v1beta/files"),
            ("https://h/v1beta", "https://h/upload/v1beta/files"),
            (
                "http://h/at/one/v1beta",
                "http://h/at/one/upload/v1beta/files",
            ),
            ("http://h/one?k=1", "http://h/one/upload/v1beta/files?k=1"),
        ] {
            let path = "/v1beta/files";
            let uri = join(&base.parse().unwrap(), path).unwrap();
            let uri = before_version(uri, "/upload", path).unwrap();
            assert_eq!(uri.to_string(), expected);
        }
    }
}
