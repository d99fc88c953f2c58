//! `holdline holds`: the shared held-key view, and releasing by hand.

use reqwest::Method;
use serde_json::{Value, json};

use super::remote::{Remote, table};
use super::say;

pub(super) const EXAMPLES: &str = "Examples:
  holdline holds                                     what is held, from the node at 127.0.0.1:8080
  holdline holds list --url http://10.0.0.2:8080 --json
  holdline holds release openai k-a                  a key, with all its models
  holdline holds release openai k-a gpt-4o           one model of it
  holdline holds release --all";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List held keys (the default)
    List,
    /// Release holds on every node
    Release {
        /// The provider
        #[arg(required_unless_present = "all")]
        provider: Option<String>,
        /// The key's id; without it, every key of the provider
        key_id: Option<String>,
        /// One model of the key; without it, the whole key and all its models
        model: Option<String>,
        /// Everything that is held
        #[arg(long, conflicts_with = "provider")]
        all: bool,
    },
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.verb {
        None | Some(Verb::List) => list(&args.remote),
        Some(Verb::Release {
            provider,
            key_id,
            model,
            all: _,
        }) => {
            let named = [("provider", provider), ("key_id", key_id), ("model", model)];
            let body = named
                .iter()
                .filter_map(|(name, value)| Some((*name, value.as_ref()?)))
                .map(|(name, value)| (name.to_owned(), json!(value)))
                .collect();
            release(&args.remote, &Value::Object(body))
        }
    }
}

fn list(remote: &Remote) -> anyhow::Result<()> {
    let view = remote.call(Method::GET, crate::api::paths::CONDITIONS, None)?;
    if remote.json {
        say(&serde_json::to_string_pretty(&view)?);
        return Ok(());
    }
    let none = Vec::new();
    let held = view["conditions"].as_array().unwrap_or(&none);
    let title = format!(
        "{} held, as {} ({}) sees it; table {}",
        held.len(),
        text(&view["node_id"]),
        text(&view["region"]),
        text(&view["digest"])
    );
    if held.is_empty() {
        say(&title);
        return Ok(());
    }
    let head = [
        "PROVIDER",
        "KEY",
        "MODEL",
        "REASON",
        "RUNG",
        "STATE",
        "NEXT CHECK",
        "FOUND BY",
    ];
    let rows: Vec<Vec<String>> = held.iter().map(row).collect();
    say(&format!("{title}\n{}", table(&head, &rows)));
    Ok(())
}

fn row(held: &Value) -> Vec<String> {
    let model = held["model"].as_str().unwrap_or("(all)").to_owned();
    vec![
        text(&held["provider"]),
        text(&held["key_name"]),
        model,
        text(&held["reason"]),
        text(&held["rung"]),
        text(&held["state"]),
        text(&held["next_check_at"]),
        text(&held["origin_node"]),
    ]
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn release(remote: &Remote, body: &Value) -> anyhow::Result<()> {
    let answer = remote.call(
        Method::POST,
        crate::api::paths::CONDITIONS_CLEAR,
        Some(body),
    )?;
    if remote.json {
        say(&serde_json::to_string_pretty(&answer)?);
        return Ok(());
    }
    let none = Vec::new();
    let cleared = answer["cleared"].as_array().unwrap_or(&none);
    let names: Vec<String> = cleared.iter().map(|n| format!("\n  {}", text(n))).collect();
    say(&format!(
        "{} released on every node{}",
        cleared.len(),
        names.concat()
    ));
    Ok(())
}
