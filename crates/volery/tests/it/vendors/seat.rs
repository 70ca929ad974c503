//! A place where a real program sits as our client: set up by `volery init` and by nothing else, and then told by its
//! user what only users say.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use model_server::Reply;
use rustix::process::Signal;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::place::{Cell, PATIENCE, Place, Vendor, tell};
use crate::stage::{Guarded, kill, pids, tagged, wait_for};

/// How long a client waits for a call where the case lets its own time-out fire. Some apply it to the start of the
/// server too.
pub(super) const CLIENT_LIMIT: Duration = Duration::from_secs(10);

/// A client at a place where it was set up.
pub(super) struct Seat {
    pub(super) place: Place,
    pub(super) name: &'static str,
    case: &'static str,
    scope: Scope,
}

/// For what a client is set up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Project,
    User,
}

impl Seat {
    /// Sets a client up whose calls are answered after `wait`; nothing where it is not installed.
    pub(super) fn make(name: &'static str, case: &'static str, wait: Duration, scope: Scope) -> Option<Self> {
        let place = Place::make_for(&[name], case, Vec::new())?;
        let wait = format!("wait = \"{}s\"\n", wait.as_secs());
        let names = ["claude", "codex", "copilot", "gemini", "goose", "kimi", "opencode", "qwen"];
        let waits: String = names.iter().map(|name| format!("[clients.{name}]\n{wait}")).collect();
        place.stage.configure(&format!("[serve]\n{wait}disconnect_grace = \"1s\"\n{waits}"));
        place.stage.fake("quick", &["say:Three herons."], "");
        let released = format!("wait-file:{}", place.stage.path("released").display());
        place.stage.fake("patient", &[&released, "say:Three herons."], "");
        // Where a test fails, nobody else would end it.
        place.stage.fake("endless", &["hang"], "timeout: 120s");
        let seat = Self { place, name, case, scope };
        let mut words = vec!["init", "--client", name, "--json"];
        words.extend((scope == Scope::User || is_for_users_only(name)).then_some("--user"));
        let report = seat.place.volery(&words).ok().json();
        let files = report["files"].as_array().unwrap();
        assert!(files.iter().all(|file| file["state"] == "written"), "{report}");
        Some(seat)
    }

    /// Says what `volery init` has left to the user: what others put into a project may start only once they agree.
    fn agree(&self) {
        let project = self.place.stage.project();
        match self.name {
            // As it does when it is opened there.
            "codex" if self.scope == Scope::Project => {
                let path = self.place.stage.path("home/.codex/config.toml");
                let config = fs::read_to_string(&path).unwrap();
                let trusted = format!("[projects.{project:?}]\ntrust_level = \"trusted\"\n");
                fs::write(path, format!("{config}{trusted}")).unwrap();
            }
            "qwen" if self.scope == Scope::Project => {
                let approve = self.place.client_command("qwen", &["mcp", "approve", "volery"]).output();
                let approved = approve.unwrap();
                assert!(approved.status.success(), "{approved:?}");
            }
            // As it does when somebody agrees to its question, which only its window asks.
            "kimi" if self.scope == Scope::Project => {
                let folder = self.place.stage.path("home/.kimi-code/workspace-trust");
                fs::create_dir_all(&folder).unwrap();
                let root = project.to_str().unwrap();
                let digest = Sha256::digest(root.as_bytes());
                let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                let name = project.file_name().unwrap().to_str().unwrap();
                let record = json!({"root": root, "trustedAt": 1});
                fs::write(folder.join(format!("wd_{name}_{}", &digest[..12])), record.to_string()).unwrap();
            }
            // Gemini is told by a variable that its folder is trusted. The others need no word.
            _ => {}
        }
    }

    /// Returns the file in which `volery init` has put the server.
    fn entry_file(&self) -> PathBuf {
        let project = self.place.stage.project();
        match self.name {
            "claude" => project.join(".mcp.json"),
            "codex" => project.join(".codex/config.toml"),
            "gemini" => project.join(".gemini/settings.json"),
            "qwen" => project.join(".qwen/settings.json"),
            "opencode" => project.join("opencode.json"),
            "copilot" => self.place.stage.path("home/.copilot/mcp-config.json"),
            other => panic!("nobody knows the files of {other}"),
        }
    }

    /// Gives the client less patience than `volery init` did.
    pub(super) fn limit(&self) {
        let path = self.entry_file();
        let text = fs::read_to_string(&path).unwrap();
        let limited = if self.name == "codex" {
            text.replace("tool_timeout_sec = 600", &format!("tool_timeout_sec = {}", CLIENT_LIMIT.as_secs()))
        } else {
            let mut config: Value = serde_json::from_str(&text).unwrap();
            let servers = if self.name == "opencode" { "mcp" } else { "mcpServers" };
            config[servers]["volery"]["timeout"] = json!(CLIENT_LIMIT.as_millis());
            config.to_string()
        };
        assert_ne!(text, limited, "nothing to shorten");
        fs::write(path, limited).unwrap();
    }

    /// Returns the model's wish to call one of our tools, by the name under which the client offers it.
    pub(super) fn call(&self, tool: &str, arguments: Value) -> Reply {
        match self.name {
            "claude" | "kimi" | "qwen" => Reply::call(&format!("mcp__volery__{tool}"), arguments),
            "codex" => Reply::say("I ask somebody.").and_call_in("mcp__volery", tool, arguments),
            "gemini" => Reply::call(&format!("mcp_volery_{tool}"), arguments),
            "copilot" => Reply::call(&format!("volery-{tool}"), arguments),
            "opencode" => Reply::call(&format!("volery_{tool}"), arguments),
            "goose" => Reply::call(&format!("volery__{tool}"), arguments),
            other => panic!("nobody knows how {other} names tools"),
        }
    }

    /// Adds to what the model says.
    pub(super) fn script(&self, replies: impl IntoIterator<Item = Reply>) {
        self.place.offline.server().add(replies);
    }

    fn command(&self) -> Command {
        // What its user answers when it asks.
        let arguments: &[&str] = if self.name == "copilot" { &["--allow-tool=volery"] } else { &[] };
        self.place.client(self.name, "How many herons are there?", arguments)
    }

    /// Starts the client as its user would.
    pub(super) fn start(&self) -> Guarded {
        self.agree();
        let mut command = self.command();
        let log = |name| fs::File::create(self.place.stage.path(name)).unwrap();
        command.stdout(log("client.out")).stderr(log("client.err"));
        Guarded(command.spawn().unwrap())
    }

    /// Waits until the client has started its only run, and returns that.
    pub(super) fn run_of(&self, client: &mut Guarded) -> String {
        wait_for(PATIENCE, "the run", || {
            if let Some(status) = client.0.try_wait().unwrap() {
                panic!("{status}: {}", self.told());
            }
            self.place.stage.runs().into_iter().next()
        })
    }

    /// Lets the agent that waits for it go on.
    pub(super) fn release(&self) {
        fs::write(self.place.stage.path("released"), "").unwrap();
    }

    /// Waits until the model was asked this often.
    pub(super) fn asked(&self, times: usize) {
        let server = self.place.offline.server();
        let often =
            server.wait_until(PATIENCE, |seen| seen.iter().filter(|seen| is_work(seen)).count() >= times);
        assert!(often, "the model was not asked again: {}", self.told());
    }

    /// Returns what the model was told, each time that it was asked.
    pub(super) fn bodies(&self) -> Vec<String> {
        let seen = self.place.offline.server().seen();
        seen.iter().filter(|seen| is_work(seen)).map(|seen| seen.body.to_string()).collect()
    }

    /// Returns all that the client printed, for a failure.
    pub(super) fn told(&self) -> String {
        let read = |name| fs::read_to_string(self.place.stage.path(name)).unwrap_or_default();
        let asks: Vec<_> =
            self.place.offline.server().seen().iter().map(|seen| format!("{:?}", seen.purpose)).collect();
        format!("{}\n{}\n{asks:?}", read("client.out"), read("client.err"))
    }

    pub(super) fn ended(&self, client: &mut Guarded) -> Option<i32> {
        wait_for(PATIENCE, "the client's end", || client.0.try_wait().unwrap()).code()
    }

    /// Sends a signal to the server that the client has started.
    pub(super) fn signal_server(&self, signal: Signal) {
        let server = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).nth(1) == Some(b"serve")
        };
        let servers: Vec<u32> = self.ours().into_iter().filter(server).collect();
        assert_eq!(servers.len(), 1, "{servers:?}");
        kill(servers[0], signal);
    }

    /// Returns the processes of our program that were started for this place.
    fn ours(&self) -> Vec<u32> {
        let state = format!("VOLERY_HOME={}", self.place.stage.path("state").display());
        let has = |pid: &u32| {
            let path = Path::new("/proc").join(pid.to_string()).join("environ");
            let environment = fs::read(path).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == state.as_bytes())
        };
        pids().into_iter().filter(has).collect()
    }

    /// No server, no keeper and no agent is left of what the client started.
    pub(super) fn check_nothing_left(&self) {
        wait_for(Duration::from_secs(20), "the end of all that was started", || {
            self.ours().is_empty().then_some(())
        });
        for run in self.place.stage.runs() {
            assert_eq!(tagged(self.place.stage.tag(&run)), Vec::<u32>::new());
        }
    }

    pub(super) fn works(&self) {
        tell(&Vendor::named(self.name), self.case, &Cell::Works);
    }
}

/// Tells whether a client has no configuration for one project.
fn is_for_users_only(name: &str) -> bool {
    matches!(name, "copilot" | "goose")
}

fn is_work(seen: &model_server::Seen) -> bool {
    seen.ask.is_some() && seen.purpose != model_server::Purpose::Side
}
