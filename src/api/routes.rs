//! Which path of inference is which protocol.

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
    /// What `extra_fields` and log records call such a request.
    #[must_use]
    pub const fn request_type(&self, stream: bool) -> &'static str {
        match (self.operation, self.protocol) {
            (Operation::CountTokens, _) => "count_tokens",
            (Operation::Answer, Protocol::Chat | Protocol::Messages) if stream => {
                "chat_completion_stream"
            }
            (Operation::Answer, Protocol::Chat | Protocol::Messages) => "chat_completion",
            (Operation::Answer, Protocol::Completions) if stream => "text_completion_stream",
            (Operation::Answer, Protocol::Completions) => "text_completion",
            (Operation::Answer, Protocol::Embeddings) => "embedding",
        }
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
        let found = unified(rest.strip_prefix("/v1").unwrap_or(rest))?;
        let theirs = found.protocol != Protocol::Messages;
        return theirs.then_some(Route {
            unified: false,
            family: Some("openai"),
            ..found
        });
    }
    if let Some(rest) = path.strip_prefix("/anthropic") {
        return messages(rest.strip_prefix("/v1")?);
    }
    unified(path.strip_prefix("/v1")?)
}

fn unified(path: &str) -> Option<Route> {
    match path {
        "/chat/completions" => Some(Route::new(Protocol::Chat).unified()),
        "/completions" => Some(Route::new(Protocol::Completions).unified()),
        "/embeddings" => Some(Route::new(Protocol::Embeddings).unified()),
        _ => messages(path),
    }
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

/// Whose errors a client at this path reads, whether it leads anywhere or not.
#[must_use]
pub fn dialect(path: &str) -> Protocol {
    if let Some(route) = find(path) {
        return route.protocol;
    }
    if path.starts_with("/anthropic/") {
        return Protocol::Messages;
    }
    Protocol::Chat
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_where_clients_expect() {
        let found = |path: &str| {
            let route = find(path)?;
            Some((route.protocol, route.operation, route.unified, route.family))
        };
        use Operation::{Answer, CountTokens};
        use Protocol::{Chat, Embeddings, Messages};
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
            ("/openai/v1/messages", None),
            ("/anthropic/v1/chat/completions", None),
            ("/v1/models", None),
            ("/chat/completions", None),
        ] {
            assert_eq!(found(path), expected, "{path}");
        }
        assert_eq!(dialect("/anthropic/v1/nothing"), Messages);
        assert_eq!(dialect("/v1/nothing"), Chat);
    }
}
