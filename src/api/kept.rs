//! Which path leads to which thing that a provider keeps.

use http::{HeaderMap, Method};

use crate::protocols::kept::{Behind, Collection, Verb};

/// Longest id that is passed on.
const MAX_ID: usize = 256;

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Among what.
    pub collection: Collection,
    /// Which one; none for all of them.
    id: Option<String>,
    /// What of it, with its slash; empty for the whole.
    part: &'static str,
}

impl Kept {
    /// What stands behind the collection's path.
    #[must_use]
    pub fn behind(&self) -> String {
        match &self.id {
            Some(id) => format!("/{id}{}", self.part),
            None => String::new(),
        }
    }

    /// Its id, empty for the whole collection.
    #[must_use]
    pub fn id(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }

    /// What of it is meant, with a leading slash; empty for the whole.
    #[must_use]
    pub const fn part(&self) -> &'static str {
        self.part
    }

    /// What the method asks of it; none where that is not served.
    #[must_use]
    pub fn verb(&self, method: &Method) -> Option<Verb> {
        self.verbs().find(|verb| verb.method == method.as_str())
    }

    /// The methods that it takes.
    #[must_use]
    pub fn methods(&self) -> String {
        let methods: Vec<&str> = self.verbs().map(|verb| verb.method).collect();
        methods.join(", ")
    }

    fn verbs(&self) -> impl Iterator<Item = Verb> {
        let behind = match self.id {
            Some(_) => Behind::Id(self.part),
            None => Behind::Nothing,
        };
        let verbs = self.collection.verbs().iter().copied();
        verbs.filter(move |verb| verb.behind == behind)
    }
}

/// What a path leads to, if anything that is kept. `/v1/files` is Anthropic's for whoever sends the header that
/// every client of Anthropic sends.
#[must_use]
pub fn find(path: &str, headers: &HeaderMap) -> Option<Kept> {
    let anthropics = headers.contains_key("anthropic-version");
    lookup(path, anthropics)
}

/// The path as metrics label it, without its id.
#[must_use]
pub fn label(path: &str) -> Option<String> {
    let kept = lookup(path, false)?;
    let root = path.strip_suffix(&kept.behind())?;
    let behind = kept.id.map(|_| format!("/{{id}}{}", kept.part));
    Some(format!("{root}{}", behind.unwrap_or_default()))
}

fn lookup(path: &str, anthropics: bool) -> Option<Kept> {
    if let Some(rest) = path.strip_prefix("/anthropic/v1") {
        return among(
            rest,
            &[Collection::AnthropicFiles, Collection::MessageBatches],
        );
    }
    if let Some(rest) = path.strip_prefix("/openai") {
        let rest = rest.strip_prefix("/v1").unwrap_or(rest);
        return among(rest, &OPENAI);
    }
    let rest = path.strip_prefix("/v1")?;
    let files = if anthropics {
        Collection::AnthropicFiles
    } else {
        Collection::Files
    };
    among(rest, &[files, Collection::MessageBatches]).or_else(|| among(rest, &OPENAI))
}

const OPENAI: [Collection; 3] = [
    Collection::Responses,
    Collection::Files,
    Collection::Batches,
];

fn among(path: &str, collections: &[Collection]) -> Option<Kept> {
    collections.iter().find_map(|collection| {
        let behind = path.strip_prefix(collection.path())?;
        let kept = if behind.is_empty() {
            Kept {
                collection: *collection,
                id: None,
                part: "",
            }
        } else {
            let behind = behind.strip_prefix('/')?;
            let (id, rest) = behind.split_at(behind.find('/').unwrap_or(behind.len()));
            let parts = collection.verbs().iter();
            let part = parts.filter_map(|verb| match verb.behind {
                Behind::Id(part) => Some(part),
                Behind::Nothing => None,
            });
            Kept {
                collection: *collection,
                id: Some(id).filter(|id| is_id(id)).map(str::to_owned),
                part: part.into_iter().find(|part| *part == rest)?,
            }
        };
        let is_served = (behind.is_empty() || kept.id.is_some()) && kept.verbs().next().is_some();
        is_served.then_some(kept)
    })
}

/// Nothing that could lead elsewhere.
fn is_id(id: &str) -> bool {
    let is_safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    (1..=MAX_ID).contains(&id.len()) && id.bytes().all(is_safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_what_is_kept() {
        use Collection::{AnthropicFiles, Batches, Files, MessageBatches, Responses};
        for (path, expected) in [
            (
                "/v1/responses/resp_1",
                Some((Responses, "/resp_1", "GET, DELETE")),
            ),
            (
                "/openai/v1/responses/resp_1/cancel",
                Some((Responses, "/resp_1/cancel", "POST")),
            ),
            (
                "/openai/responses/r-1/input_items",
                Some((Responses, "/r-1/input_items", "GET")),
            ),
            ("/v1/files", Some((Files, "", "POST, GET"))),
            (
                "/openai/files/file-1",
                Some((Files, "/file-1", "GET, DELETE")),
            ),
            (
                "/v1/files/file-1/content",
                Some((Files, "/file-1/content", "GET")),
            ),
            ("/openai/v1/batches", Some((Batches, "", "POST, GET"))),
            ("/v1/batches/b_1", Some((Batches, "/b_1", "GET"))),
            (
                "/v1/batches/b_1/cancel",
                Some((Batches, "/b_1/cancel", "POST")),
            ),
            (
                "/anthropic/v1/files/f",
                Some((AnthropicFiles, "/f", "GET, DELETE")),
            ),
            (
                "/anthropic/v1/messages/batches",
                Some((MessageBatches, "", "POST, GET")),
            ),
            (
                "/v1/messages/batches/b/results",
                Some((MessageBatches, "/b/results", "GET")),
            ),
            (
                "/anthropic/v1/messages/batches/b",
                Some((MessageBatches, "/b", "GET, DELETE")),
            ),
            ("/v1/responses/", None),
            ("/v1/responses", None),
            ("/v1/responses/a/b", None),
            ("/v1/responses/..%2Fx", None),
            ("/v1/files/../x", None),
            ("/v1/files/a/content/b", None),
            ("/v1/filesystem", None),
            ("/v1/batches/b/results", None),
            ("/anthropic/v1/batches", None),
            ("/openai/v1/messages/batches", None),
            ("/anthropic/v1/responses/a", None),
            ("/files", None),
        ] {
            let found = find(path, &HeaderMap::new());
            let found = found.map(|kept| (kept.collection, kept.behind(), kept.methods()));
            let expected =
                expected.map(|(c, behind, methods)| (c, behind.to_owned(), methods.to_owned()));
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn a_client_of_anthropic_means_its_files() {
        let mut headers = HeaderMap::new();
        headers.insert("anthropic-version", "2023-06-01".parse().unwrap());
        let found = |path| find(path, &headers).map(|kept| kept.collection);
        assert_eq!(found("/v1/files/f"), Some(Collection::AnthropicFiles));
        assert_eq!(found("/openai/v1/files"), Some(Collection::Files));
        assert_eq!(found("/v1/batches"), Some(Collection::Batches));
    }

    #[test]
    fn labels_have_no_ids() {
        for (path, expected) in [
            ("/v1/files", Some("/v1/files")),
            (
                "/openai/v1/files/f-1/content",
                Some("/openai/v1/files/{id}/content"),
            ),
            (
                "/anthropic/v1/messages/batches/b",
                Some("/anthropic/v1/messages/batches/{id}"),
            ),
            ("/v1/files/a b", None),
        ] {
            assert_eq!(label(path).as_deref(), expected, "{path}");
        }
    }
}
