//! Samples what a run's tree uses, for limits that nothing else enforces. The worker calls it a few times a second.

use std::io;

use rustix::process::Pid;

use super::cgroup::Cgroup;
use super::limits::ResourceLimits;
use super::os::{page_bytes, ticks_per_second};
use super::proc_fs::Proc;
use super::reap;
use super::tags::{RunMember, RunMembers};
use domain::run::LimitName;

/// What a tree uses at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeUsage {
    /// Resident memory; pages that several processes share count once only when the limit is near.
    pub memory_bytes: u64,
    /// CPU time since the start, never falling.
    pub cpu_ms: u64,
    pub processes: u64,
}

/// Watches one run.
#[derive(Debug)]
pub(super) struct TreeWatch {
    tag: u64,
    limits: ResourceLimits,
    /// The first process of the run's namespace, which is ours and not the agent's.
    init: Option<Pid>,
    /// The process that collects orphans, and the CPU time of collected children that it had before the run.
    adopter: Option<(Pid, u64)>,
    cpu_ms: u64,
}

impl TreeWatch {
    pub(super) fn new(tag: u64, limits: ResourceLimits, init: Option<Pid>) -> Self {
        let adopter =
            reap::adopter().and_then(|pid| Some((pid, Proc::open().ok()?.stat(pid)?.collected_ticks)));
        Self { tag, limits, init, adopter, cpu_ms: 0 }
    }

    /// Walks over the tree and returns what it uses.
    pub(super) fn sample(&mut self, cgroup: Option<&Cgroup>) -> io::Result<TreeUsage> {
        let mut proc = Proc::open()?;
        let mut members = RunMembers::new(self.tag, &[]).survey(&mut proc, |_, _| {})?;
        let mut ticks = 0;
        let mut memory_bytes = 0;
        let mut processes = 0;
        if let Some(index) = members.iter().position(|member| Some(member.stat.pid) == self.init) {
            // It uses next to nothing itself, but has collected the CPU time of the orphans.
            ticks += members.swap_remove(index).stat.collected_ticks;
        }
        for member in &members {
            // The time of collected children is counted in no other place, so nothing is counted twice.
            ticks += member.stat.own_ticks + member.stat.collected_ticks;
            memory_bytes += member.stat.resident_pages * page_bytes();
            processes += u64::from(!member.stat.is_dead());
        }
        if let Some((pid, before)) = self.adopter {
            ticks += proc.stat(pid).map_or(0, |stat| stat.collected_ticks.saturating_sub(before));
        }
        if self.limits.memory_bytes.is_some_and(|limit| memory_bytes > limit) {
            // Shares are read one by one while processes come and go, which can only make the sum too high.
            memory_bytes = shared_bytes(&mut proc, &members).min(shared_bytes(&mut proc, &members));
        }
        let walked_ms = ticks * 1000 / ticks_per_second();
        let cpu_ms = cgroup.and_then(Cgroup::cpu_ms).unwrap_or(walked_ms);
        self.cpu_ms = self.cpu_ms.max(cpu_ms);
        Ok(TreeUsage { memory_bytes, cpu_ms: self.cpu_ms, processes })
    }

    /// Returns the limit that the tree has exceeded.
    pub(super) fn exceeded(&mut self, cgroup: Option<&Cgroup>) -> io::Result<Option<(LimitName, String)>> {
        let ResourceLimits { memory_bytes, cpu_ms, processes, .. } = self.limits;
        if let Some(limit) = memory_bytes
            && cgroup.is_some_and(Cgroup::exceeded_memory)
        {
            let detail = format!("the run's processes needed more than {limit} bytes of memory");
            return Ok(Some((LimitName::Memory, detail)));
        }
        if let Some(limit) = processes
            && cgroup.is_some_and(Cgroup::exceeded_processes)
        {
            let detail = format!("the run tried to have more than {limit} processes and threads");
            return Ok(Some((LimitName::Processes, detail)));
        }
        let watched = [
            memory_bytes.filter(|_| !cgroup.is_some_and(Cgroup::limits_memory)),
            processes.filter(|_| !cgroup.is_some_and(Cgroup::limits_processes)),
            cpu_ms,
        ];
        if watched.iter().all(Option::is_none) {
            return Ok(None);
        }
        let used = self.sample(cgroup)?;
        let [memory_bytes, processes, cpu_ms] = watched;
        Ok(first_exceeded([
            (LimitName::Memory, used.memory_bytes, memory_bytes, "bytes of memory"),
            (LimitName::Cpu, used.cpu_ms, cpu_ms, "ms of CPU time"),
            (LimitName::Processes, used.processes, processes, "processes"),
        ]))
    }
}

/// Returns the sum of what each process has to itself and its share of what it shares.
fn shared_bytes(proc: &mut Proc, members: &[RunMember]) -> u64 {
    let pids = members.iter().map(|member| member.stat.pid);
    pids.map(|pid| match proc.proportional_bytes(pid) {
        Some(bytes) => bytes,
        // A process that may not be inspected counts in full, one that has ended meanwhile not at all.
        None => proc.stat(pid).map_or(0, |stat| stat.resident_pages * page_bytes()),
    })
    .sum()
}

fn first_exceeded(measured: [(LimitName, u64, Option<u64>, &str); 3]) -> Option<(LimitName, String)> {
    measured.into_iter().find_map(|(name, used, limit, unit)| {
        let limit = limit.filter(|limit| used > *limit)?;
        Some((name, format!("the run's processes used {used} {unit} of at most {limit}")))
    })
}
