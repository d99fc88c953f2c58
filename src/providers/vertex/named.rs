//! Whose model a name means, and what it is called where.

use std::borrow::Cow;

/// How a model is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Google's own.
    Google,
    /// Anthropic's, by `rawPredict`.
    Anthropic,
    /// By a `rawPredict` that takes chat completions.
    Raw,
    /// At the endpoint that speaks like OpenAI, with the publisher in the name.
    OpenApi,
    /// A tuned model of Google's, at an endpoint of the project.
    Endpoint,
}

/// A model and its publisher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named<'a> {
    pub(super) how: How,
    pub(super) publisher: Cow<'a, str>,
    pub(super) model: Cow<'a, str>,
}

/// Publishers with a `rawPredict` of their own that takes chat completions.
const RAW: [&str; 2] = ["mistralai", "ai21"];

/// Whose models are called like this: how a name begins, in lower case, and its publisher.
const BEGINNINGS: [(&str, &str); 16] = [
    ("claude", "anthropic"),
    ("codestral", "mistralai"),
    ("deepseek", "deepseek-ai"),
    ("glm", "zai-org"),
    ("gpt-oss", "openai"),
    ("grok", "xai"),
    ("jamba", "ai21"),
    ("kimi", "moonshotai"),
    ("llama", "meta"),
    ("magistral", "mistralai"),
    ("minimax", "minimaxai"),
    ("ministral", "mistralai"),
    ("mistral", "mistralai"),
    ("mixtral", "mistralai"),
    ("multilingual-e5", "intfloat"),
    ("qwen", "qwen"),
];

/// How open models end that Google runs for everybody.
const AS_A_SERVICE: &str = "-maas";

impl<'a> Named<'a> {
    /// Reads `model`, `publisher/model`, a resource's name, or the number of an endpoint. `family` is what
    /// an alias says of a name that does not tell.
    pub(super) fn of(name: &'a str, family: Option<&str>) -> Self {
        let behind = |mark: &str| name.rfind(mark).and_then(|at| name.get(at + mark.len()..));
        if let Some(id) = behind("endpoints/").or_else(|| is_number(name).then_some(name)) {
            return Self::new(How::Endpoint, "google".into(), id);
        }
        let name = behind("publishers/").unwrap_or(name);
        let name = name.strip_prefix("models/").unwrap_or(name);
        let (publisher, model) = match name.split_once("/models/").or_else(|| name.split_once('/'))
        {
            Some((publisher, model)) => (Some(publisher), model),
            None => (None, name),
        };
        let by_family = || match family? {
            "anthropic" => Some("anthropic"),
            "gemini" => Some("google"),
            "mistral" => Some("mistralai"),
            _ => None,
        };
        let publisher = match publisher {
            // As they call themselves elsewhere.
            Some("mistral") => Cow::Borrowed("mistralai"),
            Some(publisher) => Cow::Borrowed(publisher),
            None => Cow::Borrowed(by_family().unwrap_or_else(|| of_beginning(model))),
        };
        let how = match &*publisher {
            "anthropic" => How::Anthropic,
            publisher if RAW.contains(&publisher) && !model.ends_with(AS_A_SERVICE) => How::Raw,
            "google" if !model.ends_with(AS_A_SERVICE) => How::Google,
            _ => How::OpenApi,
        };
        Self::new(how, publisher, model)
    }

    fn new(how: How, publisher: Cow<'a, str>, model: &'a str) -> Self {
        let model = match how {
            How::Anthropic => dated(model),
            How::Google | How::Raw | How::OpenApi | How::Endpoint => Cow::Borrowed(model),
        };
        Self {
            how,
            publisher,
            model,
        }
    }

    /// As bodies name it.
    pub(super) fn in_body(self) -> Cow<'a, str> {
        match self.how {
            How::Google | How::Anthropic | How::Endpoint => self.model,
            // The version stands in the address only.
            How::Raw => match self.model.split_once('@') {
                Some((model, _)) => Cow::Owned(model.to_owned()),
                None => self.model,
            },
            How::OpenApi => Cow::Owned(format!("{}/{}", self.publisher, self.model)),
        }
    }

    /// Whether it is one of Mistral's.
    pub(super) fn is_mistrals(&self) -> bool {
        self.publisher == "mistralai"
    }

    /// Whether it is one of Google's that take `embedContent`; older ones take `predict`.
    pub(super) fn embeds_content(&self) -> bool {
        let rest = self.model.strip_prefix("gemini-embedding-");
        rest.is_some_and(|rest| !rest.starts_with("0") && !rest.starts_with("exp"))
    }

    /// Whether no single region has it. Anthropic's models are in single regions up to version 4.6, newer
    /// ones in `us`, `eu` and `global`
    /// (<https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai>).
    pub(super) fn is_in_large_regions_only(&self) -> bool {
        const LAST_SINGLE: (u32, u32) = (4, 6);
        if self.how != How::Anthropic {
            return false;
        }
        let name = self.model.split('@').next().unwrap_or_default();
        let mut numbers = name.split('-').filter_map(|word| word.parse::<u32>().ok());
        let version = numbers
            .next()
            .map(|major| (major, numbers.next().unwrap_or(0)));
        version.is_some_and(|version| version > LAST_SINGLE)
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn of_beginning(model: &str) -> &'static str {
    let lower = model.to_ascii_lowercase();
    let mut known = BEGINNINGS.iter();
    let found = known.find(|(beginning, _)| lower.starts_with(beginning));
    found.map_or("google", |(_, publisher)| publisher)
}

/// Anthropic's own names have the date behind a hyphen, Vertex' behind an `@`.
fn dated(model: &str) -> Cow<'_, str> {
    match model.rsplit_once('-') {
        Some((name, date)) if date.len() == 8 && is_number(date) => {
            Cow::Owned(format!("{name}@{date}"))
        }
        Some(_) | None => Cow::Borrowed(model),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How models are called, how they are asked, by which name of whose.
    const NAMES: &str = "
        gemini-2.5-pro                                  Google    google/gemini-2.5-pro
        google/gemini-2.5-pro                           Google    google/gemini-2.5-pro
        models/gemini-2.5-pro                           Google    google/gemini-2.5-pro
        publishers/google/models/g-1                    Google    google/g-1
        projects/p/locations/r/publishers/google/models/g Google  google/g
        anthropic/claude-opus-4-1                       Anthropic anthropic/claude-opus-4-1
        claude-sonnet-4@20250514                        Anthropic anthropic/claude-sonnet-4@20250514
        claude-sonnet-4-20250514                        Anthropic anthropic/claude-sonnet-4@20250514
        mistral-small-2503                              Raw       mistralai/mistral-small-2503
        mistral/codestral@2405                          Raw       mistralai/codestral@2405
        jamba-1.5-mini                                  Raw       ai21/jamba-1.5-mini
        Llama-4-scout-maas                              OpenApi   meta/Llama-4-scout-maas
        deepseek-ai/deepseek-v3-maas                    OpenApi   deepseek-ai/deepseek-v3-maas
        google/gemma-4-maas                             OpenApi   google/gemma-4-maas
        gpt-oss-120b-maas                               OpenApi   openai/gpt-oss-120b-maas
        who/knows                                       OpenApi   who/knows
        who-knows                                       Google    google/who-knows
        4711                                            Endpoint  google/4711
        projects/p/locations/r/endpoints/4711           Endpoint  google/4711
    ";

    #[test]
    fn names_tell_whose_model_it_is() {
        for line in NAMES.trim().lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let found = Named::of(words[0], None);
            let how = format!("{:?}", found.how);
            let name = format!("{}/{}", found.publisher, found.model);
            assert_eq!([&*how, &*name], words[1..], "{}", words[0]);
        }
    }

    #[test]
    fn an_aliases_family_tells_where_the_name_does_not() {
        assert_eq!(Named::of("my-own", Some("anthropic")).how, How::Anthropic);
        assert_eq!(Named::of("my-own", Some("mistral")).how, How::Raw);
        assert_eq!(Named::of("my-own", Some("gemini")).how, How::Google);
        assert_eq!(Named::of("meta/x", Some("anthropic")).how, How::OpenApi);
    }

    #[test]
    fn bodies_name_models_as_their_publishers_do() {
        for (name, body) in [
            ("google/gemini-2.5-pro", "gemini-2.5-pro"),
            ("anthropic/claude-opus-4-1", "claude-opus-4-1"),
            ("mistralai/mistral-large@2407", "mistral-large"),
            ("llama-4-scout-maas", "meta/llama-4-scout-maas"),
        ] {
            assert_eq!(Named::of(name, None).in_body(), body);
        }
    }

    #[test]
    fn newer_models_of_anthropic_are_in_large_regions_only() {
        for (name, only) in [
            ("claude-opus-4-7", true),
            ("claude-sonnet-5@20270101", true),
            ("claude-sonnet-4-6", false),
            ("claude-sonnet-4-5@20250929", false),
            ("claude-3-7-sonnet@20250219", false),
            ("claude", false),
            ("gemini-9-9", false),
        ] {
            assert_eq!(
                Named::of(name, None).is_in_large_regions_only(),
                only,
                "{name}"
            );
        }
    }

    #[test]
    fn newer_models_of_embeddings_take_contents() {
        for (name, does) in [
            ("gemini-embedding-2-preview", true),
            ("gemini-embedding-001", false),
            ("gemini-embedding-exp-03-07", false),
            ("text-embedding-005", false),
        ] {
            assert_eq!(Named::of(name, None).embeds_content(), does, "{name}");
        }
    }
}
