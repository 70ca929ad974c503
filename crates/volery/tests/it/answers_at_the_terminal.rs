//! A run in the foreground of a terminal is answered there; where there is none, only the commands that answer the question
//! are named.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use crate::stage::{PATIENCE, Stage, kill, wait_for};

/// A command on a terminal of its own.
struct Terminal {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<String>>,
}

impl Terminal {
    fn start(mut command: Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
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
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A terminal whose other side is closed gives an error.
            while let Ok(read @ 1..) = from.read(&mut bytes) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        });
        Self { child, keyboard, screen }
    }

    fn shows(&self, text: &str) {
        wait_for(PATIENCE, text, || self.screen.lock().unwrap().contains(text).then_some(()));
    }

    fn types(&mut self, line: &str) {
        self.keyboard.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn exits(mut self) -> (Option<i32>, String) {
        let status = wait_for(PATIENCE, "the end of the command", || self.child.try_wait().unwrap());
        let screen = self.screen.lock().unwrap().clone();
        (status.code(), screen)
    }
}

fn asker(steps: &str) -> (Stage, Terminal) {
    let stage = Stage::new();
    stage.rehearsal("asker", steps, "");
    let terminal = Terminal::start(stage.command(["run", "asker", "go"]));
    (stage, terminal)
}

#[test]
fn a_person_allows_denies_and_answers_where_the_run_was_started() {
    let (stage, mut terminal) = asker("- ask: May I build?\n- ask: May I build?\n- ask: When?\n- say: done");
    terminal.shows("asker asks: May I build?");
    terminal.shows("[a]llow, [d]eny, or an answer in words: ");
    terminal.types("a");
    let id = stage.only_run();
    stage.event(&id, "answered");
    wait_for(PATIENCE, "the second question", || {
        let asked = terminal.screen.lock().unwrap().matches("asks: May I build?").count();
        (asked == 2).then_some(())
    });
    terminal.types("d");
    terminal.shows("asker asks: When?");
    terminal.types("");
    terminal.types("on Monday");
    let (code, screen) = terminal.exits();
    assert_eq!(code, Some(0), "{screen}");
    let answers: Vec<_> = stage.events(&id).into_iter().filter(|event| event["type"] == "answered").collect();
    let given = |at: usize| (answers[at]["allowed"].clone(), answers[at]["text"].clone());
    assert_eq!(given(0), (json!(true), json!("yes")));
    assert_eq!(given(1), (json!(false), json!("no")));
    assert_eq!(given(2), (json!(true), json!("on Monday")));
    assert!(!screen.contains("from another terminal"), "{screen}");
}

#[test]
fn an_answer_from_elsewhere_ends_the_question_and_ctrl_c_still_cancels() {
    let (stage, terminal) = asker("- ask: May I build?\n- ask: May I deploy?\n- say: done");
    terminal.shows("[a]llow, [d]eny");
    let id = stage.only_run();
    stage.volery(["approve", &id]).ok();
    terminal.shows("asker asks: May I deploy?");
    // What Ctrl-C sends to the processes of a terminal.
    kill(terminal.child.id(), Signal::INT);
    let (code, screen) = terminal.exits();
    assert_eq!(code, Some(130), "{screen}");
    assert!(screen.contains("stopping; Ctrl-C again kills it now"), "{screen}");
    let ended = stage.ended(&id);
    // The rehearsal had said the first answer.
    assert!(ended["explanation"].as_str().unwrap().contains("cancelled by the terminal"), "{ended}");
}

#[test]
fn a_wait_for_an_unattended_run_names_no_commands() {
    let stage = Stage::new();
    // So many that one of them is open whenever somebody looks.
    stage.rehearsal("asker", &format!("{}- say: done", "- ask: May I build?\n".repeat(300)), "");
    stage.hold("worker_claimed");
    let id = stage.start("asker", "go");
    stage.held("worker_claimed");
    let waiting = stage.command(["wait", &id]).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    stage.release("worker_claimed");
    let waited = crate::stage::said(waiting.wait_with_output().unwrap()).ok();
    assert!(!waited.stderr.contains("volery approve"), "{}", waited.stderr);
}

#[test]
fn serve_on_a_terminal_says_what_it_waits_for() {
    let stage = Stage::new();
    let terminal = Terminal::start(stage.command(["serve"]));
    terminal.shows("waiting for an MCP client on standard input");
    terminal.shows("volery init");
    kill(terminal.child.id(), Signal::TERM);
    terminal.exits();
}
