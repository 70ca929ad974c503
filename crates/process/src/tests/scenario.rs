//! Starts scenarios and agents for tests, and waits for their reports, always with a deadline.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use domain::run::ContainmentDemand;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use crate::{
    AgentRequest, CgroupUse, KeeperRequest, ProcessHandle, ResourceLimits, Stdin, kill_tree, remove_cgroup,
    spawn_keeper,
};

pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// Returns a tag that no other test of this machine uses at the same time.
pub(super) fn fresh_tag() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let process = u64::from(std::process::id());
    (process << 32) | (0xA5 << 24) | NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Returns the path of a program of this workspace, which must have been built before.
pub(super) fn built(relative: &str) -> String {
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test.parent().and_then(Path::parent).expect("a test lies in target/<profile>/deps");
    let path = folder.join(relative);
    assert!(
        path.exists(),
        "{} is missing: `cargo build -p fake-agent -p backend --bins --examples` first",
        path.display()
    );
    path.into_os_string().into_string().expect("the path of the target folder is text")
}

pub(super) fn fake_agent() -> String {
    built("fake-agent")
}

/// Returns a request for a fake agent with these steps.
pub(super) fn request(steps: &[&str]) -> AgentRequest {
    let argv = std::iter::once(fake_agent()).chain(steps.iter().map(|step| (*step).to_owned()));
    AgentRequest {
        argv: argv.map(OsString::from).collect(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        directory: PathBuf::from("/"),
        stdin: Stdin::Null,
        unread_bytes: 0,
        tag: fresh_tag(),
        limits: ResourceLimits::default(),
        demand: ContainmentDemand::Plain,
        cgroup: CgroupUse::Never,
        confinement: None,
    }
}

/// A scenario that the example `keeper` carries out.
pub(super) struct RunningScenario {
    pub(super) tag: u64,
    pub(super) keeper: ProcessHandle,
    report: OwnedFd,
    received: Vec<u8>,
}

/// Begins a scenario. `details` are laid over the defaults.
pub(super) fn start_scenario(mode: &str, demand: &str, steps: &[&str], details: &Value) -> RunningScenario {
    let tag = fresh_tag();
    let argv: Vec<String> =
        std::iter::once(fake_agent()).chain(steps.iter().map(|step| (*step).to_owned())).collect();
    let mut scenario = json!({ "mode": mode, "argv": argv, "tag": tag, "demand": demand });
    let fields = scenario.as_object_mut().expect("it was just made as an object");
    fields.extend(details.as_object().cloned().unwrap_or_default());
    let (report, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
    let keeper = spawn_keeper(&KeeperRequest {
        program: Path::new(&built("examples/keeper")),
        args: &[scenario.to_string().into()],
        fds: &[(writer.as_fd(), 3)],
        stderr: None,
        directory: Path::new("/"),
    })
    .expect("the keeper starts");
    RunningScenario { tag, keeper, report, received: Vec::new() }
}

impl RunningScenario {
    /// Returns the next report.
    pub(super) fn next(&mut self) -> Value {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                return serde_json::from_slice(&line).expect("a report is JSON");
            }
            let remaining = deadline.saturating_duration_since(Instant::now());
            assert!(readable(&self.report, remaining), "no report in time");
            let mut buffer = [0_u8; 4096];
            let count = rustix::io::read(&self.report, &mut buffer).expect("the report is readable");
            assert!(count > 0, "the keeper ended without a report: {:?}", self.keeper.reap());
            self.received.extend_from_slice(&buffer[..count]);
        }
    }

    /// Returns the first report, or `None` if this machine refuses the containment, which is printed.
    pub(super) fn ready(&mut self) -> Option<Value> {
        let report = self.next();
        if let Some(reason) = report.get("refused") {
            eprintln!("SKIPPED: {reason}");
            return None;
        }
        assert_eq!(report["ready"], true, "{report}");
        Some(report)
    }
}

impl Drop for RunningScenario {
    /// Leaves nothing behind, whatever the test has found.
    fn drop(&mut self) {
        let _ = self.keeper.signal(crate::Signal::KILL);
        let _ = self.keeper.reap();
        let _ = kill_tree(self.tag, &[]);
        let _ = remove_cgroup(self.tag);
    }
}

/// Returns whether a descriptor becomes readable in time.
pub(super) fn readable(fd: &impl AsFd, longest: Duration) -> bool {
    let timeout = Timespec::try_from(longest).expect("a deadline is not that far away");
    let mut polled = [PollFd::new(fd, PollFlags::IN)];
    rustix::io::retry_on_intr(|| poll(&mut polled, Some(&timeout))).expect("poll") > 0
}

/// Reads a non-blocking stream to its end.
pub(super) fn read_all(stream: &OwnedFd) -> String {
    let deadline = Instant::now() + DEADLINE;
    let mut text = Vec::new();
    let mut buffer = [0_u8; 65536];
    loop {
        assert!(
            readable(stream, deadline.saturating_duration_since(Instant::now())),
            "the stream does not end"
        );
        match rustix::io::read(stream, &mut buffer) {
            Ok(0) => return String::from_utf8_lossy(&text).into_owned(),
            Ok(count) => text.extend_from_slice(&buffer[..count]),
            Err(rustix::io::Errno::AGAIN) => {}
            Err(error) => panic!("the stream is not readable: {error}"),
        }
    }
}
