//! A started agent: how it ended, what it uses, and its sweep.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use domain::run::{Containment, LimitName};
use rustix::process::{Pid, Signal};

use super::cgroup::Cgroup;
use super::descendants;
use super::limits::ResourceLimits;
use super::os::{Init, ProcessHandle};
use super::proc_fs::Proc;
use super::stop::{self, Killed, Survivor};
use super::tags::RunMembers;
use super::tree_usage::{TreeUsage, TreeWatch};
use domain::run::Exit;

/// The agent of one run, in a pid namespace or not.
///
/// Dropping it ends a namespace with everything in it; otherwise the parent-death signal ends only the agent itself,
/// and only when this process ends: call [`Agent::sweep`].
#[derive(Debug)]
pub struct AgentProcess {
    pub(super) handle: ProcessHandle,
    pub(super) init: Option<Init>,
    /// The whole namespace is gone, so there is nothing to look for.
    pub(super) namespace_ended: bool,
    pub(super) tag: u64,
    pub(super) exit: Option<Exit>,
    pub(super) limits: ResourceLimits,
    pub(super) watch: TreeWatch,
    pub(super) cgroup: Option<Cgroup>,
    /// What is in force to keep its processes together and within their limits.
    pub containment: Containment,
}

impl AgentProcess {
    /// Returns the agent's process id as seen from this process.
    pub fn pid(&self) -> Pid {
        self.handle.pid()
    }

    pub fn handle(&self) -> &ProcessHandle {
        &self.handle
    }

    /// Returns the process id of the first process of its namespace.
    pub fn init_pid(&self) -> Option<Pid> {
        self.init.as_ref().map(|init| init.handle.pid())
    }

    /// Returns the descriptor that is readable once the agent has ended, until [`Agent::try_exit`] has returned how.
    pub fn exit_fd(&self) -> BorrowedFd<'_> {
        match &self.init {
            Some(init) => init.status.as_fd(),
            None => self.handle.as_fd(),
        }
    }

    /// Returns how the agent ended, or `None` while it runs. Processes that it started may still run.
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

    /// Returns whether a limit is set for which [`Agent::passed_limit`] must be called while the agent runs.
    pub fn is_watched(&self) -> bool {
        let ResourceLimits { memory_bytes, cpu_ms, processes, .. } = self.limits;
        memory_bytes.is_some() || cpu_ms.is_some() || processes.is_some()
    }

    /// Returns the limit that the run has exceeded, and how. Call it a few times a second if [`Agent::is_watched`],
    /// and once after the agent's end.
    pub fn exceeded_limit(&mut self) -> io::Result<Option<(LimitName, String)>> {
        if let Some(exceeded) = self.exit.and_then(|exit| self.limits.exceeded_at_exit(exit)) {
            return Ok(Some(exceeded));
        }
        self.watch.exceeded(self.cgroup.as_ref())
    }

    /// Returns what the run's processes use at this moment.
    pub fn sample(&mut self) -> io::Result<TreeUsage> {
        self.watch.sample(self.cgroup.as_ref())
    }

    /// Returns whether a process that the agent started is alive after the agent's end.
    pub fn has_live_descendants(&self) -> io::Result<bool> {
        match &self.init {
            Some(_) if self.namespace_ended => Ok(false),
            Some(init) => Ok(self.living_in_namespace(init.handle.pid())? > 0),
            None if stop::nothing_adopted() => Ok(false),
            None => {
                let members = RunMembers::new(self.tag, &[]).survey(&mut Proc::open()?, |_, _| {})?;
                Ok(members.iter().any(|member| !member.stat.is_dead()))
            }
        }
    }

    /// Kills whatever is left of the run, including the agent, collects this process's own children, and removes the
    /// run's control groups, unless a process that cannot be killed is in them.
    pub fn sweep(&mut self) -> io::Result<Killed> {
        let killed = match &self.init {
            Some(_) if self.namespace_ended => Killed::default(),
            Some(init) => {
                let killed = self.sweep_namespace(init)?;
                // The pipe may still hold how the agent itself ended.
                self.try_exit()?;
                self.namespace_ended = killed.survivors.is_empty();
                killed
            }
            None => self.sweep_tree()?,
        };
        if killed.survivors.is_empty()
            && let Some(group) = self.cgroup.take()
        {
            group.remove()?;
        }
        Ok(killed)
    }

    /// Kills this program and what belongs to it alone, and leaves every other program of the run as it is: with a pid
    /// namespace, everything in it; otherwise its descendants, its process group, and theirs.
    ///
    /// Without a namespace, a process that has left its group *and* lost its parent is not found. It carries the run's
    /// marks, so the sweep at the end of the run kills it. To be used for programs without a control group of their own
    /// ([`super::CgroupUse::Never`]): all programs of a run share one group.
    pub fn end_alone(&mut self) -> io::Result<Killed> {
        let Some(init) = &self.init else {
            let has_exited = self.try_exit()?.is_some();
            let killed = descendants::kill(self.handle.pid(), has_exited, self.tag)?;
            if !has_exited && killed.survivors.is_empty() {
                self.exit = Some(self.handle.reap()?);
            }
            return Ok(killed);
        };
        if self.namespace_ended {
            return Ok(Killed::default());
        }
        let Some(killed) = self.end_namespace(init)? else {
            let survivor = Survivor { pid: init.handle.pid(), comm: "volery-init".to_owned(), state: 'D' };
            return Ok(Killed { count: 0, survivors: vec![survivor] });
        };
        // The pipe may still hold how the agent itself ended.
        self.try_exit()?;
        self.namespace_ended = true;
        Ok(killed)
    }

    fn sweep_namespace(&self, init: &Init) -> io::Result<Killed> {
        match self.end_namespace(init)? {
            Some(killed) => Ok(killed),
            None => stop::kill_tree(self.tag, &[init.handle.pid()]),
        }
    }

    /// Ends the namespace; returns `None` if it does not end in time.
    fn end_namespace(&self, init: &Init) -> io::Result<Option<Killed>> {
        // Counting is for the record; the kill does not depend on it.
        let count = self.living_in_namespace(init.handle.pid()).unwrap_or(0);
        // It may have ended by itself; then it only has to be collected.
        let _ = init.handle.signal(Signal::KILL);
        // Its end is complete only when every process of the namespace is gone.
        if !stop::ends_in_time(&init.handle) {
            return Ok(None);
        }
        match init.handle.try_reap() {
            // Collected in an earlier sweep.
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {}
            result => {
                result?;
            }
        }
        Ok(Some(Killed { count, survivors: Vec::new() }))
    }

    /// Returns how many processes of the namespace live, without its init, whose descendants they all are.
    fn living_in_namespace(&self, init: Pid) -> io::Result<u32> {
        if Proc::open()?.children(init).is_some_and(|children| children.is_empty()) {
            return Ok(0);
        }
        descendants::count(init, self.tag)
    }

    fn sweep_tree(&mut self) -> io::Result<Killed> {
        let killed = if self.try_exit()?.is_some() && stop::nothing_adopted() {
            Killed::default()
        } else {
            // An agent that was not collected keeps its process id, so it is safe to name it as one to kill.
            let own: &[Pid] = if self.has_exited() { &[] } else { &[self.handle.pid()] };
            stop::kill_tree(self.tag, own)?
        };
        if !self.has_exited() && killed.survivors.is_empty() {
            self.exit = Some(self.handle.reap()?);
        }
        Ok(killed)
    }
}

/// Reads how the agent of a namespace ended, as its init reports it.
fn read_status(init: &Init) -> io::Result<Option<Exit>> {
    let mut status = [0_u8; 4];
    match rustix::io::retry_on_intr(|| rustix::io::read(&init.status, &mut status)) {
        Err(rustix::io::Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
        // The namespace ended without a report, and the agent with it.
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
