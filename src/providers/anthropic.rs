//! Anthropic: `x-api-key`, a version header, and the client's own version and betas where it sent some.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Uri};

use holdline_core::time::WallMs;

use super::{Adapter, Call, Credential, NotCallable, join};
use crate::protocols::Operation;
use crate::protocols::kept::Collection;

/// Used where the client named no version.
const VERSION: &str = "2023-06-01";

const VERSION_HEADER: HeaderName = HeaderName::from_static("anthropic-version");
const BETA_HEADER: HeaderName = HeaderName::from_static("anthropic-beta");
const KEY_HEADER: HeaderName = HeaderName::from_static("x-api-key");

/// The adapter.
#[derive(Clone, Copy, Debug)]
pub struct Anthropic;

impl Adapter for Anthropic {
    fn endpoint(&self, call: &Call<'_>) -> Result<Uri, NotCallable> {
        let path = match call.operation {
            Operation::Answer => "/v1/messages",
            Operation::CountTokens => "/v1/messages/count_tokens",
        };
        join(call.base(), path)
    }

    fn collection(
        &self,
        call: &Call<'_>,
        collection: Collection,
        behind: &str,
    ) -> Result<Uri, NotCallable> {
        join(call.base(), &format!("/v1{}{behind}", collection.path()))
    }

    fn lists(&self, call: &Call<'_>) -> Result<Vec<Uri>, NotCallable> {
        Ok(vec![join(call.base(), "/v1/models?limit=1000")?])
    }

    fn sign(
        &self,
        call: &Call<'_>,
        credential: Credential<'_>,
        _now: WallMs,
        request: &mut Request<Bytes>,
    ) -> Result<(), NotCallable> {
        let headers = request.headers_mut();
        let version = call.client.get(&VERSION_HEADER).cloned();
        let version = version.or_else(|| headers.remove(&VERSION_HEADER));
        headers.insert(
            VERSION_HEADER,
            version.unwrap_or(const { HeaderValue::from_static(VERSION) }),
        );
        for beta in call.client.get_all(&BETA_HEADER) {
            headers.append(BETA_HEADER, beta.clone());
        }
        credential.put(headers, Some(KEY_HEADER))
    }
}
