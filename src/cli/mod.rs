//! The command line: one file per verb.
//!
//! Exit codes: 0 well, 1 failed with one clear line on stderr, 2 wrong usage.

mod check_config;
mod classify;
mod cluster;
mod demo;
mod explain;
mod holds;
mod mock;
mod remote;
mod serve;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

pub use serve::ServeArgs;

/// A clustered, peer-to-peer LLM gateway whose nodes share which keys a provider refused.
#[derive(Debug, Parser)]
#[command(name = "holdline", version, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

const EXAMPLES: &str = "Examples:
  holdline demo                                       a whole cluster with mock providers, here and now
  holdline check-config config.json                   every mistake in a config, by its JSON path
  holdline serve --config config.json                 one node on 127.0.0.1:8080
  holdline serve --node-id n2 --region eu-west --peers 10.0.0.1:10101 --host 0.0.0.0
  holdline holds --url http://127.0.0.1:8080          which keys are held, on any node
  holdline holds release openai k-a                   let a key go, on every node
  holdline cluster status                             who is there, who leads";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a node
    #[command(after_help = serve::EXAMPLES)]
    Serve(Box<ServeArgs>),
    /// Name every error and warning of a config file
    #[command(after_help = check_config::EXAMPLES)]
    CheckConfig(check_config::Args),
    /// Say what a provider's answer would do: its class, what would be held
    #[command(after_help = classify::EXAMPLES)]
    Classify(classify::Args),
    /// Say where a request would go now, and why
    #[command(after_help = explain::EXAMPLES)]
    Explain(explain::Args),
    /// List held keys, or release them, through any node
    #[command(after_help = holds::EXAMPLES)]
    Holds(holds::Args),
    /// Look at the cluster through any node
    #[command(after_help = cluster::EXAMPLES)]
    Cluster(cluster::Args),
    /// Run a whole cluster with mock providers in one terminal
    #[command(after_help = demo::EXAMPLES)]
    Demo(demo::Args),
    /// Run the mock providers alone
    #[command(after_help = mock::EXAMPLES)]
    Mock(mock::Args),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  holdline completions bash > /etc/bash_completion.d/holdline"
    )]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// Runs the command that the arguments name.
#[must_use]
pub fn main() -> ExitCode {
    let result = match Cli::parse().verb {
        Verb::Serve(args) => serve::run(*args),
        Verb::CheckConfig(args) => check_config::run(&args),
        Verb::Classify(args) => classify::run(&args),
        Verb::Explain(args) => explain::run(&args),
        Verb::Holds(args) => holds::run(&args),
        Verb::Cluster(args) => cluster::run(&args),
        Verb::Demo(args) => demo::run(args),
        Verb::Mock(args) => mock::run(&args),
        Verb::Completions { shell } => {
            clap_complete::generate(
                shell,
                &mut Cli::command(),
                "holdline",
                &mut std::io::stdout(),
            );
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say_error(&format!("holdline: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// TLS is ring's. A second call changes nothing.
fn install_tls() {
    let already_installed = rustls::crypto::ring::default_provider().install_default();
    drop(already_installed);
}

#[expect(clippy::print_stderr, reason = "a command's error is for its terminal")]
fn say_error(line: &str) {
    eprintln!("{line}");
}

#[expect(
    clippy::print_stdout,
    reason = "a command's answer is for its terminal"
)]
fn say(text: &str) {
    println!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_verb_shows_examples() {
        for verb in Cli::command().get_subcommands() {
            let help = verb.clone().render_long_help().to_string();
            assert!(
                help.contains("holdline "),
                "{} has no example",
                verb.get_name()
            );
        }
    }
}
