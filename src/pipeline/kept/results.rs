//! Where the results of Anthropic's batches are. The provider says it by an address of its own, and SDKs go there
//! with what they have: the caller's credential. So these addresses, and nothing else of the answer, become the
//! gateway's.

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, Uri};
use hyper::body::Incoming;
use memchr::memmem;

use super::super::answer_headers;
use super::super::call::{Limit, read_whole};
use super::super::failed::Failed;
use super::asked::Asked;
use super::send::Accepted;
use crate::protocols::kept::Collection;
use crate::providers::percent_encoded;
use crate::server::Body;

const NAME: &[u8] = b"\"results_url\"";

/// An answer that was read to be changed.
pub(super) struct Changed {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

/// Whether the answer may say where results are. The results themselves do not, and pass.
pub(super) fn are_told(asked: &Asked) -> bool {
    asked.kept.collection == Collection::MessageBatches
        && matches!(
            asked.verb.kind,
            "batch_create" | "batch_retrieve" | "batch_list" | "batch_cancel"
        )
}

/// Reads the answer and puts the gateway's addresses in.
pub(super) async fn change(asked: &Asked, accepted: Accepted) -> Result<Changed, Failed> {
    let patience = asked.provider.network.request_timeout;
    let limit = Limit {
        providers: tokio::time::Instant::now() + patience,
        label: "request_timed_out",
        callers: asked.deadline.map(tokio::time::Instant::from_std),
    };
    let response: Response<Incoming> = accepted.response;
    let status = response.status();
    let (told, body) = read_whole(patience, response, limit).await?;
    let mut headers = answer_headers::of(&told, &accepted.judge);
    if let Some(kind) = told.get(http::header::CONTENT_TYPE) {
        headers.insert(http::header::CONTENT_TYPE, kind.clone());
    }
    let front = asked
        .door
        .as_ref()
        .and_then(|door| door.before(asked.kept.behind()));
    let named = asked.is_named.then(|| asked.provider.id.as_str());
    let body = match front {
        Some(front) => changed(&body, front, named),
        None => body,
    };
    Ok(Changed {
        status,
        headers,
        body,
    })
}

impl Changed {
    pub(super) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// The same bytes but for the addresses: those behind `front`, with the provider's name where the client gave one.
fn changed(body: &Bytes, front: &str, named: Option<&str>) -> Bytes {
    let mut out = Vec::with_capacity(body.len());
    let mut at = 0;
    for found in memmem::find_iter(body, NAME) {
        let behind = &body[found + NAME.len()..];
        let Some(colon) = behind.iter().position(|b| !b.is_ascii_whitespace()) else {
            break;
        };
        let Some(value) = behind[colon..].strip_prefix(b":") else {
            continue;
        };
        let value = value.trim_ascii_start();
        let mut texts = serde_json::Deserializer::from_slice(value).into_iter::<String>();
        let Some(Ok(theirs)) = texts.next() else {
            continue;
        };
        let Some(ours) = address(&theirs, front, named) else {
            continue;
        };
        let start = body.len() - value.len();
        out.extend_from_slice(&body[at..start]);
        out.extend_from_slice(serde_json::Value::from(ours).to_string().as_bytes());
        at = start + texts.byte_offset();
    }
    if at == 0 {
        return body.clone();
    }
    out.extend_from_slice(&body[at..]);
    out.into()
}

/// The gateway's address of these results; none where it is no address of results.
fn address(theirs: &str, front: &str, named: Option<&str>) -> Option<String> {
    let uri: Uri = theirs.parse().ok()?;
    let (_, behind) = uri.path().rsplit_once(Collection::MessageBatches.path())?;
    let id = behind.strip_prefix('/')?.strip_suffix("/results")?;
    crate::api::kept::is_id(id).then_some(())?;
    let named = named.map(|name| format!("provider={}", percent_encoded(name)));
    let query: Vec<&str> = uri.query().into_iter().chain(named.as_deref()).collect();
    let mark = if query.is_empty() { "" } else { "?" };
    Some(format!("{front}/{id}/results{mark}{}", query.join("&")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRONT: &str = "http://gw/anthropic/v1/messages/batches";

    fn run(body: &str, named: Option<&str>) -> String {
        let changed = changed(&Bytes::from(body.to_owned()), FRONT, named);
        String::from_utf8(changed.to_vec()).unwrap()
    }

    #[test]
    fn only_addresses_of_results_are_changed() {
        let theirs = r#""https:\/\/api.anthropic.com/v1/messages/batches/b_1/results""#;
        let ours = format!("\"{FRONT}/b_1/results\"");
        for body in [
            r#"{ "id":"b_1", "results_url" : @, "n":1.10}"#,
            r#"{"data":[{"results_url":@},{"results_url":null},{"results_url":@}],"x":"\u00e9"}"#,
        ] {
            assert_eq!(
                run(&body.replace('@', theirs), None),
                body.replace('@', &ours)
            );
        }
        for body in [
            r#"{"note":"\"results_url\":\"https://h/messages/batches/b/results\""}"#,
            r#"{"results_url":"https://h/elsewhere"}"#,
            r#"{"results_url":"https://h/v1/messages/batches/..%2F/results"}"#,
            r#"{"a":"results_url"}"#,
            r#"{"results_url""#,
            r#"{"results_url":"https://h"#,
        ] {
            assert_eq!(run(body, None), body);
        }
    }

    #[test]
    fn a_provider_that_was_named_is_named_again() {
        let body = r#"{"results_url":"https://h/v1/messages/batches/b/results?beta=true"}"#;
        let expected = format!(r#"{{"results_url":"{FRONT}/b/results?beta=true&provider=a%20b"}}"#);
        assert_eq!(run(body, Some("a b")), expected);
    }
}
