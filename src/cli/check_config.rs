//! `holdline check-config`: every error and warning of a config file, by its JSON path.

use std::path::PathBuf;

use anyhow::bail;

use super::{say, say_error};
use crate::config::Config;

pub(super) const EXAMPLES: &str = "Examples:
  holdline check-config config.json
  holdline check-config config.json && holdline serve --config config.json";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The config file
    path: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    match Config::load(Some(&args.path)) {
        Ok(loaded) => {
            for warning in &loaded.warnings {
                say(&format!("warning: {warning}"));
            }
            say(&format!("{} can be used", args.path.display()));
            Ok(())
        }
        Err(errors) => {
            for warning in &errors.warnings {
                say_error(&format!("warning: {warning}"));
            }
            for error in &errors.errors {
                say_error(&format!("error: {error}"));
            }
            bail!(
                "{} has {} error(s)",
                args.path.display(),
                errors.errors.len()
            );
        }
    }
}
