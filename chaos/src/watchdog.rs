//! Ends nodes whose parent is gone: however this process dies, no node is left behind.
//!
//! A small shell reads from a pipe which processes run. The pipe closes when this process ends, by
//! `kill -9` too, and the shell then kills what is still on its list. It sits in a process group of
//! its own, so that Ctrl-C in the terminal does not reach it first.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;

const SCRIPT: &str = r#"
trap '' HUP INT TERM
pids=
while read -r verb pid; do
    case $verb in
        add) pids="$pids $pid" ;;
        drop)
            kept=
            for one in $pids; do [ "$one" = "$pid" ] || kept="$kept $one"; done
            pids=$kept ;;
    esac
done
[ -z "$pids" ] || kill -KILL $pids 2>/dev/null
exit 0
"#;

/// The watching shell and the pipe to it.
#[derive(Debug)]
pub struct Watchdog {
    shell: Child,
    pipe: Mutex<Option<ChildStdin>>,
}

impl Watchdog {
    /// # Errors
    /// When no `sh` can be started.
    pub fn start() -> anyhow::Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start sh, which watches over the nodes")?;
        let pipe = Mutex::new(shell.stdin.take());
        Ok(Self { shell, pipe })
    }

    /// This process must not outlive us.
    pub fn add(&self, pid: u32) {
        self.tell("add", pid);
    }

    /// This process has been reaped: its number may soon be somebody else's.
    pub fn drop_pid(&self, pid: u32) {
        self.tell("drop", pid);
    }

    fn tell(&self, verb: &str, pid: u32) {
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipe) = pipe.as_mut() {
            // A shell that somebody killed cannot watch; the nodes are still killed when dropped.
            let _ = writeln!(pipe, "{verb} {pid}");
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *self.pipe.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    #[test]
    fn what_is_listed_dies_when_the_pipe_closes() {
        let watchdog = Watchdog::start().unwrap();
        let (mut listed, mut dropped) = (sleeper(), sleeper());
        watchdog.add(dropped.id());
        watchdog.add(listed.id());
        watchdog.drop_pid(dropped.id());
        drop(watchdog);
        assert_eq!(listed.wait().unwrap().signal(), Some(9));
        assert!(
            dropped.try_wait().unwrap().is_none(),
            "a dropped process must live"
        );
        dropped.kill().unwrap();
        dropped.wait().unwrap();
    }
}
