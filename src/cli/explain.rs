//! `holdline explain`: where a request would go now, and why, as a running node says.

use reqwest::{Method, Url};
use serde_json::Value;

use super::remote::{Remote, table};
use super::say;
use crate::api::paths;

pub(super) const EXAMPLES: &str = "Examples:
  holdline explain gpt-4o                            any provider, at the node at 127.0.0.1:8080
  holdline explain openai/gpt-4o
  holdline explain gpt-4o --provider azure --url http://10.0.0.2:8080 --json";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The model, as a request would name it
    model: String,
    /// The provider that the request names
    #[arg(long)]
    provider: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let mut query = url_query(&[
        ("model", Some(&args.model)),
        ("provider", args.provider.as_ref()),
    ]);
    query.insert(0, '?');
    let path = format!("{}{query}", paths::EXPLAIN);
    let told = args.remote.call(Method::GET, &path, None)?;
    say(&if args.remote.json {
        serde_json::to_string_pretty(&told)?
    } else {
        shown(&told)
    });
    Ok(())
}

/// Names and values as a query holds them.
fn url_query(pairs: &[(&str, Option<&String>)]) -> String {
    let given = pairs
        .iter()
        .filter_map(|(name, value)| Some((*name, (*value)?.as_str())));
    let mut url = Url::parse("http://node/").expect("it is one");
    url.query_pairs_mut().extend_pairs(given);
    url.query().unwrap_or_default().to_owned()
}

fn shown(told: &Value) -> String {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let chain: Vec<String> = list(&told["chain"])
        .iter()
        .map(|leg| format!("{}/{}", text(&leg["provider"]), text(&leg["model"])))
        .collect();
    let mut rows = Vec::new();
    for provider in list(&told["providers"]) {
        rows.push(vec![
            text(&provider["provider"]),
            String::new(),
            text(&provider["state"]),
            percent(&provider["share"]),
            text(&provider["why"]),
        ]);
        for key in list(&provider["keys"]) {
            rows.push(vec![
                String::new(),
                text(&key["key_name"]),
                text(&key["state"]),
                percent(&key["share"]),
                text(&key["why"]),
            ]);
        }
    }
    format!(
        "{} on {}: {}\n{}",
        text(&told["model"]),
        text(&told["node_id"]),
        chain.join(", then "),
        table(&["PROVIDER", "KEY", "STATE", "SHARE", "WHY"], &rows)
    )
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn percent(share: &Value) -> String {
    format!("{:.0} %", share.as_f64().unwrap_or_default() * 100.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_escaped() {
        let (model, provider) = ("a b&c".to_owned(), "x".to_owned());
        let pairs = [
            ("model", Some(&model)),
            ("provider", Some(&provider)),
            ("vk", None),
        ];
        assert_eq!(url_query(&pairs), "model=a+b%26c&provider=x");
    }

    #[test]
    fn people_see_providers_with_their_keys() {
        let told = json!({
            "model": "gpt-4o", "node_id": "n1",
            "chain": [{"provider": "beta", "model": "gpt-4o"}, {"provider": "alpha", "model": "gpt"}],
            "providers": [
                {"provider": "alpha", "state": "degraded", "share": 0.0, "why": "it stands behind as fallback 1",
                 "keys": [{"key_name": "k-1", "state": "failed", "share": 0.0, "why": "held (Key rejected), next check in 12 s"}]},
                {"provider": "beta", "state": "healthy", "share": 1.0, "why": "it does best", "keys": []},
            ],
        });
        insta::assert_snapshot!(shown(&told), @r"
        gpt-4o on n1: beta/gpt-4o, then alpha/gpt
        PROVIDER  KEY  STATE     SHARE  WHY
        alpha          degraded  0 %    it stands behind as fallback 1
                  k-1  failed    0 %    held (Key rejected), next check in 12 s
        beta           healthy   100 %  it does best
        ");
    }
}
