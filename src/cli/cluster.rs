//! `holdline cluster status`: members, leaders, agreement.

use reqwest::Method;
use serde_json::Value;

use super::remote::{Remote, table};
use super::say;

pub(super) const EXAMPLES: &str = "Examples:
  holdline cluster status
  holdline cluster status --url http://10.0.0.2:8080 --token admin:secret --json";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Who is there, who leads, whether all hold the same table
    Status,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    match args.verb {
        Verb::Status => status(&args.remote),
    }
}

fn status(remote: &Remote) -> anyhow::Result<()> {
    let view = remote.call(Method::GET, crate::api::paths::CLUSTER_STATUS, None)?;
    if remote.json {
        say(&serde_json::to_string_pretty(&view)?);
        return Ok(());
    }
    let none = Vec::new();
    let nodes = view["nodes"].as_array().unwrap_or(&none);
    let agreement = match view["converged"].as_bool() {
        Some(true) => "all live nodes hold the same table",
        Some(false) | None => "tables differ",
    };
    let head = [
        "NODE", "REGION", "STATE", "LEADS", "HELD", "TABLE", "HTTP", "RPC",
    ];
    let rows: Vec<Vec<String>> = nodes.iter().map(row).collect();
    let seen_by = text(&view["node_id"]);
    say(&format!(
        "{agreement}, as {seen_by} sees it\n{}",
        table(&head, &rows)
    ));
    Ok(())
}

fn row(node: &Value) -> Vec<String> {
    let leads = match (node["is_leader"].as_bool(), node["acting"].as_bool()) {
        (Some(true), Some(true)) => "acting",
        (Some(true), _) => "yes",
        _ => "",
    };
    let rpc = node["link"]["rpc"].as_str().unwrap_or("(this node)");
    vec![
        text(&node["node_id"]),
        text(&node["region"]),
        text(&node["state"]),
        leads.to_owned(),
        text(&node["held"]),
        text(&node["digest"]),
        text(&node["http_address"]),
        rpc.to_owned(),
    ]
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
