//! `custom_provider_config`: whose protocol a provider speaks, which kinds of request it takes, at which
//! addresses, and how its streams end.

use std::collections::{BTreeMap, BTreeSet};

use http::Uri;
use http::uri::PathAndQuery;

use super::builtin::{self, Builtin};
use super::network::base_url;
use super::reader::Object;
use crate::providers::{NotCallable, join, percent_encoded};

/// What providers are asked for, under the names that log records have too.
const KINDS: [&str; 49] = [
    "list_models",
    "text_completion",
    "text_completion_stream",
    "chat_completion",
    "chat_completion_stream",
    "responses",
    "responses_stream",
    "responses_retrieve",
    "responses_delete",
    "responses_cancel",
    "responses_input_items",
    "count_tokens",
    "embedding",
    "rerank",
    "moderation",
    "speech",
    "speech_stream",
    "transcription",
    "transcription_stream",
    "image_generation",
    "image_generation_stream",
    "image_edit",
    "image_edit_stream",
    "image_variation",
    "file_upload",
    "file_list",
    "file_retrieve",
    "file_content",
    "file_delete",
    "batch_create",
    "batch_list",
    "batch_retrieve",
    "batch_results",
    "batch_cancel",
    "batch_delete",
    "container_create",
    "container_list",
    "container_retrieve",
    "container_delete",
    "container_file_create",
    "container_file_list",
    "container_file_retrieve",
    "container_file_content",
    "container_file_delete",
    "cached_content_create",
    "cached_content_list",
    "cached_content_retrieve",
    "cached_content_update",
    "cached_content_delete",
];

/// Kinds of Bifrost's that nobody is asked for here.
const NEVER_ASKED: [&str; 12] = [
    "compaction",
    "ocr",
    "video_generation",
    "video_retrieve",
    "video_download",
    "video_delete",
    "video_list",
    "video_remix",
    "passthrough",
    "passthrough_stream",
    "websocket_responses",
    "realtime",
];

/// What a provider is asked, where, and how its streams end. By default everything, where such providers take
/// it, with a mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomRules {
    /// `allowed_requests`; all where it is absent.
    allowed: Option<BTreeSet<&'static str>>,
    /// `request_path_overrides`.
    places: BTreeMap<&'static str, Place>,
    /// `does_not_send_done_marker`: a stream is over when its model has finished.
    pub no_end_mark: bool,
    /// `wait_for_usage`: and not before its usage came.
    pub waits_for_usage: bool,
}

/// A path behind the base URL, or a URL of its own; `{model}` and `{id}` stand for those of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place(String);

/// The block, read.
pub(super) struct CustomConfig {
    pub(super) base: Option<&'static Builtin>,
    pub(super) keyless: bool,
    /// Where chat completions are, if that is a path: other endpoints stand beside it.
    pub(super) chat_path: Option<String>,
    pub(super) rules: CustomRules,
}

impl CustomRules {
    /// Whether requests of this kind may go there.
    #[must_use]
    pub fn takes(&self, kind: &str) -> bool {
        let allowed = self.allowed.as_ref();
        allowed.is_none_or(|allowed| allowed.contains(kind))
    }

    /// Where requests of this kind go, if that is configured. Streams go where the others go, unless they
    /// have a place of their own.
    #[must_use]
    pub fn place(&self, kind: &str) -> Option<&Place> {
        let plain = || self.places.get(kind.strip_suffix("_stream")?);
        self.places.get(kind).or_else(plain)
    }
}

impl Place {
    /// The address of a call with this model.
    ///
    /// # Errors
    /// When no address comes of it.
    pub fn of_model(&self, base: &Uri, model: &str) -> Result<Uri, NotCallable> {
        self.address(base, &self.0.replace("{model}", &percent_encoded(model)))
    }

    /// The address of something that is kept: with these ids, and with this behind it at other providers
    /// (`/ID/cancel`), which stands behind the place where that does not say where the ids stand.
    ///
    /// # Errors
    /// When no address comes of it.
    pub fn of_kept(&self, base: &Uri, ids: &[String], behind: &str) -> Result<Uri, NotCallable> {
        let Some(last) = ids.last() else {
            return self.address(base, &self.0);
        };
        if ["{id}", "{model}"].iter().any(|mark| self.0.contains(mark)) {
            let in_turn = |place: String, id: &String| place.replacen("{id}", id, 1);
            let place = ids.iter().fold(self.0.replace("{model}", last), in_turn);
            return self.address(base, &place.replace("{id}", last));
        }
        let (path, query) = self.0.split_once('?').unwrap_or((&self.0, ""));
        let mark = if query.is_empty() { "" } else { "?" };
        self.address(base, &format!("{path}{behind}{mark}{query}"))
    }

    fn address(&self, base: &Uri, text: &str) -> Result<Uri, NotCallable> {
        if text.starts_with('/') {
            return join(base, text);
        }
        let unfit = |_| NotCallable::from("its request_path_overrides make no address of this");
        text.parse().map_err(unfit)
    }
}

/// Reads the block.
pub(super) fn read(block: Object<'_, '_>, allow_private: bool) -> CustomConfig {
    let named = block.text("base_provider_type");
    let base = named.and_then(builtin::find);
    if base.is_none() {
        let message =
            "must name the built-in provider whose protocol this one speaks, such as \"openai\"";
        block.error("base_provider_type", message);
    }
    let places = places(&block, allow_private);
    let chat = places.get("chat_completion").map(|place| place.0.clone());
    let config = CustomConfig {
        base,
        keyless: block.bool("is_key_less").unwrap_or(false),
        chat_path: chat.filter(|place| place.starts_with('/')),
        rules: CustomRules {
            allowed: allowed(&block),
            places,
            no_end_mark: block.bool("does_not_send_done_marker").unwrap_or(false),
            waits_for_usage: block.bool("wait_for_usage").unwrap_or(false),
        },
    };
    if config.rules.waits_for_usage && !config.rules.no_end_mark {
        block.warn(
            "wait_for_usage",
            "has no effect without does_not_send_done_marker: a stream is read to its end mark",
        );
    }
    block.finish();
    config
}

fn allowed(block: &Object<'_, '_>) -> Option<BTreeSet<&'static str>> {
    let fields = block.object("allowed_requests")?;
    let kinds = KINDS.into_iter();
    let allowed: BTreeSet<_> = kinds
        .filter(|kind| fields.bool(kind).unwrap_or(false))
        .collect();
    fields.without_effect(&NEVER_ASKED);
    if allowed.is_empty() {
        let message = "allows no request: nothing goes to this provider";
        block.warn("allowed_requests", message);
    }
    fields.finish();
    Some(allowed)
}

fn places(block: &Object<'_, '_>, allow_private: bool) -> BTreeMap<&'static str, Place> {
    let Some(fields) = block.object("request_path_overrides") else {
        return BTreeMap::new();
    };
    let kinds = KINDS.into_iter();
    let places = kinds
        .filter_map(|kind| {
            let text = fields.text(kind)?;
            place(&fields, kind, text, allow_private).map(|place| (kind, place))
        })
        .collect();
    fields.without_effect(&NEVER_ASKED);
    fields.finish();
    places
}

fn place(fields: &Object<'_, '_>, kind: &str, text: &str, allow_private: bool) -> Option<Place> {
    let filled = text.replace("{model}", "m").replace("{id}", "i");
    if text.starts_with('/') {
        if filled.parse::<PathAndQuery>().is_ok() && !text.contains('#') {
            return Some(Place(text.to_owned()));
        }
    } else if text.contains("://") {
        // A query may stand there, other than in a base URL.
        let (url, query) = filled.split_once('?').unwrap_or((&filled, ""));
        base_url(fields, kind, url, allow_private)?;
        if filled.parse::<Uri>().is_ok() && !query.contains('#') {
            return Some(Place(text.to_owned()));
        }
    }
    fields.error(
        kind,
        "must be a path that starts with /, or a URL such as \"https://host/path\"",
    );
    None
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::reader::Reader;
    use super::*;

    /// What was read, errors, warnings.
    fn read_from(fields: Value, allow_private: bool) -> (CustomConfig, String, String) {
        let mut block = json!({"base_provider_type": "openai"});
        for (name, value) in fields.as_object().unwrap() {
            block[name] = value.clone();
        }
        let reader = Reader::new(&|_| None);
        let config = read(reader.object("c", &block).unwrap(), allow_private);
        let (errors, warnings) = reader.finish();
        let lines = |found: Vec<super::super::reader::Finding>| {
            let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
            lines.join("\n")
        };
        (config, lines(errors), lines(warnings))
    }

    fn rules(fields: Value) -> CustomRules {
        let (config, errors, warnings) = read_from(fields, false);
        assert_eq!((errors.as_str(), warnings.as_str()), ("", ""));
        config.rules
    }

    #[test]
    fn absent_allows_all_and_present_only_what_is_true() {
        for all in [json!({}), json!({"allowed_requests": null})] {
            let rules = rules(all);
            assert!(KINDS.iter().all(|kind| rules.takes(kind)));
        }
        let some = json!({"chat_completion": true, "embedding": true, "responses": false});
        let some = rules(json!({"allowed_requests": some}));
        let taken: Vec<&str> = KINDS.into_iter().filter(|kind| some.takes(kind)).collect();
        assert_eq!(taken, ["chat_completion", "embedding"]);
        let (none, errors, warnings) = read_from(json!({"allowed_requests": {}}), false);
        assert!(!KINDS.iter().any(|kind| none.rules.takes(kind)));
        assert_eq!(errors, "");
        assert_eq!(
            warnings,
            "c.allowed_requests: allows no request: nothing goes to this provider"
        );
    }

    #[test]
    fn mistakes_name_the_kind() {
        let (_, errors, warnings) = read_from(
            json!({"allowed_requests": {"chat_completion": 1, "chat_completions": true, "ocr": true, "realtime": false}}),
            false,
        );
        assert_eq!(
            errors,
            "c.allowed_requests.chat_completion: must be true or false, not 1"
        );
        assert!(
            warnings
                .contains("c.allowed_requests.ocr: accepted, but this version does not act on it")
                && warnings.contains("c.allowed_requests.chat_completions: unknown field")
                && !warnings.contains("realtime"),
            "{warnings}"
        );
        let shape =
            "must be a path that starts with /, or a URL such as \"https://host/path\"".to_owned();
        for (text, expected) in [
            ("chat", shape.clone()),
            ("/a b", shape.clone()),
            ("/a#b", shape.clone()),
            ("https://h/a?b#c", shape),
            ("ftp://h/a", "must start with http:// or https://".to_owned()),
            ("https://me:pw@h/a", "must not contain a user or password: use a key or extra_headers".to_owned()),
            ("https://h:99999/a", "has a port that is not a number from 1 to 65535".to_owned()),
            ("https://[::1]:0/a", "has a port that is not a number from 1 to 65535".to_owned()),
            ("http://10.1.2.3/a", "is an address of a private network: set allow_private_network beside it if that is meant".to_owned()),
            ("http://169.254.169.254/a", "is link-local (169.254.0.0/16, fe80::/10) or a cloud's metadata service, which is never called: it is where clouds keep credentials".to_owned()),
        ] {
            let (_, errors, _) =
                read_from(json!({"request_path_overrides": {"embedding": text}}), false);
            let path = "c.request_path_overrides.embedding: ";
            assert_eq!(errors, format!("{path}{expected}"), "{text}");
        }
        let private = json!({"request_path_overrides": {"embedding": "http://10.1.2.3/a"}});
        assert_eq!(read_from(private, true).1, "");
        let (_, _, warnings) = read_from(json!({"wait_for_usage": true}), false);
        assert_eq!(
            warnings,
            "c.wait_for_usage: has no effect without does_not_send_done_marker: a stream is read to its end mark"
        );
    }

    #[test]
    fn each_kind_has_its_place() {
        let rules = rules(json!({"request_path_overrides": {
            "chat_completion": "/talk?x=1",
            "embedding": "https://other.example/e/{model}?v=2",
            "responses_stream": "/live",
            "batch_retrieve": "/b",
            "batch_cancel": "/b?v=1",
            "file_content": "/f/{id}/raw",
            "batch_create": "/b/{model}/new",
            "container_file_retrieve": "/in/{id}/{id}?again={id}",
            "container_create": "/c",
        }}));
        let base = Uri::from_static("http://h/v1");
        let at = |kind: &str| {
            let place = rules.place(kind)?;
            Some(place.of_model(&base, "a/b").unwrap().to_string())
        };
        let talk = Some("http://h/v1/talk?x=1".to_owned());
        assert_eq!(at("chat_completion"), talk);
        assert_eq!(at("chat_completion_stream"), talk);
        assert_eq!(
            at("embedding").as_deref(),
            Some("https://other.example/e/a%2Fb?v=2")
        );
        assert_eq!(at("responses_stream").as_deref(), Some("http://h/v1/live"));
        assert_eq!(at("responses"), None);
        let of = |kind: &str, ids: &[&str], behind: &str| {
            let place = rules.place(kind).unwrap();
            let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
            place.of_kept(&base, &ids, behind).unwrap().to_string()
        };
        for (kind, ids, behind, expected) in [
            ("batch_retrieve", &["i-1"][..], "/i-1", "/b/i-1"),
            ("batch_cancel", &["i-1"], "/i-1/cancel", "/b/i-1/cancel?v=1"),
            ("file_content", &["i-1"], "/i-1/content", "/f/i-1/raw"),
            ("batch_create", &["m"], "/m:batch", "/b/m/new"),
            (
                "container_file_retrieve",
                &["c", "f"],
                "/c/files/f",
                "/in/c/f?again=f",
            ),
            ("container_create", &[], "", "/c"),
        ] {
            let expected = format!("http://h/v1{expected}");
            assert_eq!(of(kind, ids, behind), expected, "{kind}");
        }
    }
}
