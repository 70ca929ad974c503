//! A real terminal for a command: a pseudo-terminal whose other side the test reads and types on.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::Winsize;

use super::{PATIENCE, wait_for};

/// A command on a terminal of its own, 80 columns wide.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
}

impl Terminal {
    pub(crate) fn start(mut command: Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&master, size).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let side = || -> OwnedFd { rustix::fs::open(name.as_c_str(), flags, Mode::empty()).unwrap() };
        command.env("TERM", "xterm").env_remove("CI");
        let child = command
            .stdin(Stdio::from(side()))
            .stdout(Stdio::from(side()))
            .stderr(Stdio::from(side()))
            .spawn()
            .unwrap();
        drop(command);
        let keyboard = File::from(master);
        let screen = Arc::new(Mutex::new(String::new()));
        let (mut from, shown) = (keyboard.try_clone().unwrap(), Arc::clone(&screen));
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A terminal whose other side is closed gives an error.
            while let Ok(read @ 1..) = from.read(&mut bytes) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        });
        Self { child, keyboard, screen, reader }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns all that the command has written to the terminal so far.
    pub(crate) fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    pub(crate) fn shows(&self, text: &str) {
        wait_for(PATIENCE, text, || self.screen().contains(text).then_some(()));
    }

    pub(crate) fn types(&mut self, line: &str) {
        self.keyboard.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub(crate) fn exits(mut self) -> (Option<i32>, String) {
        let status = wait_for(PATIENCE, "the end of the command", || self.child.try_wait().unwrap());
        // The kernel still delivers what was written before the last process closed the terminal.
        wait_for(PATIENCE, "the end of the output", || self.reader.is_finished().then_some(()));
        (status.code(), self.screen())
    }
}
