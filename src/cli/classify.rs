//! `holdline classify`: what a provider's answer would do, without a node.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use holdline_core::time::WallMs;

use super::{say, say_error};
use crate::config::Config;
use crate::pipeline::explain::{Explanation, Recorded, explain};

pub(super) const EXAMPLES: &str = "Examples:
  holdline classify --provider openai --status 429 --header 'retry-after: 20' error.json
  curl -s https://provider.example/v1/models | holdline classify --provider groq --status 401
  holdline classify --provider openrouter --stream-event stream.txt
  holdline classify --provider openai --status 403 --config config.json --json error.json";

/// The largest answer that is read: more than any provider sends as an error.
const MAX_BYTES: u64 = 16 << 20;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The answer's body: a file, or `-` for stdin
    #[arg(default_value = "-")]
    body: PathBuf,
    /// Whose answer it is, by its name in the config
    #[arg(long)]
    provider: String,
    /// The HTTP status
    #[arg(long, required_unless_present = "stream_event", value_parser = clap::value_parser!(u16).range(100..=999))]
    status: Option<u16>,
    /// A header of the answer, `name: value`; may be repeated
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// The model that was asked for
    #[arg(long)]
    model: Option<String>,
    /// The body is an event, or a whole event stream, of a 200
    #[arg(long)]
    stream_event: bool,
    /// Use the `failure_rules` and switches of this config
    #[arg(long)]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let loaded = Config::load(args.config.as_deref()).map_err(|errors| {
        let path = args.config.clone().unwrap_or_default();
        anyhow::anyhow!("{} cannot be used:\n{errors}", path.display())
    })?;
    for warning in &loaded.warnings {
        say_error(&format!("warning: {warning}"));
    }
    let answer = Recorded {
        provider: args.provider.clone(),
        status: args.status.unwrap_or(200),
        headers: headers(&args.headers)?,
        body: read_body(&args.body)?,
        model: args.model.clone(),
        stream_event: args.stream_event,
    };
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = since_epoch.unwrap_or_default().as_millis();
    let now = WallMs(u64::try_from(now_ms).unwrap_or(u64::MAX));
    let explanation = explain(&loaded.config.classifier, &answer, now);
    say(&if args.json {
        serde_json::to_string_pretty(&explanation)?
    } else {
        shown(&explanation)
    });
    Ok(())
}

fn read_body(path: &PathBuf) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    if path.as_os_str() == "-" {
        let stdin = std::io::stdin().lock();
        stdin.take(MAX_BYTES).read_to_end(&mut body)?;
    } else {
        let file =
            std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        file.take(MAX_BYTES)
            .read_to_end(&mut body)
            .with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(body)
}

fn headers(lines: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut headers = BTreeMap::new();
    for line in lines {
        // The names of event-stream headers begin with a colon.
        let from = usize::from(line.starts_with(':'));
        let Some(colon) = line[from..].find(':') else {
            bail!("--header {line:?} must be \"name: value\"");
        };
        let (name, value) = line.split_at(from + colon);
        headers.insert(
            name.trim().to_ascii_lowercase(),
            value[1..].trim().to_owned(),
        );
    }
    Ok(headers)
}

fn shown(explanation: &Explanation) -> String {
    let Some(class) = explanation.failure_class else {
        return "no error".to_owned();
    };
    let holds = match &explanation.holds {
        None => "nothing".to_owned(),
        Some(hold) => {
            let what = match (hold.what, &hold.model) {
                ("model", Some(model)) => format!("the model {model} of the key"),
                ("model", None) => "the model, of the key".to_owned(),
                _ => "the whole key".to_owned(),
            };
            let source = match hold.wait_source {
                "provider" => "as the provider asked",
                _ => "the ladder's first rung",
            };
            format!("{what} for {} s, {source}", hold.wait_ms / 1_000)
        }
    };
    let retry = match explanation.retry {
        "next_key_granted" => "another key at once, not charged",
        "next_key_charged" => "another key after backoff",
        "same_key" => "the same key after backoff",
        _ => "none within this provider",
    };
    let stated = explanation
        .retry_after_ms
        .map_or_else(|| "nothing".to_owned(), |ms| format!("{ms} ms"));
    format!(
        "class         {}\nrule          {}\nholds         {holds}\nretry         {retry}\nstated wait   {stated}\nmessage       {}",
        class.as_str(),
        explanation.rule,
        explanation.message
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_from_lines() {
        let lines = [
            "Retry-After: 20".to_owned(),
            ":exception-type: throttlingException".to_owned(),
        ];
        let read = headers(&lines).unwrap();
        assert_eq!(read["retry-after"], "20");
        assert_eq!(read[":exception-type"], "throttlingException");
        assert!(headers(&["no colon".to_owned()]).is_err());
    }

    #[test]
    fn people_are_told_what_is_held() {
        let answer = Recorded {
            provider: "groq".to_owned(),
            status: 429,
            model: Some("llama".to_owned()),
            ..Recorded::default()
        };
        let explanation = explain(
            &holdline_core::failure::Classifier::default(),
            &answer,
            WallMs(0),
        );
        let told = shown(&explanation);
        assert!(told.contains("class         rate_limit\n"), "{told}");
        assert!(
            told.contains("the model llama of the key for 30 s, the ladder's first rung\n"),
            "{told}"
        );
    }
}
