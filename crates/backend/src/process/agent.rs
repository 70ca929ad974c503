//! An agent that was started: how it ended, what it uses, and its sweep.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use domain::run::{Containment, LimitName};
use rustix::process::{Pid, Signal};

use super::cgroup::Cgroup;
use super::limits::ResourceLimits;
use super::os::{Init, ProcessHandle};
use super::stop::{self, Killed};
use super::tags::Members;
use super::walk::Proc;
use super::watch::{TreeUse, TreeWatch};
use crate::contract::Exit;

/// The agent of one run, in a pid namespace or not.
///
/// Dropping it ends a namespace with everything in it; otherwise the parent-death signal ends only the agent itself,
/// and only when this process ends: call [`Agent::sweep`].
#[derive(Debug)]
pub struct Agent {
    pub(super) handle: ProcessHandle,
    pub(super) init: Option<Init>,
    /// The init was collected, so nothing can be left: looking for it would mean a walk over all processes.
    pub(super) namespace_ended: bool,
    pub(super) tag: u64,
    pub(super) exit: Option<Exit>,
    pub(super) limits: ResourceLimits,
    pub(super) watch: TreeWatch,
    pub(super) cgroup: Option<Cgroup>,
    /// What is in force to keep its processes together and within their limits.
    pub containment: Containment,
}

impl Agent {
    /// Returns the agent's number as seen from this process.
    pub fn pid(&self) -> Pid {
        self.handle.pid()
    }

    pub fn handle(&self) -> &ProcessHandle {
        &self.handle
    }

    /// Returns the number of the first process of its namespace.
    pub fn init_pid(&self) -> Option<Pid> {
        self.init.as_ref().map(|init| init.handle.pid())
    }

    /// Returns the descriptor that is readable once the agent has ended, as long as [`Agent::try_exit`] has not said
    /// how.
    pub fn exit_fd(&self) -> BorrowedFd<'_> {
        match &self.init {
            Some(init) => init.status.as_fd(),
            None => self.handle.as_fd(),
        }
    }

    /// Returns how the agent ended, or `None` while it runs. What it has started may still run.
    pub fn try_exit(&mut self) -> io::Result<Option<Exit>> {
        if self.exit.is_none() {
            self.exit = match &self.init {
                Some(init) => read_status(init)?,
                None => self.handle.try_reap()?,
            };
        }
        Ok(self.exit)
    }

    pub(super) fn has_exited(&self) -> bool {
        self.exit.is_some()
    }

    /// Whether a limit is set that [`Agent::passed_limit`] must be asked about while the agent runs.
    pub fn is_watched(&self) -> bool {
        let ResourceLimits { memory_bytes, cpu_ms, processes, .. } = self.limits;
        memory_bytes.is_some() || cpu_ms.is_some() || processes.is_some()
    }

    /// Returns the limit that the run has passed, and how. To be called a few times a second if
    /// [`Agent::is_watched`], and once after the agent's end.
    pub fn passed_limit(&mut self) -> io::Result<Option<(LimitName, String)>> {
        if let Some(passed) = self.exit.and_then(|exit| self.limits.passed_by(exit)) {
            return Ok(Some(passed));
        }
        self.watch.passed(self.cgroup.as_ref())
    }

    /// Returns what the run's processes use at this moment.
    pub fn sample(&mut self) -> io::Result<TreeUse> {
        self.watch.sample(self.cgroup.as_ref())
    }

    /// Kills whatever is left of the run, the agent included, collects what is this process's own, and removes the
    /// run's control groups.
    pub fn sweep(&mut self) -> io::Result<Killed> {
        let killed = if self.init.is_some() { self.sweep_namespace()? } else { self.sweep_tree()? };
        if let Some(group) = self.cgroup.take() {
            group.remove()?;
        }
        Ok(killed)
    }

    fn sweep_namespace(&mut self) -> io::Result<Killed> {
        let Some(init) = self.init.as_ref().filter(|_| !self.namespace_ended) else {
            return Ok(Killed::default());
        };
        let init_pid = init.handle.pid();
        let mut proc = Proc::open()?;
        let count = match proc.children(init_pid) {
            Some(children) if children.is_empty() => 0,
            _ => {
                let members = Members::new(self.tag, &[]).survey(&mut proc, |_, _| {})?;
                members.iter().filter(|member| member.stat.pid != init_pid && !member.stat.is_dead()).count()
            }
        };
        // It may have ended by itself; then there is only the collecting.
        let _ = init.handle.signal(Signal::KILL);
        // Its end is complete only when every process of the namespace is gone.
        if !stop::ends_in_time(&init.handle) {
            return stop::kill_tree(self.tag, &[init_pid]);
        }
        // How the agent itself ended may still be in the pipe.
        self.try_exit()?;
        if let Some(init) = &self.init {
            init.handle.try_reap()?;
        }
        self.namespace_ended = true;
        Ok(Killed { count: u32::try_from(count).unwrap_or(u32::MAX), left: Vec::new() })
    }

    fn sweep_tree(&mut self) -> io::Result<Killed> {
        let killed = if self.try_exit()?.is_some() && stop::nothing_adopted() {
            Killed::default()
        } else {
            let at_once = self.cgroup.as_ref().map_or(0, Cgroup::kill_counted);
            // An agent that was not collected keeps its number, so it can be named as one to kill.
            let own: &[Pid] = if self.has_exited() { &[] } else { &[self.handle.pid()] };
            let mut killed = stop::kill_tree(self.tag, own)?;
            killed.count = killed.count.max(at_once);
            killed
        };
        if !self.has_exited() && killed.left.is_empty() {
            self.exit = Some(self.handle.reap()?);
        }
        Ok(killed)
    }
}

/// Reads how the agent of a namespace ended, as its init tells.
fn read_status(init: &Init) -> io::Result<Option<Exit>> {
    let mut status = [0_u8; 4];
    match rustix::io::retry_on_intr(|| rustix::io::read(&init.status, &mut status)) {
        Err(rustix::io::Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
        // The namespace ended without a word, and the agent with it.
        Ok(0) => Ok(Some(Exit::Signal(libc::SIGKILL))),
        Ok(_) => {
            let status = i32::from_ne_bytes(status);
            Ok(Some(if libc::WIFEXITED(status) {
                Exit::Code(libc::WEXITSTATUS(status))
            } else {
                Exit::Signal(libc::WTERMSIG(status))
            }))
        }
    }
}
