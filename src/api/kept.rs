//! Which path leads to which thing that a provider keeps.

use http::{HeaderMap, Method};

use super::paths;
use super::routes::google_version;
use crate::protocols::kept::{Collection, Verb};

/// Longest id that is passed on.
const MAX_ID: usize = 256;

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Among what.
    pub collection: Collection,
    /// Which one, or which in which; none for all of them.
    ids: Vec<String>,
    /// What stands behind the collection's path.
    behind: String,
    /// The same with marks for ids.
    pattern: &'static str,
}

impl Kept {
    /// What stands behind the collection's path.
    #[must_use]
    pub fn behind(&self) -> &str {
        &self.behind
    }

    /// The ids in it, and the model's name; none for the whole collection.
    #[must_use]
    pub fn ids(&self) -> &[String] {
        &self.ids
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
        let verbs = self.collection.verbs().iter().copied();
        verbs.filter(move |verb| verb.behind == self.pattern)
    }
}

/// What a path leads to, if anything that is kept. `/v1/files` is Anthropic's for whoever sends the header that
/// every client of Anthropic sends.
#[must_use]
pub fn find(path: &str, headers: &HeaderMap) -> Option<Kept> {
    let anthropics = headers.contains_key("anthropic-version");
    lookup(path, anthropics)
}

/// The path as metrics label it, without its ids.
#[must_use]
pub fn label(path: &str) -> Option<String> {
    let kept = lookup(path, false)?;
    let root = path.strip_suffix(kept.behind())?;
    Some(format!("{root}{}", kept.pattern))
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
    if let Some(rest) = path.strip_prefix(paths::GENAI) {
        return googles(rest);
    }
    let rest = path.strip_prefix("/v1")?;
    let files = if anthropics {
        Collection::AnthropicFiles
    } else {
        Collection::Files
    };
    among(rest, &[files, Collection::MessageBatches]).or_else(|| among(rest, &OPENAI))
}

const OPENAI: [Collection; 5] = [
    Collection::Responses,
    Collection::Files,
    Collection::Uploads,
    Collection::Batches,
    Collection::Containers,
];

const GOOGLE: [Collection; 4] = [
    Collection::GoogleFiles,
    Collection::GoogleBatches,
    Collection::GoogleModels,
    Collection::GoogleCaches,
];

/// Behind `/genai`. Uploads and downloads have places of their own before the version.
fn googles(path: &str) -> Option<Kept> {
    if let Some(rest) = path.strip_prefix("/upload") {
        return among(google_version(rest)?, &[Collection::GoogleUploads]);
    }
    if let Some(rest) = path.strip_prefix("/download") {
        let found = among(google_version(rest)?, &[Collection::GoogleFiles])?;
        return found.pattern.ends_with(":download").then_some(found);
    }
    among(google_version(path)?, &GOOGLE)
}

fn among(path: &str, collections: &[Collection]) -> Option<Kept> {
    collections.iter().find_map(|collection| {
        let behind = path.strip_prefix(collection.path())?;
        collection.verbs().iter().find_map(|verb| {
            let ids = ids_in(behind, verb.behind)?;
            Some(Kept {
                collection: *collection,
                ids: ids.into_iter().map(str::to_owned).collect(),
                behind: behind.to_owned(),
                pattern: verb.behind,
            })
        })
    })
}

/// What stands in a path where the pattern has its marks; none where it is another path.
fn ids_in<'p>(mut path: &'p str, mut pattern: &str) -> Option<Vec<&'p str>> {
    let mut ids = Vec::new();
    while let Some((before, rest)) = pattern.split_once('{') {
        let (_, after) = rest.split_once('}')?;
        path = path.strip_prefix(before)?;
        let (id, behind) = path.split_at(path.find(['/', ':']).unwrap_or(path.len()));
        ids.push(Some(id).filter(|id| is_id(id))?);
        (path, pattern) = (behind, after);
    }
    (path == pattern).then_some(ids)
}

/// Nothing that could lead elsewhere.
#[must_use]
pub fn is_id(id: &str) -> bool {
    let is_safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    (1..=MAX_ID).contains(&id.len()) && id.bytes().all(is_safe) && !id.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leads(path: &str, expected: Option<(Collection, &str, &str)>) {
        let found = find(path, &HeaderMap::new());
        let found = found.map(|kept| (kept.collection, kept.behind().to_owned(), kept.methods()));
        let expected =
            expected.map(|(c, behind, methods)| (c, behind.to_owned(), methods.to_owned()));
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn openais_paths_lead_to_what_is_kept() {
        use Collection::{Batches, Containers, Files, Responses, Uploads};
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
            ("/v1/uploads", Some((Uploads, "", "POST"))),
            (
                "/openai/v1/uploads/u_1/parts",
                Some((Uploads, "/u_1/parts", "POST")),
            ),
            ("/v1/containers", Some((Containers, "", "POST, GET"))),
            (
                "/v1/containers/c_1",
                Some((Containers, "/c_1", "GET, DELETE")),
            ),
            (
                "/openai/containers/c/files",
                Some((Containers, "/c/files", "POST, GET")),
            ),
            (
                "/v1/containers/c/files/f",
                Some((Containers, "/c/files/f", "GET, DELETE")),
            ),
            (
                "/v1/containers/c/files/f/content",
                Some((Containers, "/c/files/f/content", "GET")),
            ),
        ] {
            leads(path, expected);
        }
    }

    #[test]
    fn anthropics_paths_lead_to_what_is_kept() {
        use Collection::{AnthropicFiles, MessageBatches};
        for (path, expected) in [
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
        ] {
            leads(path, expected);
        }
    }

    #[test]
    fn googles_paths_lead_to_what_is_kept() {
        use Collection::{GoogleBatches, GoogleCaches, GoogleFiles, GoogleModels, GoogleUploads};
        for (path, expected) in [
            (
                "/genai/upload/v1beta/files",
                Some((GoogleUploads, "", "POST")),
            ),
            ("/genai/v1beta/files", Some((GoogleFiles, "", "GET"))),
            (
                "/genai/v1/files/abc-1",
                Some((GoogleFiles, "/abc-1", "GET, DELETE")),
            ),
            (
                "/genai/v1beta/files/a:download",
                Some((GoogleFiles, "/a:download", "GET")),
            ),
            (
                "/genai/download/v1beta/files/a:download",
                Some((GoogleFiles, "/a:download", "GET")),
            ),
            (
                "/genai/v1beta/batches/b:cancel",
                Some((GoogleBatches, "/b:cancel", "POST")),
            ),
            (
                "/genai/v1beta/models/gemini-2.5-flash:batchGenerateContent",
                Some((
                    GoogleModels,
                    "/gemini-2.5-flash:batchGenerateContent",
                    "POST",
                )),
            ),
            (
                "/genai/v1alpha/cachedContents/c",
                Some((GoogleCaches, "/c", "GET, PATCH, DELETE")),
            ),
            ("/genai/upload/v1beta/files/a", None),
            ("/genai/upload/files", None),
            ("/genai/download/v1beta/files/a", None),
            ("/genai/v9/files", None),
            ("/genai/v1beta/files/../x", None),
            ("/genai/v1beta/files/a:other", None),
            ("/genai/v1beta/models", None),
            ("/genai/v1beta/models/m", None),
            ("/genai/v1beta/models/m:generateContent", None),
        ] {
            leads(path, expected);
        }
    }

    #[test]
    fn other_paths_lead_nowhere() {
        for path in [
            "/v1/uploads/u",
            "/v1/containers/c/files/",
            "/v1/containers/c/files/..",
            "/v1/files/a:download",
            "/v1/responses/",
            "/v1/responses",
            "/v1/responses/a/b",
            "/v1/responses/..%2Fx",
            "/v1/files/../x",
            "/v1/files/a/content/b",
            "/v1/filesystem",
            "/v1/batches/b/results",
            "/anthropic/v1/batches",
            "/openai/v1/messages/batches",
            "/anthropic/v1/responses/a",
            "/files",
        ] {
            leads(path, None);
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
            (
                "/v1/containers/c/files/f/content",
                Some("/v1/containers/{id}/files/{id}/content"),
            ),
            (
                "/genai/download/v1beta/files/a:download",
                Some("/genai/download/v1beta/files/{id}:download"),
            ),
            (
                "/genai/v1beta/models/m-2.5:batchGenerateContent",
                Some("/genai/v1beta/models/{model}:batchGenerateContent"),
            ),
            ("/v1/files/a b", None),
        ] {
            assert_eq!(label(path).as_deref(), expected, "{path}");
        }
    }
}
