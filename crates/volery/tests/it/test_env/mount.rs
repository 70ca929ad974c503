//! A state directory on a disk of its own, in a mount namespace of its own, so that it can be full or read-only.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::{CommandOutput, KillOnDrop, PATIENCE, TestEnv, command_output, wait_for};

/// A process whose mount namespace has a small disk at the test's state directory.
pub(crate) struct SmallDisk<'a> {
    env: &'a TestEnv,
    holder: KillOnDrop,
}

impl<'a> SmallDisk<'a> {
    /// Mounts the disk; nothing where that is not allowed, which is recorded as a skipped test.
    pub(crate) fn mount(env: &'a TestEnv, test: &str) -> Option<Self> {
        let root = rustix::process::geteuid().is_root();
        let mut command = Command::new("unshare");
        command.args(if root { &["-m"][..] } else { &["-U", "-r", "-m"][..] });
        let script = "mount -t tmpfs -o size=4m,mode=700 tmpfs \"$0\" && echo mounted && exec cat";
        command.args(["sh", "-c", script]).arg(env.path("state"));
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut answer = String::new();
        let holder = child.ok().map(|mut child| {
            let stdout = child.stdout.take().unwrap();
            // An error leaves the answer empty.
            let _ = BufReader::new(stdout).read_line(&mut answer);
            KillOnDrop(child)
        });
        match holder {
            Some(holder) if answer == "mounted\n" => Some(Self { env, holder }),
            Some(_) | None => {
                skip(test, "no disk can be mounted in a namespace of its own");
                None
            }
        }
    }

    /// Returns the program with this disk as its state.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let own = self.env.command(arguments);
        let mut command = self.enter();
        command.arg(own.get_program()).args(own.get_args()).env_clear();
        command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    }

    #[must_use = "look at the exit code at least"]
    pub(crate) fn volery<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> CommandOutput {
        command_output(self.command(arguments).stdin(Stdio::null()).output().unwrap())
    }

    /// Returns a path of the state directory as this process can reach it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let inside = self.env.path("state");
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.0.id()));
        root.join(inside.strip_prefix("/").unwrap()).join(name)
    }

    /// Writes until nothing more fits.
    pub(crate) fn fill(&self) {
        let mut file = std::fs::File::create(self.path("filler")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    /// Frees what was filled.
    pub(crate) fn free(&self) {
        std::fs::remove_file(self.path("filler")).unwrap();
    }

    /// Makes the disk read-only, once nobody writes to it any more.
    pub(crate) fn make_read_only(&self) {
        self.remount("ro");
    }

    pub(crate) fn make_writable(&self) {
        self.remount("rw");
    }

    fn remount(&self, mode: &str) {
        wait_for(PATIENCE, "the disk to be mounted anew", || {
            let mut command = self.enter();
            command.args(["mount", "-o", &format!("remount,bind,{mode}")]).arg(self.env.path("state"));
            let done = command.stderr(Stdio::null()).status().unwrap();
            done.success().then_some(())
        });
    }

    fn enter(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg("-t").arg(self.holder.0.id().to_string());
        if !rustix::process::geteuid().is_root() {
            command.args(["-U", "--preserve-credentials"]);
        }
        command.arg("-m").arg(format!("--wd={}", self.env.project().display())).arg("--");
        command
    }
}

/// Records that a test could not run here; the test command counts and shows it.
pub(crate) fn skip(test: &str, reason: &str) {
    let line = format!("{test}: {reason}\n");
    let Some(path) = std::env::var_os("VOLERY_TESTS_SKIPPED") else { return };
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    file.and_then(|mut file| file.write_all(line.as_bytes())).unwrap();
}
