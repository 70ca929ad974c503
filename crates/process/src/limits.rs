//! Limits on what a run's processes may use, and what enforces each: a control group, the kernel's limits per
//! process, or the worker's watch.

use std::collections::BTreeMap;

use domain::budget::Limits;
use domain::run::{Enforcer, LimitName};
use rustix::process::{Resource, Rlimit, getrlimit};

use super::cgroup::{Cgroup, CgroupNeeds};
use domain::run::Exit;

/// Limits on the processes of a run; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Memory of the whole tree.
    pub memory_bytes: Option<u64>,
    /// CPU time of the whole tree.
    pub cpu_ms: Option<u64>,
    /// Processes and threads of the whole tree; only processes where the worker counts.
    pub processes: Option<u64>,
    /// Open files of each process.
    pub open_files: Option<u64>,
    /// Size of each file that is written.
    pub file_bytes: Option<u64>,
}

impl From<&Limits> for ResourceLimits {
    fn from(limits: &Limits) -> Self {
        Self {
            memory_bytes: limits.memory_bytes,
            cpu_ms: limits.cpu_ms,
            processes: limits.processes,
            open_files: limits.open_files,
            file_bytes: limits.file_bytes,
        }
    }
}

impl ResourceLimits {
    /// Returns what a control group is needed for.
    pub(super) fn cgroup_needs(&self, kill: bool) -> CgroupNeeds {
        CgroupNeeds {
            memory_bytes: self.memory_bytes,
            processes: self.processes,
            cpu: self.cpu_ms.is_some(),
            kill,
        }
    }

    /// Returns the kernel's limits per process. None is above what this process has itself.
    pub(super) fn per_process(&self) -> Vec<(Resource, Rlimit)> {
        let mut limits = vec![limit(Resource::Core, 0, 0)];
        if let Some(ms) = self.cpu_ms {
            // The watch knows the tree's sum; this ends a single process also when nobody watches. The second
            // number kills one that ignores the signal at the first.
            let seconds = ms.div_ceil(1000).max(1);
            limits.push(limit(Resource::Cpu, seconds, seconds + 2));
        }
        limits.extend(self.open_files.map(|count| limit(Resource::Nofile, count, count)));
        limits.extend(self.file_bytes.map(|bytes| limit(Resource::Fsize, bytes, bytes)));
        limits
    }

    /// Returns what enforces each limit that is set.
    ///
    /// Memory is never limited per process: runtimes reserve far more addresses than they use.
    pub(super) fn enforcers(&self, cgroup: Option<&Cgroup>) -> BTreeMap<LimitKey, Enforcer> {
        let by_group = |has: fn(&Cgroup) -> bool| match cgroup {
            Some(group) if has(group) => Enforcer::Cgroup,
            _ => Enforcer::Watch,
        };
        let candidates = [
            ("memory", self.memory_bytes, by_group(Cgroup::limits_memory)),
            ("cpu", self.cpu_ms, Enforcer::Watch),
            ("processes", self.processes, by_group(Cgroup::limits_processes)),
            ("open_files", self.open_files, Enforcer::Rlimit),
            ("file_size", self.file_bytes, Enforcer::Rlimit),
        ];
        let set = candidates.into_iter().filter(|(_, limit, _)| limit.is_some());
        set.map(|(name, _, enforcer)| (name, enforcer)).collect()
    }

    /// Returns the limit that an agent's end shows was exceeded.
    pub(super) fn exceeded_at_exit(&self, exit: Exit) -> Option<(LimitName, String)> {
        match (exit, self.cpu_ms, self.file_bytes) {
            (Exit::Signal(libc::SIGXCPU), Some(ms), _) => {
                Some((LimitName::Cpu, format!("the agent used more than {ms} ms of CPU time")))
            }
            (Exit::Signal(libc::SIGXFSZ), _, Some(bytes)) => {
                Some((LimitName::FileSize, format!("the agent wrote a file of more than {bytes} bytes")))
            }
            _ => None,
        }
    }
}

/// The name of a limit in a record of containment.
pub(super) type LimitKey = &'static str;

fn limit(resource: Resource, soft: u64, hard: u64) -> (Resource, Rlimit) {
    let above = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    (resource, Rlimit { current: Some(soft.min(above)), maximum: Some(hard.min(above)) })
}
