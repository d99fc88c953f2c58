//! Talking to a running node's admin API.

use anyhow::{Context, bail};
use reqwest::Method;
use serde_json::Value;

/// Which node to talk to, and how.
#[derive(Debug, clap::Args)]
pub(super) struct Remote {
    /// Any node of the cluster
    #[arg(
        long,
        env = "HOLDLINE_URL",
        default_value = "http://127.0.0.1:8080",
        global = true
    )]
    url: String,
    /// A session token or API key; or `user:password`
    #[arg(long, env = "HOLDLINE_TOKEN", hide_env_values = true, global = true)]
    token: Option<String>,
    /// Print the node's JSON as it came
    #[arg(long, global = true)]
    pub(super) json: bool,
}

impl Remote {
    /// One call. An answer that is not 2xx is an error with the node's own message.
    pub(super) fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start")?
            .block_on(self.call_async(method, path, body))
    }

    async fn call_async(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        super::install_tls();
        let client = reqwest::Client::builder()
            .timeout(std::time::Duration::from_secs(15))
            .no_proxy()
            .build()
            .context("cannot make an HTTP client")?;
        let url = format!("{}{path}", self.url.trim_end_matches('/'));
        let mut request = client.request(method, &url);
        request = match self.token.as_deref().map(|t| (t, t.split_once(':'))) {
            Some((_, Some((user, password)))) => request.basic_auth(user, Some(password)),
            Some((token, None)) => request.bearer_auth(token),
            None => request,
        };
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.map_err(|error| {
            anyhow::anyhow!(
                "no node answers at {}: is it running, and is --url right? ({})",
                self.url,
                root_cause(&error)
            )
        })?;
        let status = answer.status();
        let text = answer.text().await.context("the node's answer broke off")?;
        let value: Value = serde_json::from_str(&text)
            .with_context(|| format!("{url} did not answer with JSON: is this a Holdline node?"))?;
        if !status.is_success() {
            let message = value["error"]["message"]
                .as_str()
                .unwrap_or("no reason given");
            bail!("the node answered {}: {message}", status.as_u16());
        }
        Ok(value)
    }
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// A table with columns as wide as their longest cell.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .chain([head[column].len()])
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(head.to_vec())];
    lines.extend(
        rows.iter()
            .map(|row| line(row.iter().map(String::as_str).collect())),
    );
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![
            vec!["a".to_owned(), "long one".to_owned()],
            vec!["bbb".into(), "c".into()],
        ];
        assert_eq!(table(&["x", "y"], &rows), "x    y\na    long one\nbbb  c");
    }
}
