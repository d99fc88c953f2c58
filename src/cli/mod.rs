//! The command line.

use std::process::ExitCode;

/// Runs the command that the arguments name.
#[must_use]
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
