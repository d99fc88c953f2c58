//! Durations in order, and what the kernel says of a process.

use std::fs;
use std::time::Duration;

use anyhow::Context as _;

/// The kernel counts a process's CPU time in ticks; user space sees 100 a second on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// Measured durations, shortest first.
#[derive(Clone, Debug)]
pub(crate) struct Sample(Vec<Duration>);

impl Sample {
    /// # Errors
    /// When nothing was measured.
    pub(crate) fn new(mut durations: Vec<Duration>) -> anyhow::Result<Self> {
        anyhow::ensure!(!durations.is_empty(), "nothing was measured");
        durations.sort_unstable();
        Ok(Self(durations))
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The shortest duration that `percent` of all do not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0[rank - 1]
    }

    /// The middle one.
    pub(crate) fn median(&self) -> Duration {
        self.percentile(50)
    }

    /// The longest.
    pub(crate) fn longest(&self) -> Duration {
        self.percentile(100)
    }
}

/// CPU time, user and system, that a process and its threads have used.
pub(crate) fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name may contain blanks and brackets; what follows its last bracket does not.
    let (_, rest) = stat.rsplit_once(')').context("no process name in stat")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |index: usize| -> anyhow::Result<u32> {
        let field = fields.get(index).context("stat is too short")?;
        Ok(field.parse()?)
    };
    // utime and stime: the 14th and 15th of all fields, of which two stand before the rest.
    Ok(TICK * (ticks(11)? + ticks(12)?))
}

/// Memory of a process that is in RAM, in bytes.
pub(crate) fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    let kib: u64 = kib.context("no VmRSS in status")?.parse()?;
    Ok(kib * 1024)
}
