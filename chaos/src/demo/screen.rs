//! What the demo prints: where everything is, and five things to try.

use std::fmt::Write as _;
use std::io::Write as _;

use super::config::{KEYS, MODEL};
use super::{DATA_DIR, Demo, Stage};

/// One line on the terminal. A terminal that is gone is no reason to end a cluster.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Everything a person needs once the cluster runs.
pub(super) fn show(demo: &Demo, stage: &Stage) {
    say(&text(demo, stage));
}

fn text(demo: &Demo, stage: &Stage) -> String {
    let mut text = format!("\nA cluster of {} nodes runs:\n", stage.fleet.nodes().len());
    for (region, ids) in stage.fleet.regions() {
        let nodes = stage
            .fleet
            .nodes()
            .iter()
            .filter(|node| ids.iter().any(|id| id == node.id()));
        let shown: Vec<String> = nodes
            .map(|node| format!("{} {}", node.id(), node.api().url()))
            .collect();
        let _ = writeln!(text, "  {region:10} {}", shown.join("  "));
    }
    let _ = writeln!(text, "  {:10} {}", "providers", stage.mock.url());
    let _ = writeln!(text, "  {:10} {}", "data, logs", demo.data_dir.display());
    text.push_str(&things_to_try(demo, stage));
    text.push_str("\nCtrl-C stops everything.\n");
    text
}

fn things_to_try(demo: &Demo, stage: &Stage) -> String {
    let nodes = stage.fleet.nodes();
    let (first, last) = (&nodes[0], &nodes[nodes.len() - 1]);
    let victim = nodes.get(1).unwrap_or(first);
    let [key, ..] = KEYS;
    let binary = demo.binary.display();
    let folder = if demo.data_dir == std::path::Path::new(DATA_DIR) {
        String::new()
    } else {
        format!(" --data-dir {}", demo.data_dir.display())
    };
    format!(
        r#"
Five things to try, from another terminal:

1. Send a request to {first_id}:
   curl -s {first_url}/v1/chat/completions -H 'content-type: application/json' -d '{{"model":"{MODEL}","messages":[{{"role":"user","content":"Hi"}}]}}'

2. Let the provider revoke a key. The traffic meets the refusal within a second, on one node:
   curl -s -X POST {mock}/mock/keys/{secret}/revoke

3. Read the held keys on a node of the other region, and what the provider counted:
   {binary} holds --url {last_url}
   curl -s {mock}/mock/keys

4. Kill a node the hard way and start it again; it holds the key before it is ready:
   kill -9 $(cat {pid})
   {binary} demo restart {victim_id}{folder}

5. Let the provider take the key back, and release it by hand, on any node:
   curl -s -X POST {mock}/mock/keys/{secret}/restore
   {binary} holds release {provider} {key_id} --url {last_url}
"#,
        first_id = first.id(),
        first_url = first.api().url(),
        last_url = last.api().url(),
        mock = stage.mock.url(),
        secret = key.secret,
        provider = key.provider,
        key_id = key.key_id,
        pid = victim.pid_path().display(),
        victim_id = victim.id(),
    )
}
