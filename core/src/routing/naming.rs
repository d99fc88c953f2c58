//! The same model under the names that different providers have for it.
//!
//! `gpt-4o` is `openai/gpt-4o` at OpenRouter; `claude-sonnet-4` is
//! `us.anthropic.claude-sonnet-4-20250514-v1:0` at Bedrock. What a provider's keys and its own list name is
//! known; what the same model is called elsewhere is derived from it. An alias of a key needs none of
//! this: the key serves the name that is asked for.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::ids::ModelId;

/// How a provider names models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// As everybody does.
    #[default]
    Plain,
    /// With the vendor in front: `openai/gpt-4o`.
    Vendor,
    /// With the vendor in front, and a date behind an `@`: `anthropic/claude-sonnet-4@20250514`.
    Vertex,
    /// With region, vendor and version: `us.anthropic.claude-sonnet-4-20250514-v1:0`.
    Bedrock,
}

/// What a provider's models are called, there and elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// What the provider itself says that it has; empty where it has not been asked.
    listed: BTreeSet<ModelId>,
    /// Common name to the provider's own.
    own: BTreeMap<ModelId, ModelId>,
    /// The provider's own name to the common one.
    common: BTreeMap<ModelId, ModelId>,
}

impl Names {
    /// From the names that the provider's keys have (`keyed`) and those that it lists itself.
    #[must_use]
    pub fn new(
        naming: Naming,
        keyed: impl IntoIterator<Item = ModelId>,
        listed: BTreeSet<ModelId>,
    ) -> Self {
        let mut names = Self::default();
        let keyed: BTreeSet<ModelId> = keyed.into_iter().collect();
        for own in keyed.iter().chain(&listed) {
            for (at, common) in naming.common(own.as_str()).into_iter().enumerate() {
                let common = ModelId::from(common.into_owned());
                if at == 0 {
                    names
                        .common
                        .entry(own.clone())
                        .or_insert_with(|| common.clone());
                }
                names.own.entry(common).or_insert_with(|| own.clone());
            }
        }
        names.listed = listed;
        names
    }

    /// The provider's own name for a model that is asked for by its common one.
    #[must_use]
    pub fn own(&self, asked: &ModelId) -> Option<&ModelId> {
        self.own.get(asked)
    }

    /// What others call a model of the provider's.
    #[must_use]
    pub fn common(&self, own: &ModelId) -> Option<&ModelId> {
        self.common.get(own)
    }

    /// Whether the provider itself lists the model.
    #[must_use]
    pub fn lists(&self, model: &ModelId) -> bool {
        self.listed.contains(model)
    }

    /// What the provider itself lists, in order.
    pub fn listed(&self) -> impl Iterator<Item = &ModelId> {
        self.listed.iter()
    }
}

impl Naming {
    /// What others call a model of this name: the most usual first.
    fn common(self, own: &str) -> Vec<Cow<'_, str>> {
        match self {
            Self::Plain => Vec::new(),
            Self::Vendor => without_vendor(own).map(Cow::Borrowed).into_iter().collect(),
            Self::Vertex => vertex(own),
            Self::Bedrock => bedrock(own).into_iter().map(Cow::Borrowed).collect(),
        }
    }
}

fn without_vendor(own: &str) -> Option<&str> {
    let (_, model) = own.split_once('/')?;
    (!model.is_empty()).then_some(model)
}

fn vertex(own: &str) -> Vec<Cow<'_, str>> {
    let bare = without_vendor(own);
    let dated = bare.unwrap_or(own).split_once('@');
    let dated = dated.filter(|(name, date)| !name.is_empty() && !date.is_empty());
    let mut names = Vec::new();
    if let Some((name, date)) = dated {
        names.push(Cow::Borrowed(name));
        names.push(Cow::Owned(format!("{name}-{date}")));
    }
    names.extend(bare.map(Cow::Borrowed));
    names
}

fn bedrock(own: &str) -> Vec<&str> {
    const REGIONS: [&str; 7] = ["us.", "eu.", "apac.", "jp.", "au.", "us-gov.", "global."];
    let without_region = REGIONS.iter().find_map(|region| own.strip_prefix(region));
    let Some((_, model)) = without_region.unwrap_or(own).split_once('.') else {
        return Vec::new();
    };
    let model = without_version(model);
    let undated = without_date(model);
    let mut names = vec![undated];
    if undated != model {
        names.push(model);
    }
    names.retain(|name| !name.is_empty());
    names
}

/// Without `-v1:0` or `-v2` at its end.
fn without_version(model: &str) -> &str {
    let Some((name, version)) = model.rsplit_once("-v") else {
        return model;
    };
    let is_version = version.chars().all(|c| c.is_ascii_digit() || c == ':');
    if is_version && !version.is_empty() {
        name
    } else {
        model
    }
}

/// Without `-20250514` at its end.
fn without_date(model: &str) -> &str {
    match model.rsplit_once('-') {
        Some((name, date)) if date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit()) => name,
        Some(_) | None => model,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(naming: Naming, keyed: &[&str], listed: &[&str]) -> Names {
        let ids = |names: &[&str]| {
            let ids = names.iter().map(|name| ModelId::from(*name));
            ids.collect::<Vec<ModelId>>()
        };
        Names::new(naming, ids(keyed), ids(listed).into_iter().collect())
    }

    fn own<'n>(names: &'n Names, asked: &str) -> Option<&'n str> {
        names.own(&ModelId::from(asked)).map(ModelId::as_str)
    }

    #[test]
    fn a_vendor_in_front_is_no_part_of_the_common_name() {
        let router = names(Naming::Vendor, &["openai/gpt-4o", "auto"], &["a/b/c"]);
        assert_eq!(own(&router, "gpt-4o"), Some("openai/gpt-4o"));
        assert_eq!(own(&router, "b/c"), Some("a/b/c"));
        assert_eq!(own(&router, "auto"), None, "it is asked for as it is");
        let common = router.common(&ModelId::from("openai/gpt-4o"));
        assert_eq!(common.map(ModelId::as_str), Some("gpt-4o"));
        assert!(router.lists(&ModelId::from("a/b/c")));
        assert!(!router.lists(&ModelId::from("auto")));
    }

    #[test]
    fn bedrock_names_a_model_with_region_vendor_date_and_version() {
        let id = "us.anthropic.claude-sonnet-4-20250514-v1:0";
        let bedrock = names(Naming::Bedrock, &[id, "amazon.nova-pro-v1:0", "odd"], &[]);
        assert_eq!(own(&bedrock, "claude-sonnet-4"), Some(id));
        assert_eq!(own(&bedrock, "claude-sonnet-4-20250514"), Some(id));
        assert_eq!(own(&bedrock, "nova-pro"), Some("amazon.nova-pro-v1:0"));
        assert_eq!(own(&bedrock, "odd"), None);
        let common = bedrock.common(&ModelId::from(id));
        assert_eq!(common.map(ModelId::as_str), Some("claude-sonnet-4"));
    }

    #[test]
    fn vertex_names_a_model_with_vendor_and_date() {
        let id = "anthropic/claude-sonnet-4@20250514";
        let vertex = names(
            Naming::Vertex,
            &[id, "gemini-pro", "claude-3@1"],
            &["google/g"],
        );
        for asked in [
            "claude-sonnet-4",
            "claude-sonnet-4-20250514",
            "claude-sonnet-4@20250514",
        ] {
            assert_eq!(own(&vertex, asked), Some(id), "{asked}");
        }
        assert_eq!(own(&vertex, "claude-3"), Some("claude-3@1"));
        assert_eq!(own(&vertex, "g"), Some("google/g"));
        assert_eq!(own(&vertex, "gemini-pro"), None, "it is asked for as it is");
        let common = vertex.common(&ModelId::from(id));
        assert_eq!(common.map(ModelId::as_str), Some("claude-sonnet-4"));
    }

    #[test]
    fn what_keys_name_comes_before_what_is_listed() {
        let both = names(Naming::Vendor, &["z/m"], &["a/m", "z/m"]);
        assert_eq!(own(&both, "m"), Some("z/m"));
        let plain = names(Naming::Plain, &["a/m"], &["b"]);
        assert_eq!(own(&plain, "m"), None);
    }
}
