//! Things that a provider keeps (responses, files, batches): asked of it untouched, never converted.
//!
//! Each belongs to one account, and nobody but the provider knows to which: without a pin, what has an id is
//! looked for with one key after the other, and what makes or lists things begins with the first key that is
//! not held, so that the next call finds what the last one made. Nothing is learnt from the answers: a key
//! that may not see files may serve models all the same.
//!
//! Google's uploads in pieces stay with the account that began them: see [`upload`].
//!
//! A body that is small is read and can be sent again; a larger one moves through as the provider takes it,
//! once. Answers move through as the client takes them.

mod answer;
mod asked;
mod record;
mod results;
mod send;
mod upload;

use std::time::Instant;

use http::{HeaderValue, Request, Response};
use hyper::body::Incoming;

use holdline_core::walk::backoff_ms;

use super::account;
use super::admit;
use super::failed::{Failed, Late};
use super::outgoing::REQUEST_ID;
use super::{Pipeline, Told};
use crate::api::error::{ApiError, ErrorExtra, error_type};
use crate::api::kept::Kept;
use crate::protocols::kept::Verb;
use crate::server::Body;
use answer::Taken;
use asked::Asked;
use record::Record;
use send::{Sending, Source};

/// Serves one request for something that is kept.
pub(super) async fn serve(
    pipeline: &Pipeline,
    request: Request<Incoming>,
    kept: Kept,
    verb: Verb,
) -> Response<Body> {
    let arrived = (Instant::now(), pipeline.node.clock.wall());
    let id = admit::request_id(request.headers());
    let dialect = kept.collection.protocol();
    let asked = Asked::read(pipeline, request, (kept, verb), &id, arrived.0).await;
    let mut response = match asked {
        Ok((asked, body)) => {
            let record = Record::new(&pipeline.node, &asked, arrived);
            let served = run(pipeline, &asked, Source::of(body), record).await;
            served.unwrap_or_else(|refusal| refusal.into_response_in(dialect))
        }
        Err(mut refusal) => {
            refusal.extra_fields.request_type = Some(verb.kind);
            account::refused(&pipeline.node, &id, arrived, &refusal);
            refusal.into_response_in(dialect)
        }
    };
    if let Ok(id) = HeaderValue::try_from(id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// Asks key after key until one serves; the same again after a failure that passes.
async fn run(
    pipeline: &Pipeline,
    asked: &Asked,
    source: Source,
    mut record: Record,
) -> Result<Response<Body>, ApiError> {
    let policy = asked.provider.retry;
    let mut refusal: Option<Failed> = None;
    let mut retries = 0;
    let mut keys = asked.keys.iter();
    let mut key = keys.next();
    while let Some(with) = key {
        let sending = Sending::new(pipeline, asked, with.as_deref());
        let begun = Instant::now();
        let taken = match sending.send(&source).await {
            Ok(accepted) => {
                let now = pipeline.node.clock.wall();
                Taken::of(accepted, asked, with.as_deref(), now).await
            }
            Err(failed) => Err(failed),
        };
        let failed = match taken {
            Ok(taken) => {
                record.attempt(with.as_deref(), None, begun);
                return Ok(taken.into_response(asked, record));
            }
            Err(failed) => failed,
        };
        pipeline.forget_token(with.as_deref(), &failed);
        record.attempt(with.as_deref(), Some(&failed), begun);
        if let Some(broken) = source.broken() {
            let refusal = asked.broken_body(broken);
            record.end(refusal.status_code, Some(told_of(&refusal)));
            return Err(refusal);
        }
        let again = source.can_be_sent_again();
        if again && asked.may_try_again(&failed) && retries < policy.max_retries {
            let wait = backoff_ms(policy, retries, &mut rand::rng());
            retries += 1;
            let until = pipeline.node.clock.now().plus_ms(wait);
            if super::sleep(pipeline.node.clock.until(until), asked.deadline).await {
                continue;
            }
            refusal = Some(Failed::late(Late::Caller, std::time::Duration::ZERO));
            break;
        }
        key = keys.next().filter(|_| again && asked.is_anothers(&failed));
        // That a key which sees the rest does not know it says more than that another may see nothing.
        let says_more = refusal.as_ref().is_none_or(|f| f.failure.status != 404);
        if says_more || !asked.is_anothers(&failed) {
            refusal = Some(failed);
        }
    }
    let none = || Failed::misconfigured("no key of it is enabled");
    let refusal = refusal.unwrap_or_else(none);
    let error = told(&refusal, asked);
    let told = Told {
        class: Some(refusal.failure.class),
        error_type: error.extra_fields.error_type,
    };
    record.end(error.status_code, Some(told));
    Err(error)
}

fn told_of(refusal: &ApiError) -> Told {
    Told {
        class: None,
        error_type: refusal.extra_fields.error_type,
    }
}

fn told(failed: &Failed, asked: &Asked) -> ApiError {
    let failure = &failed.failure;
    let status = super::call::client_status(failure.status);
    let mut error = ApiError::new(status, "", error_type(failure.class, failure.status), "");
    error.error = (*failed.error).clone();
    *error.extra_fields = ErrorExtra {
        error_type: error.extra_fields.error_type,
        provider: Some(asked.provider.id.as_str().to_owned()),
        request_type: Some(asked.verb.kind),
        failure_class: Some(failure.class),
        retry_after_ms: failure.retry_after_ms,
        ..ErrorExtra::default()
    };
    error
}
