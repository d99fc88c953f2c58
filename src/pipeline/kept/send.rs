//! One call with one key: addressed, signed, sent, awaited up to the head of its answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::ACCEPT;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::super::Pipeline;
use super::super::call::{Limit, refused};
use super::super::failed::{Failed, Judge, Late};
use super::super::outgoing::introduce;
use super::super::upstream::sent::{Broken, Passing, Progress, Sent};
use super::asked::{Asked, Given};
use crate::config::Key;
use crate::protocols::kept::Collection;
use crate::protocols::{Operation, Protocol};
use crate::providers::{Adapter, Call, NotCallable};

/// Where an attempt's body comes from.
pub(super) enum Source {
    /// It is known.
    Whole(Bytes),
    /// From the client, as it comes.
    Passing(Mutex<Option<Passing>>, Arc<Progress>),
}

impl Source {
    pub(super) fn of(given: Given) -> Self {
        match given {
            Given::Whole(bytes) => Self::Whole(bytes),
            Given::Unread(client, limit) => {
                let (passing, progress) = Passing::new(client, limit);
                Self::Passing(Mutex::new(Some(passing)), progress)
            }
        }
    }

    pub(super) const fn can_be_sent_again(&self) -> bool {
        matches!(self, Self::Whole(_))
    }

    /// Why the client's body did not get through.
    pub(super) fn broken(&self) -> Option<Broken> {
        match self {
            Self::Whole(_) => None,
            Self::Passing(_, progress) => progress.broken(),
        }
    }
}

/// A call that is about to be made.
pub(super) struct Sending<'a> {
    pipeline: &'a Pipeline,
    asked: &'a Asked,
    adapter: Option<&'static dyn Adapter>,
    call: Call<'a>,
}

/// The head of an answer that is no refusal, and who knows what must not come back in it.
pub(super) struct Accepted {
    pub(super) response: Response<Incoming>,
    pub(super) judge: Judge,
}

impl<'a> Sending<'a> {
    pub(super) fn new(pipeline: &'a Pipeline, asked: &'a Asked, key: Option<&'a Key>) -> Self {
        let call = Call {
            provider: &asked.provider,
            key,
            protocol: asked.kept.collection.protocol(),
            operation: Operation::Answer,
            stream: false,
            model: "",
            alias: None,
            client: &asked.client_headers,
        };
        Self {
            pipeline,
            asked,
            adapter: asked.provider.kind.adapter(),
            call,
        }
    }

    /// Makes the call.
    pub(super) async fn send(&self, source: &Source) -> Result<Accepted, Failed> {
        let network = &self.asked.provider.network;
        let node = &self.pipeline.node;
        let mut judge = Judge::of_key(node, self.call.provider, self.call.key);
        if let Some(own) = &self.asked.own_key {
            judge.secret = Some(own.clone());
        }
        let patience = network.request_timeout;
        let callers = self.asked.deadline.map(Instant::from_std);
        let limit = Limit {
            providers: Instant::now() + patience,
            label: "request_timed_out",
            callers,
        };
        let late = |late| Failed::late(late, patience);
        let request = self.request(source, &mut judge);
        let request = limit.race(request).await.map_err(late)??;
        let (request, progress) = with_body(request, source)?;
        let sent = self.pipeline.upstream.send(network, request);
        let response = await_head(sent, progress.as_deref(), patience, callers).await?;
        let response = response.map_err(|error| Failed::transport(&error))?;
        if !response.status().is_success() {
            let limit = Limit {
                providers: Instant::now() + patience,
                ..limit
            };
            return Err(refused(response, limit, &judge).await);
        }
        Ok(Accepted { response, judge })
    }

    /// The request but for a body that passes.
    async fn request(&self, source: &Source, judge: &mut Judge) -> Result<Request<Bytes>, Failed> {
        let misconfigured = |error: NotCallable| Failed::misconfigured(&error.to_string());
        let Some(adapter) = self.adapter else {
            return Err(Failed::not_spoken(
                self.call.provider.id.as_str(),
                Protocol::Responses,
                Operation::Answer,
            ));
        };
        let body = match source {
            Source::Whole(bytes) => bytes.clone(),
            Source::Passing(..) => Bytes::new(),
        };
        let mut request = Request::new(body);
        *request.method_mut() = self.asked.method.clone();
        *request.uri_mut() = self.address(adapter).map_err(misconfigured)?;
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        let (asked, network) = (self.asked, &self.call.provider.network);
        introduce(headers, Some(&asked.id), network, &asked.extra_headers);
        for (name, value) in &asked.content_headers {
            headers.insert(name, value.clone());
        }
        let is_callers = self.asked.own_key.is_some();
        let tokens = &self.pipeline.tokens;
        tokens
            .prove(adapter, &self.call, is_callers, judge, &mut request)
            .await?;
        Ok(request)
    }

    fn address(&self, adapter: &dyn Adapter) -> Result<Uri, NotCallable> {
        let kept = &self.asked.kept;
        // Uploads are called like the files that become of them, and are elsewhere.
        let place = self.asked.provider.custom.place(self.asked.verb.kind);
        let place = place.filter(|_| kept.collection != Collection::Uploads);
        let uri = match place {
            Some(place) => place.of_kept(self.call.base(), kept.ids(), kept.behind())?,
            None => adapter.collection(&self.call, kept.collection, kept.behind())?,
        };
        let Some(query) = &self.asked.query else {
            return Ok(uri);
        };
        let mark = if uri.query().is_some() { '&' } else { '?' };
        let target = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let target = format!("{target}{mark}{query}");
        let mut parts = uri.into_parts();
        let unfit = || NotCallable::from("the query cannot be passed on");
        parts.path_and_query = Some(PathAndQuery::try_from(target).map_err(|_| unfit())?);
        Uri::from_parts(parts).map_err(|_| unfit())
    }
}

fn with_body(
    request: Request<Bytes>,
    source: &Source,
) -> Result<(Request<Sent>, Option<Arc<Progress>>), Failed> {
    match source {
        Source::Whole(_) => Ok((request.map(Sent::from), None)),
        Source::Passing(client, progress) => {
            let client = client.lock().unwrap_or_else(PoisonError::into_inner).take();
            let gone = || Failed::misconfigured("its body was sent before");
            let client = client.ok_or_else(gone)?;
            let request = request.map(|_| Sent::Passing(client));
            Ok((request, Some(Arc::clone(progress))))
        }
    }
}

/// Waits for the head of an answer: so long after the request, or after the last piece of its body moved.
async fn await_head<T>(
    sent: impl Future<Output = T>,
    progress: Option<&Progress>,
    patience: Duration,
    callers: Option<Instant>,
) -> Result<T, Failed> {
    let mut sent = std::pin::pin!(sent);
    let begun = Instant::now();
    loop {
        let moved = progress.map_or(begun, |progress| Instant::from_std(progress.moved()));
        let limit = Limit {
            providers: moved.max(begun) + patience,
            label: "request_timed_out",
            callers,
        };
        match limit.race(sent.as_mut()).await {
            Ok(done) => return Ok(done),
            Err(Late::Provider(label)) => {
                let still = progress.is_some_and(|p| Instant::from_std(p.moved()) > moved);
                if !still {
                    let late = Failed::late(Late::Provider(label), patience);
                    let stuck = progress.is_some_and(|progress| !progress.is_over());
                    return Err(if stuck { Failed::stuck(patience) } else { late });
                }
            }
            Err(Late::Caller) => return Err(Failed::late(Late::Caller, patience)),
        }
    }
}
