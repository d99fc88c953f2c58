//! The adaptive settings: the block in the file changes what it names, a PUT replaces all nine.

use holdline_core::routing::Settings;
use holdline_core::routing::settings::RerouteTarget;
use serde_json::{Value, json};

use super::reader::{Object, Reader};

/// Settings that the block in the file names; the others stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsPatch {
    direction_selection_enabled: Option<bool>,
    route_selection_enabled: Option<bool>,
    append_fallbacks_to_pinned: Option<bool>,
    reroute_failed_directions: Option<bool>,
    reroute_target: Option<RerouteTarget>,
    prune_failed_fallbacks: Option<bool>,
    history_enabled: Option<bool>,
    history_retention_days: Option<u32>,
    snapshot_persist_interval_seconds: Option<u64>,
}

impl SettingsPatch {
    /// Reads the nine fields; the caller finishes the block.
    pub(crate) fn read(block: &Object<'_, '_>) -> Self {
        Self {
            direction_selection_enabled: block.bool("direction_selection_enabled"),
            route_selection_enabled: block.bool("route_selection_enabled"),
            append_fallbacks_to_pinned: block.bool("append_fallbacks_to_pinned"),
            reroute_failed_directions: block.bool("reroute_failed_directions"),
            reroute_target: reroute_target(block),
            prune_failed_fallbacks: block.bool("prune_failed_fallbacks"),
            history_enabled: block.bool("history_enabled"),
            history_retention_days: block.small("history_retention_days", 1..=3_650),
            snapshot_persist_interval_seconds: block
                .integer("snapshot_persist_interval_seconds", 1..=86_400),
        }
    }

    /// The settings with what the patch names replaced.
    #[must_use]
    pub fn over(&self, settings: &Settings) -> Settings {
        let keep = settings;
        Settings {
            direction_selection_enabled: self
                .direction_selection_enabled
                .unwrap_or(keep.direction_selection_enabled),
            route_selection_enabled: self
                .route_selection_enabled
                .unwrap_or(keep.route_selection_enabled),
            append_fallbacks_to_pinned: self
                .append_fallbacks_to_pinned
                .unwrap_or(keep.append_fallbacks_to_pinned),
            reroute_failed_directions: self
                .reroute_failed_directions
                .unwrap_or(keep.reroute_failed_directions),
            reroute_target: self.reroute_target.unwrap_or(keep.reroute_target),
            prune_failed_fallbacks: self
                .prune_failed_fallbacks
                .unwrap_or(keep.prune_failed_fallbacks),
            history_enabled: self.history_enabled.unwrap_or(keep.history_enabled),
            history_retention_days: self
                .history_retention_days
                .unwrap_or(keep.history_retention_days),
            snapshot_persist_interval_seconds: self
                .snapshot_persist_interval_seconds
                .unwrap_or(keep.snapshot_persist_interval_seconds),
        }
    }
}

fn reroute_target(block: &Object<'_, '_>) -> Option<RerouteTarget> {
    match block.text("reroute_target")? {
        "pool" => Some(RerouteTarget::Pool),
        "fallbacks" | "request_fallbacks" => Some(RerouteTarget::Fallbacks),
        _ => {
            block.error("reroute_target", "must be \"pool\" or \"fallbacks\"");
            None
        }
    }
}

/// What an omission in a PUT means: switches off, other fields at their default.
fn omitted() -> Settings {
    Settings {
        direction_selection_enabled: false,
        route_selection_enabled: false,
        append_fallbacks_to_pinned: false,
        reroute_failed_directions: false,
        prune_failed_fallbacks: false,
        history_enabled: false,
        ..Settings::default()
    }
}

/// Reads the body of a PUT, which replaces all nine. Unknown fields are warned of by the reader.
pub fn replacement(reader: &Reader<'_>, body: &Value) -> Option<Settings> {
    let block = reader.object("", body)?;
    let patch = SettingsPatch::read(&block);
    block.accept(&["enabled", "warnings"]);
    block.finish();
    Some(patch.over(&omitted()))
}

/// The switches that a PUT turned off by not naming them.
#[must_use]
pub fn switched_off(before: &Settings, after: &Settings, body: &Value) -> Vec<String> {
    let switches = |settings: &Settings| {
        [
            (
                "direction_selection_enabled",
                settings.direction_selection_enabled,
            ),
            ("route_selection_enabled", settings.route_selection_enabled),
            (
                "append_fallbacks_to_pinned",
                settings.append_fallbacks_to_pinned,
            ),
            (
                "reroute_failed_directions",
                settings.reroute_failed_directions,
            ),
            ("prune_failed_fallbacks", settings.prune_failed_fallbacks),
            ("history_enabled", settings.history_enabled),
        ]
    };
    switches(before)
        .into_iter()
        .zip(switches(after))
        .filter(|((name, was), (_, is))| *was && !is && body.get(*name).is_none_or(Value::is_null))
        .map(|((name, _), _)| format!("{name} was omitted, so it is off"))
        .collect()
}

/// The nine fields as the API shows and the `settings` document keeps them.
#[must_use]
pub fn shown(settings: &Settings) -> Value {
    json!(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &Value) -> (Option<Settings>, Vec<String>) {
        let reader = Reader::new(&|_| None);
        let settings = replacement(&reader, body);
        let errors = reader.finish().0;
        (settings, errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_put_turns_off_what_it_does_not_name_and_says_so() {
        let body = json!({"reroute_failed_directions": true});
        let settings = read(&body).0.unwrap();
        assert!(settings.reroute_failed_directions && !settings.route_selection_enabled);
        assert_eq!(settings.snapshot_persist_interval_seconds, 300);
        let told = switched_off(&Settings::default(), &settings, &body).join("\n");
        insta::assert_snapshot!(told, @r"
        direction_selection_enabled was omitted, so it is off
        route_selection_enabled was omitted, so it is off
        history_enabled was omitted, so it is off
        ");
    }

    #[test]
    fn wrong_values_are_named() {
        let body = json!({"reroute_target": "nowhere", "route_selection_enabled": "yes",
            "history_retention_days": -1, "snapshot_persist_interval_seconds": "soon"});
        insta::assert_snapshot!(read(&body).1.join("\n"), @r#"
        route_selection_enabled: must be true or false, not "yes"
        reroute_target: must be "pool" or "fallbacks"
        history_retention_days: must be a whole number from 1 to 3650, not -1
        snapshot_persist_interval_seconds: must be a whole number from 1 to 86400, not "soon"
        "#);
    }

    #[test]
    fn a_patch_changes_only_what_it_names() {
        let reader = Reader::new(&|_| None);
        let body = json!({"append_fallbacks_to_pinned": true});
        let block = reader.object("", &body).unwrap();
        let patch = SettingsPatch::read(&block);
        let expected = Settings {
            append_fallbacks_to_pinned: true,
            ..Settings::default()
        };
        assert_eq!(patch.over(&Settings::default()), expected);
    }
}
