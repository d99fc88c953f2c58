//! Which path of inference is which protocol.

use std::borrow::Cow;

use crate::protocols::passing::Passing;
use crate::protocols::{Operation, Protocol};

/// One path of inference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// What its clients speak.
    pub protocol: Protocol,
    /// What is asked for.
    pub operation: Operation,
    /// Answers carry `extra_fields`: the gateway's own routes, whose clients know them.
    pub unified: bool,
    /// Who is asked for a model that no provider is named for, where it is configured and serves it.
    pub family: Option<&'static str>,
    /// The model, where the path has it.
    pub model: Option<String>,
    /// The path asks for a stream. Elsewhere the body does.
    pub stream: bool,
    /// The stream is to be one JSON list of its events: Google's way without `alt=sse`.
    pub listed: bool,
}

impl Route {
    const fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            operation: Operation::Answer,
            unified: false,
            family: None,
            model: None,
            stream: false,
            listed: false,
        }
    }

    fn unified(self) -> Self {
        Self {
            unified: true,
            ..self
        }
    }
}

impl Route {
    /// The same with what its query says.
    #[must_use]
    pub fn with_query(self, query: Option<&str>) -> Self {
        let as_events = query.is_some_and(|query| query.split('&').any(|pair| pair == "alt=sse"));
        Self {
            listed: self.listed && !as_events,
            ..self
        }
    }

    /// What `extra_fields` and log records call such a request.
    #[must_use]
    pub const fn request_type(&self, stream: bool) -> &'static str {
        self.protocol.request_type(self.operation, stream)
    }
}

/// The route of a path; none where there is no inference.
#[must_use]
pub fn find(path: &str) -> Option<Route> {
    // The one that nearly all take.
    if path == super::paths::CHAT_COMPLETIONS {
        return Some(Route::new(Protocol::Chat).unified());
    }
    if let Some(rest) = path.strip_prefix("/openai") {
        return openai(rest);
    }
    if let Some(rest) = path.strip_prefix("/anthropic") {
        return messages(rest.strip_prefix("/v1")?);
    }
    if let Some(rest) = path.strip_prefix(super::paths::GENAI) {
        return generate(rest);
    }
    if let Some(rest) = path.strip_prefix("/bedrock/model/") {
        return converse(rest);
    }
    if path == "/cohere/v2/chat" {
        return Some(Route {
            family: Some("cohere"),
            ..Route::new(Protocol::Cohere)
        });
    }
    unified(path.strip_prefix("/v1")?)
}

/// Behind `/openai`: what OpenAI's clients ask for, and Azure's, who put an `openai` of their own before it.
fn openai(path: &str) -> Option<Route> {
    if let Some((name, operation)) = deployment(path) {
        return Some(Route {
            unified: false,
            family: Some("azure"),
            model: Some(percent_decoded(name)),
            ..unified(operation)?
        });
    }
    let azures = path.strip_prefix("/openai");
    let rest = azures.unwrap_or(path);
    let found = unified(rest.strip_prefix("/v1").unwrap_or(rest))?;
    let theirs = found.protocol != Protocol::Messages;
    theirs.then_some(Route {
        unified: false,
        family: Some(azures.map_or("openai", |_| "azure")),
        ..found
    })
}

/// The model that Azure's clients name in the path, and what is asked of it, such as `/chat/completions`.
fn deployment(path: &str) -> Option<(&str, &str)> {
    let path = path.strip_prefix("/openai").unwrap_or(path);
    let path = path.strip_prefix("/deployments/")?;
    let path = (!path.starts_with('/')).then_some(path)?;
    // Names may have slashes.
    let mut slashes = path.match_indices('/').map(|(at, _)| path.split_at(at));
    slashes.find(|(_, rest)| unified(rest).is_some_and(|route| has_deployments(&route)))
}

/// Whether Azure's clients ask for it at a deployment.
const fn has_deployments(route: &Route) -> bool {
    match route.protocol {
        Protocol::Chat | Protocol::Completions | Protocol::Embeddings | Protocol::Passing(_) => {
            true
        }
        Protocol::Messages
        | Protocol::Responses
        | Protocol::Generate
        | Protocol::EmbedContent
        | Protocol::BatchEmbedContents
        | Protocol::Predict
        | Protocol::Converse
        | Protocol::Cohere => false,
    }
}

/// A model's id, percent-encoded as it is in paths, and what is asked of it.
fn converse(path: &str) -> Option<Route> {
    let (id, operation) = path.rsplit_once('/')?;
    let stream = match operation {
        "converse" => false,
        "converse-stream" => true,
        _ => return None,
    };
    Some(Route {
        family: Some("bedrock"),
        model: Some(percent_decoded(id)),
        stream,
        ..Route::new(Protocol::Converse)
    })
}

fn unified(path: &str) -> Option<Route> {
    match path {
        "/chat/completions" => Some(Route::new(Protocol::Chat).unified()),
        "/completions" => Some(Route::new(Protocol::Completions).unified()),
        "/embeddings" => Some(Route::new(Protocol::Embeddings).unified()),
        "/responses" => Some(Route::new(Protocol::Responses).unified()),
        "/responses/input_tokens" => Some(Route {
            operation: Operation::CountTokens,
            ..Route::new(Protocol::Responses)
        }),
        _ => messages(path).or_else(|| passing(path)),
    }
}

fn passing(path: &str) -> Option<Route> {
    let found = Passing::ALL.into_iter().find(|one| one.path() == path);
    found.map(|one| Route::new(Protocol::Passing(one)).unified())
}

fn messages(path: &str) -> Option<Route> {
    let route = Route {
        family: Some("anthropic"),
        ..Route::new(Protocol::Messages)
    };
    match path {
        "/messages" => Some(route),
        "/messages/count_tokens" => Some(Route {
            operation: Operation::CountTokens,
            ..route
        }),
        _ => None,
    }
}

/// Behind `/genai`: a version, the model, and what is to be done with it.
fn generate(path: &str) -> Option<Route> {
    let named = google_models(path)?.strip_prefix('/')?;
    let (model, verb) = google_verb(named)?;
    let (protocol, operation, stream) = match verb {
        "generateContent" => (Protocol::Generate, Operation::Answer, false),
        "streamGenerateContent" => (Protocol::Generate, Operation::Answer, true),
        "countTokens" => (Protocol::Generate, Operation::CountTokens, false),
        "embedContent" => (Protocol::EmbedContent, Operation::Answer, false),
        "batchEmbedContents" => (Protocol::BatchEmbedContents, Operation::Answer, false),
        _ => return None,
    };
    Some(Route {
        operation,
        family: Some("gemini"),
        model: Some(percent_decoded(model)),
        stream,
        listed: stream,
        ..Route::new(protocol)
    })
}

/// A model and what is to be done with it: behind the last colon, which some clients percent-encode.
fn google_verb(named: &str) -> Option<(&str, &str)> {
    let colons = [":", "%3A", "%3a"];
    let splits = colons.into_iter().filter_map(|c| named.rsplit_once(c));
    splits.max_by_key(|(model, _)| model.len())
}

/// Whether something is to be done with one of Google's models that is not done here.
#[must_use]
pub fn is_unknown_verb(path: &str) -> bool {
    let behind = path.strip_prefix(super::paths::GENAI);
    let named = behind.and_then(google_models).unwrap_or_default();
    google_verb(named).is_some() && find(path).is_none()
}

/// The path as metrics label it: one of a closed set, whatever a caller asks for.
#[must_use]
pub fn label(path: &str) -> Cow<'static, str> {
    if path == super::paths::CHAT_COMPLETIONS {
        return Cow::Borrowed(super::paths::CHAT_COMPLETIONS);
    }
    match find(path) {
        Some(Route { model: None, .. }) => Cow::Owned(path.to_owned()),
        Some(Route { model: Some(_), .. }) => Cow::Owned(label_with_model(path)),
        None => super::kept::label(path).map_or(Cow::Borrowed("other"), Cow::Owned),
    }
}

/// The label of a path that leads somewhere and names a model.
fn label_with_model(path: &str) -> String {
    if let Some((_, operation)) = path.strip_prefix("/openai").and_then(deployment) {
        return format!("/openai/deployments/{{model}}{operation}");
    }
    if path.starts_with("/bedrock/") {
        let operation = path.rsplit('/').next().unwrap_or_default();
        return format!("/bedrock/model/{{model}}/{operation}");
    }
    // The model stands between the last slash and the verb.
    let verb = google_verb(path).map_or("", |(_, verb)| verb);
    let version = path.split('/').nth(2).unwrap_or_default();
    format!("{}/{version}/models/{{model}}:{verb}", super::paths::GENAI)
}

/// What stands behind `models` in a path behind `/genai`.
#[must_use]
pub fn google_models(path: &str) -> Option<&str> {
    google_version(path)?.strip_prefix("/models")
}

/// What stands behind the version, with its slash.
pub(super) fn google_version(path: &str) -> Option<&str> {
    let behind = path.strip_prefix('/')?;
    let (version, rest) = behind.split_at(behind.find('/')?);
    matches!(version, "v1" | "v1beta" | "v1alpha").then_some(rest)
}

/// Text out of a path. What is badly encoded stays as it is.
#[must_use]
pub fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let pair = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let byte = pair.and_then(|pair| u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok());
        match byte {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Whose errors a client at this path reads, whether it leads anywhere or not.
#[must_use]
pub fn dialect(path: &str) -> Protocol {
    if let Some(route) = find(path) {
        return route.protocol;
    }
    if path.starts_with("/anthropic/") {
        return Protocol::Messages;
    }
    if path.starts_with(super::paths::GENAI) {
        return Protocol::Generate;
    }
    if path.starts_with("/bedrock/") {
        return Protocol::Converse;
    }
    if path.starts_with("/cohere/") {
        return Protocol::Cohere;
    }
    Protocol::Chat
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_a_closed_set() {
        for (path, expected) in [
            ("/v1/chat/completions", "/v1/chat/completions"),
            ("/openai/v1/embeddings", "/openai/v1/embeddings"),
            (
                "/genai/v1beta/models/any-name:generateContent",
                "/genai/v1beta/models/{model}:generateContent",
            ),
            (
                "/genai/v1beta/models/any%3Aname%3agenerateContent",
                "/genai/v1beta/models/{model}:generateContent",
            ),
            ("/genai/v9/models/any-name:generateContent", "other"),
            (
                "/bedrock/model/any-name:0/converse-stream",
                "/bedrock/model/{model}/converse-stream",
            ),
            (
                "/openai/openai/deployments/any/name/chat/completions",
                "/openai/deployments/{model}/chat/completions",
            ),
            (
                "/genai/v1/models/a:b:countTokens",
                "/genai/v1/models/{model}:countTokens",
            ),
            ("/v1/made-up", "other"),
            ("/v1/files/f-1", "/v1/files/{id}"),
        ] {
            assert_eq!(label(path), expected, "{path}");
        }
    }

    #[test]
    fn paths_lead_where_clients_expect() {
        let found = |path: &str| {
            let route = find(path)?;
            Some((route.protocol, route.operation, route.unified, route.family))
        };
        use Operation::{Answer, CountTokens};
        use Protocol::{Chat, Embeddings, Generate, Messages, Responses};
        for (path, expected) in [
            ("/v1/chat/completions", Some((Chat, Answer, true, None))),
            (
                "/openai/v1/chat/completions",
                Some((Chat, Answer, false, Some("openai"))),
            ),
            (
                "/openai/chat/completions",
                Some((Chat, Answer, false, Some("openai"))),
            ),
            ("/v1/embeddings", Some((Embeddings, Answer, true, None))),
            (
                "/v1/messages",
                Some((Messages, Answer, false, Some("anthropic"))),
            ),
            (
                "/anthropic/v1/messages",
                Some((Messages, Answer, false, Some("anthropic"))),
            ),
            (
                "/anthropic/v1/messages/count_tokens",
                Some((Messages, CountTokens, false, Some("anthropic"))),
            ),
            (
                "/openai/v1/audio/transcriptions",
                Some((
                    Protocol::Passing(Passing::Transcriptions),
                    Answer,
                    false,
                    Some("openai"),
                )),
            ),
            (
                "/v1/rerank",
                Some((Protocol::Passing(Passing::Rerank), Answer, true, None)),
            ),
            ("/openai/v1/messages", None),
            ("/anthropic/v1/chat/completions", None),
            ("/v1/models", None),
            ("/chat/completions", None),
            ("/v1/responses", Some((Responses, Answer, true, None))),
            (
                "/openai/v1/responses",
                Some((Responses, Answer, false, Some("openai"))),
            ),
            (
                "/v1/responses/input_tokens",
                Some((Responses, CountTokens, false, None)),
            ),
            (
                "/genai/v1beta/models/gemini-flash:generateContent",
                Some((Generate, Answer, false, Some("gemini"))),
            ),
            (
                "/genai/v1/models/gemini-flash:countTokens",
                Some((Generate, CountTokens, false, Some("gemini"))),
            ),
            ("/genai/v1beta/models/gemini-flash:predict", None),
            ("/genai/v1beta/models", None),
            ("/genai/models/m:generateContent", None),
        ] {
            assert_eq!(found(path), expected, "{path}");
        }
    }

    #[test]
    fn a_prefix_tells_in_which_dialect_errors_are() {
        for (path, expected) in [
            ("/anthropic/v1/nothing", Protocol::Messages),
            ("/bedrock/nothing", Protocol::Converse),
            ("/cohere/nothing", Protocol::Cohere),
            ("/v1/nothing", Protocol::Chat),
            ("/genai/v1beta/nothing", Protocol::Generate),
        ] {
            assert_eq!(dialect(path), expected, "{path}");
        }
    }

    #[test]
    fn google_paths_have_the_model_and_the_stream() {
        let route =
            find("/genai/v1beta/models/anthropic%2Fclaude:x:streamGenerateContent").unwrap();
        assert_eq!(route.model.as_deref(), Some("anthropic/claude:x"));
        assert!(route.stream && route.listed);
        assert!(!route.clone().with_query(Some("key=1&alt=sse")).listed);
        assert!(route.with_query(Some("alt=json")).listed);
        for encoded in ["gemini%3A2%3AgenerateContent", "gemini:2%3agenerateContent"] {
            let route = find(&format!("/genai/v1beta/models/{encoded}")).unwrap();
            assert_eq!(route.model.as_deref(), Some("gemini:2"), "{encoded}");
        }
        for (path, unknown) in [
            ("/genai/v1beta/models/m:predict", true),
            ("/genai/v1beta/models/m%3Apredict", true),
            ("/genai/v1beta/models/m:generateContent", false),
            ("/genai/v1beta/models/m", false),
            ("/v1/models/m:8b", false),
        ] {
            assert_eq!(is_unknown_verb(path), unknown, "{path}");
        }
        let route = find("/genai/v1beta/models/vertex/m:batchEmbedContents").unwrap();
        assert_eq!(route.model.as_deref(), Some("vertex/m"));
        assert_eq!(route.protocol, Protocol::BatchEmbedContents);
        assert_eq!(percent_decoded("a%2fb%zz%c3%bc%+1%é%"), "a/b%zzü%+1%é%");
    }

    #[test]
    fn azures_clients_name_a_deployment() {
        for (path, expected) in [
            (
                "/openai/openai/deployments/gpt-4o/chat/completions",
                Some((Protocol::Chat, "gpt-4o")),
            ),
            (
                "/openai/deployments/anthropic/claude-x/chat/completions",
                Some((Protocol::Chat, "anthropic/claude-x")),
            ),
            (
                "/openai/deployments/openai%2Fx/embeddings",
                Some((Protocol::Embeddings, "openai/x")),
            ),
            (
                "/openai/deployments/x/images/generations",
                Some((Protocol::Passing(Passing::ImageGenerations), "x")),
            ),
            ("/openai/deployments/x/messages", None),
            ("/openai/deployments/x/responses", None),
            ("/openai/deployments//chat/completions", None),
            ("/openai/deployments/x", None),
            ("/v1/deployments/x/chat/completions", None),
        ] {
            let route = find(path);
            let found = route.as_ref();
            let found = found.and_then(|route| Some((route.protocol, route.model.as_deref()?)));
            assert_eq!(found, expected, "{path}");
            assert!(route.is_none_or(|route| route.family == Some("azure")));
        }
        let responses = find("/openai/openai/responses").unwrap();
        assert_eq!(responses.family, Some("azure"));
        assert_eq!(responses.protocol, Protocol::Responses);
    }

    #[test]
    fn a_model_in_the_path_is_read() {
        let found = |path: &str| {
            let route = find(path)?;
            Some((route.protocol, route.model?, route.stream))
        };
        let model = "anthropic.claude-x-v1:0".to_owned();
        assert_eq!(
            found("/bedrock/model/anthropic.claude-x-v1%3A0/converse"),
            Some((Protocol::Converse, model, false))
        );
        let named = "openai/gpt-4o".to_owned();
        for path in ["openai%2Fgpt-4o", "openai/gpt-4o"] {
            let path = format!("/bedrock/model/{path}/converse-stream");
            let expected = Some((Protocol::Converse, named.clone(), true));
            assert_eq!(found(&path), expected);
        }
        assert_eq!(found("/bedrock/model/x/invoke"), None);
        let cohere = find("/cohere/v2/chat").unwrap();
        assert_eq!(
            (cohere.protocol, cohere.family),
            (Protocol::Cohere, Some("cohere"))
        );
    }
}
