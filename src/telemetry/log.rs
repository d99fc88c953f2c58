//! The node's own log, on stderr.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;

/// Put before the operator's filter, which may say otherwise: what these libraries think of a peer that is
/// down, this node says itself and once.
const LIBRARIES: &str = "openraft=off,chitchat=error";

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs: one object per line.
    Json,
}

/// Starts the log. `filter` is in tracing's syntax (`info`, `holdline=debug,warn` …). A second start in
/// one process changes nothing: tests start many nodes.
///
/// # Errors
/// When the filter cannot be read.
pub fn start_log(format: LogFormat, filter: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(format!("{LIBRARIES},{filter}"))
        .map_err(|e| format!("the log filter \"{filter}\": {e}"))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr);
    let _ = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    Ok(())
}
