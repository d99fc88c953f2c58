//! `governance.virtual_keys`: the credentials that callers show. Only digests of their values are kept.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use holdline_core::time::WallMs;
use serde_json::Value;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::reader::{Object, Reader};
use super::secret::Secret;

/// How values begin that are recognised in any credential header, in lower case.
pub const PREFIX: &str = "sk-bf-";

/// A caller's credential, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualKey {
    /// `id`.
    pub id: String,
    /// `name`.
    pub name: String,
    /// `is_active`.
    pub is_active: bool,
    /// `expires_at`.
    pub expires_at: Option<WallMs>,
}

impl VirtualKey {
    /// Why it does not count at this time; `None` where it does.
    #[must_use]
    pub fn blocked(&self, now: WallMs) -> Option<&'static str> {
        if !self.is_active {
            return Some("is inactive");
        }
        let has_expired = self.expires_at.is_some_and(|end| end.0 <= now.0);
        has_expired.then_some("has expired")
    }
}

/// All of them, found by value. The values themselves are not kept, and a look-up tells nothing of them
/// by the time it takes.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct VirtualKeys(BTreeMap<[u8; 32], Arc<VirtualKey>>);

impl VirtualKeys {
    /// The one with this value.
    #[must_use]
    pub fn find(&self, value: &str) -> Option<&Arc<VirtualKey>> {
        self.0.get(&digest(value))
    }

    /// The one with this id.
    #[must_use]
    pub fn with_id(&self, id: &str) -> Option<&Arc<VirtualKey>> {
        self.0.values().find(|key| key.id == id)
    }
}

impl fmt::Debug for VirtualKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.0.values()).finish()
    }
}

/// Whether a credential is recognisable as a virtual key's value.
#[must_use]
pub fn is_virtual(value: &str) -> bool {
    value
        .get(..PREFIX.len())
        .is_some_and(|begin| begin.eq_ignore_ascii_case(PREFIX))
}

fn digest(value: &str) -> [u8; 32] {
    Sha256::digest(value.as_bytes()).into()
}

/// Reads `virtual_keys` of the block `governance`.
pub(crate) fn virtual_keys(governance: &Object<'_, '_>) -> VirtualKeys {
    let mut keys = VirtualKeys::default();
    for (path, item) in governance.items("virtual_keys").unwrap_or_default() {
        let Some((value, key)) = virtual_key(governance.reader, &path, item) else {
            continue;
        };
        let is_known = keys.0.values().any(|known| known.id == key.id);
        if is_known {
            let message = format!("{:?} is the id of another virtual key", key.id);
            governance.reader.error(format!("{path}.id"), message);
        }
        if keys
            .0
            .insert(digest(value.expose()), Arc::new(key))
            .is_some()
        {
            let message = "is the value of another virtual key";
            governance.reader.error(format!("{path}.value"), message);
        }
    }
    keys
}

fn virtual_key(reader: &Reader<'_>, path: &str, item: &Value) -> Option<(Secret, VirtualKey)> {
    let block = reader.object(path, item)?;
    let text = |field: &'static str| {
        let text = block.text(field).map(str::trim).filter(|t| !t.is_empty());
        if text.is_none() {
            block.error(field, "is missing or empty");
        }
        text.map(str::to_owned)
    };
    let (id, name) = (text("id"), text("name"));
    let value = block.secret("value");
    match &value {
        Some(value) if !is_virtual(value.expose()) => block.warn(
            "value",
            "does not begin with sk-bf-, so it counts in the header x-bf-vk only",
        ),
        None if block.get("value").is_none() => {
            block.error("value", "is missing: what callers have to send");
        }
        Some(_) | None => {}
    }
    let expires_at = block.text("expires_at").and_then(|text| {
        let time = instant(text);
        if time.is_none() {
            block.error("expires_at", "must be a time such as 2027-01-31T00:00:00Z");
        }
        time
    });
    let is_active = block.bool("is_active").unwrap_or(true);
    block.accept(&["description"]);
    block.without_effect(&[
        "calendar_aligned",
        "team_id",
        "customer_id",
        "access_profile_id",
        "rate_limit_id",
        "provider_configs",
        "mcp_configs",
        "allow_all_providers",
        "disable_content_logging",
        "delete_after_expire",
        "budget_id",
    ]);
    block.finish();
    let key = VirtualKey {
        id: id?,
        name: name?,
        is_active,
        expires_at,
    };
    Some((value?, key))
}

fn instant(text: &str) -> Option<WallMs> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    let ms = time.unix_timestamp_nanos() / 1_000_000;
    Some(WallMs(u64::try_from(ms).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(keys: &Value) -> (VirtualKeys, Vec<String>, Vec<String>) {
        let (reader, block) = (Reader::new(&|_| None), json!({"virtual_keys": keys}));
        let object = reader.object("governance", &block).unwrap();
        let keys = virtual_keys(&object);
        let (errors, warnings) = reader.finish();
        let told = |all: Vec<super::super::Finding>| all.iter().map(ToString::to_string).collect();
        (keys, told(errors), told(warnings))
    }

    #[test]
    fn keys_are_found_by_value_and_keep_none() {
        let (keys, errors, warnings) = read(&json!([
            {"id": "v1", "name": "team", "value": "sk-bf-one", "expires_at": "2026-01-01T00:00:00Z"},
            {"id": "v2", "name": "old", "value": "plain", "is_active": false},
        ]));
        assert_eq!(errors, Vec::<String>::new());
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert_eq!(
            keys.find("sk-bf-one").unwrap().expires_at,
            Some(WallMs(1_767_225_600_000))
        );
        assert!(!keys.find("plain").unwrap().is_active);
        assert_eq!(keys.find("sk-bf-on"), None);
        let shown = format!("{keys:?}");
        assert!(
            shown.contains("team") && !shown.contains("sk-bf-one"),
            "{shown}"
        );
    }

    #[test]
    fn mistakes_are_named_by_their_path_and_repeat_no_value() {
        let (_, errors, _) = read(&json!([
            {"id": "v1", "name": "a", "value": "sk-bf-one", "expires_at": "soon"},
            {"id": "v1", "name": "b", "value": "sk-bf-one"},
            {"id": "", "value": 7},
            {"id": "v3", "name": "c"},
        ]));
        for path in [
            "[0].expires_at",
            "[1].id",
            "[1].value",
            "[2].id",
            "[2].name",
            "[2].value",
            "[3].value",
        ] {
            let path = format!("governance.virtual_keys{path}:");
            assert!(
                errors.iter().any(|e| e.starts_with(&path)),
                "{path} {errors:?}"
            );
        }
        assert!(!errors.join(" ").contains("sk-bf-one"));
    }
}
