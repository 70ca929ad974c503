//! A test environment with a real program as Volery's client: set up only by `volery init`, plus the consent that only its
//! user can give.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fake_llm::ScriptedReply;
use rustix::process::Signal;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::test_facts::TestFacts;
use super::vendor_env::{Cell, PATIENCE, Vendor, VendorEnv, record_cell};
use crate::test_env::{KillOnDrop, kill, pids, tagged, wait_for};

/// How long a client waits for a call where the case lets its own time-out fire. Some apply it to the start of the
/// server too.
pub(super) const CLIENT_LIMIT: Duration = Duration::from_secs(10);

/// A test environment in which a client was set up.
pub(super) struct ClientEnv {
    pub(super) vendor_env: VendorEnv,
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

impl ClientEnv {
    /// Sets a client up whose calls are answered after `wait`; nothing where it is not installed.
    pub(super) fn make(name: &'static str, case: &'static str, wait: Duration, scope: Scope) -> Option<Self> {
        let vendor_env = VendorEnv::make_for(&[name], case, Vec::new())?;
        let wait = format!("wait = \"{}s\"\n", wait.as_secs());
        let names = ["claude", "codex", "copilot", "gemini", "goose", "kimi", "opencode", "qwen"];
        let waits: String = names.iter().map(|name| format!("[clients.{name}]\n{wait}")).collect();
        vendor_env.env.configure(&format!("[serve]\n{wait}disconnect_grace = \"1s\"\n{waits}"));
        vendor_env.env.fake("quick", &["say:Three herons."], "");
        let released = format!("wait-file:{}", vendor_env.env.path("released").display());
        vendor_env.env.fake("patient", &[&released, "say:Three herons."], "");
        // Where a test fails, nobody else would end it.
        vendor_env.env.fake("endless", &["hang"], "timeout: 120s");
        let client_env = Self { vendor_env, name, case, scope };
        let mut arguments = vec!["init", "--client", name, "--json"];
        arguments.extend((scope == Scope::User || is_for_users_only(name)).then_some("--user"));
        let report = client_env.vendor_env.volery(&arguments).ok().json();
        let files = report["files"].as_array().unwrap();
        assert!(files.iter().all(|file| file["state"] == "written"), "{report}");
        Some(client_env)
    }

    /// Gives the consent that `volery init` leaves to the user: servers of a project start only after it.
    fn agree(&self) {
        let project = self.vendor_env.env.project();
        match self.name {
            // As it does when it is opened there.
            "codex" if self.scope == Scope::Project => {
                let path = self.vendor_env.env.path("home/.codex/config.toml");
                let config = fs::read_to_string(&path).unwrap();
                let trusted = format!("[projects.{project:?}]\ntrust_level = \"trusted\"\n");
                fs::write(path, format!("{config}{trusted}")).unwrap();
            }
            "qwen" if self.scope == Scope::Project => {
                let approve = self.vendor_env.client_command("qwen", &["mcp", "approve", "volery"]).output();
                let approved = approve.unwrap();
                assert!(approved.status.success(), "{approved:?}");
            }
            // As it does when somebody agrees to its question, which only its window asks.
            "kimi" if self.scope == Scope::Project => {
                let folder = self.vendor_env.env.path("home/.kimi-code/workspace-trust");
                fs::create_dir_all(&folder).unwrap();
                let root = project.to_str().unwrap();
                let digest = Sha256::digest(root.as_bytes());
                let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                let name = project.file_name().unwrap().to_str().unwrap();
                let record = json!({"root": root, "trustedAt": 1});
                fs::write(folder.join(format!("wd_{name}_{}", &digest[..12])), record.to_string()).unwrap();
            }
            // A variable marks the folder as trusted for Gemini. The others need no consent.
            _ => {}
        }
    }

    /// Returns the file in which `volery init` has put the server.
    fn entry_file(&self) -> PathBuf {
        let project = self.vendor_env.env.project();
        match self.name {
            "claude" => project.join(".mcp.json"),
            "codex" => project.join(".codex/config.toml"),
            "gemini" => project.join(".gemini/settings.json"),
            "qwen" => project.join(".qwen/settings.json"),
            "opencode" => project.join("opencode.json"),
            "copilot" => self.vendor_env.env.path("home/.copilot/mcp-config.json"),
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

    /// Returns a model reply that calls one of Volery's tools, by the name under which the client offers it.
    pub(super) fn call(&self, tool: &str, arguments: Value) -> ScriptedReply {
        TestFacts::read(self.name).calls_server("volery", tool, arguments)
    }

    /// Adds replies of the model.
    pub(super) fn script(&self, replies: impl IntoIterator<Item = ScriptedReply>) {
        self.vendor_env.offline.server().add(replies);
    }

    fn command(&self) -> Command {
        // The answer of its user to its prompt.
        let arguments: &[&str] = if self.name == "copilot" { &["--allow-tool=volery"] } else { &[] };
        self.vendor_env.client(self.name, "How many herons are there?", arguments)
    }

    /// Starts the client as its user would.
    pub(super) fn start(&self) -> KillOnDrop {
        self.agree();
        let mut command = self.command();
        let log = |name| fs::File::create(self.vendor_env.env.path(name)).unwrap();
        command.stdout(log("client.out")).stderr(log("client.err"));
        KillOnDrop(command.spawn().unwrap())
    }

    /// Waits until the client has started its only run, and returns that.
    pub(super) fn run_of(&self, client: &mut KillOnDrop) -> String {
        wait_for(PATIENCE, "the run", || {
            if let Some(status) = client.0.try_wait().unwrap() {
                panic!("{status}: {}", self.diagnostics());
            }
            self.vendor_env.env.runs().into_iter().next()
        })
    }

    /// Lets the agent that waits for it go on.
    pub(super) fn release(&self) {
        fs::write(self.vendor_env.env.path("released"), "").unwrap();
    }

    /// Waits until the model has had this many requests.
    pub(super) fn wait_for_requests(&self, times: usize) {
        let server = self.vendor_env.offline.server();
        let often =
            server.wait_until(PATIENCE, |seen| seen.iter().filter(|seen| is_work(seen)).count() >= times);
        assert!(often, "the model was not asked again: {}", self.diagnostics());
    }

    /// Returns the bodies of all requests to the model.
    pub(super) fn bodies(&self) -> Vec<String> {
        let seen = self.vendor_env.offline.server().requests();
        seen.iter().filter(|seen| is_work(seen)).map(|seen| seen.body.to_string()).collect()
    }

    /// Returns the output of the client and the requests to the model, for the message of a failed assertion.
    pub(super) fn diagnostics(&self) -> String {
        let read = |name| fs::read_to_string(self.vendor_env.env.path(name)).unwrap_or_default();
        let asks: Vec<_> = self
            .vendor_env
            .offline
            .server()
            .requests()
            .iter()
            .map(|seen| format!("{:?}", seen.purpose))
            .collect();
        format!("{}\n{}\n{asks:?}", read("client.out"), read("client.err"))
    }

    pub(super) fn ended(&self, client: &mut KillOnDrop) -> Option<i32> {
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

    /// Returns the processes of Volery that were started in this environment.
    fn ours(&self) -> Vec<u32> {
        let state = format!("VOLERY_HOME={}", self.vendor_env.env.path("state").display());
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
        for run in self.vendor_env.env.runs() {
            assert_eq!(tagged(self.vendor_env.env.tag(&run)), Vec::<u32>::new());
        }
    }

    pub(super) fn works(&self) {
        record_cell(&Vendor::new(self.name), self.case, &Cell::Works);
    }
}

/// Tells whether a client has no configuration for one project.
fn is_for_users_only(name: &str) -> bool {
    matches!(name, "copilot" | "goose")
}

fn is_work(seen: &fake_llm::RecordedRequest) -> bool {
    seen.model_request.is_some() && seen.purpose != fake_llm::RequestPurpose::Side
}
