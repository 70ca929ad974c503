//! Probes whether vendors' programs still behave as their backends expect: each gets one prompt in an ordinary run,
//! in its own environment, with a model on loopback that gives one answer. Reads no key or setting of the user, costs
//! nothing, and leaves nothing behind.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use backends::contract::Exit;
use fake_llm::{AgentDirs, ScriptedReply, ScriptedServer};
use process::{CaptureRequest, capture};
use serde_json::Value;

use super::machine_probe::VendorProgram;
use crate::clock;
use crate::current_exe;
use crate::env;

/// How long one program may take.
const RUN_MAX: Duration = Duration::from_secs(60);
/// How much longer its run may take to end.
const END_MAX: Duration = Duration::from_secs(20);
/// How many are probed at once: some of them use a core for seconds.
const AT_ONCE: usize = 2;
const ANSWER: &str = "The contract is kept.";
const OUTPUT_BYTES_MAX: usize = 4 << 20;

/// The result of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeResult {
    Passed {
        took_ms: u64,
    },
    /// What went wrong.
    Failed(String),
    /// It takes its answers only from its vendor.
    Skipped(&'static str),
}

/// Probes every installed program, some at a time, and calls `started` for each when its probe starts.
pub fn run_live_probes(vendors: &mut [VendorProgram], started: &(dyn Fn(&'static str) + Sync)) {
    let waiting: Mutex<VecDeque<&mut VendorProgram>> =
        Mutex::new(vendors.iter_mut().filter(|vendor| vendor.found.is_some()).collect());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(vendor) = next() {
                    started(vendor.backend);
                    vendor.probe = Some(run_probe(vendor.backend));
                }
            });
        }
    });
}

fn run_probe(backend: &str) -> ProbeResult {
    let probe_env = match ProbeEnv::create(backend) {
        Ok(probe_env) => probe_env,
        Err(error) => return ProbeResult::Failed(format!("there is no place to try it in: {error}")),
    };
    let tried = probe_env.run(backend);
    // A folder that cannot be removed is a temporary folder like any other.
    let _ = fs::remove_dir_all(&probe_env.root);
    tried.unwrap_or_else(|error| ProbeResult::Failed(error.to_string()))
}

/// A home, a project, a state directory and a model server for one probe.
struct ProbeEnv {
    root: PathBuf,
    folders: AgentDirs,
    server: ScriptedServer,
}

impl ProbeEnv {
    fn create(backend: &str) -> io::Result<Self> {
        let name = format!("volery-doctor-{backend}-{:x}", clock::new_tag());
        let root = std::env::temp_dir().join(name);
        let mut private = fs::DirBuilder::new();
        private.mode(0o700).create(&root)?;
        let folders = AgentDirs::create(&root)?;
        for folder in ["state", "config", "work/.volery/agents"] {
            private.recursive(true).create(root.join(folder))?;
        }
        // Some programs ask for more than one answer, such as a title.
        let server = ScriptedServer::start(vec![ScriptedReply::say(ANSWER).always()])?;
        Ok(Self { root, folders, server })
    }

    fn run(&self, backend: &str) -> io::Result<ProbeResult> {
        let url = self.server.url();
        let Some(vendor_env) =
            fake_llm::vendor_environment(backend.trim_start_matches("acp-"), &url, &self.folders)
        else {
            return Ok(ProbeResult::Skipped("it cannot be pointed at a model on this machine"));
        };
        self.folders.write_home_files(&vendor_env.files)?;
        let names: Vec<&str> = vendor_env.env.iter().map(|(name, _)| name.as_str()).collect();
        let agent = format!(
            "---\ndescription: One question.\nbackend: {backend}\n{}env: [{}]\n---\nAnswer in one sentence.\n",
            vendor_env.model.map(|model| format!("model: {model}\n")).unwrap_or_default(),
            names.join(", "),
        );
        fs::write(self.folders.work.join(".volery/agents/contract.md"), agent)?;
        let started = Instant::now();
        let program = current_exe::path()?;
        let seconds = format!("{}s", RUN_MAX.as_secs());
        let args =
            ["run", "contract", "Is the contract kept?", "--json", "--timeout", &seconds].map(OsString::from);
        let request = CaptureRequest {
            program: &program,
            args: &args,
            env: &self.environment(&vendor_env.env, &url),
            directory: &self.folders.work,
            // The started process is a door outside of runs.
            tag: clock::new_tag_without_run(),
            input: &[],
            deadline: started + RUN_MAX + END_MAX,
            output_bytes_max: OUTPUT_BYTES_MAX,
        };
        let captured = capture(&request).map_err(io::Error::other)?;
        let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let run = serde_json::from_slice::<Value>(&captured.stdout).unwrap_or_default();
        Ok(interpret_run(&run, captured.exit, took_ms))
    }

    /// Returns an environment with nothing of the user's but the search path. Requests to other hosts go to the model
    /// server, which is not a proxy and refuses them.
    fn environment(&self, vendor_env: &[(String, String)], url: &str) -> Vec<(OsString, OsString)> {
        let folder = |name: &str| self.root.join(name).into_os_string();
        let mut all: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), env::get("PATH").unwrap_or_default()),
            ("HOME".into(), self.folders.home.clone().into()),
            ("TMPDIR".into(), self.folders.temp_dir.clone().into()),
            ("LANG".into(), "C.UTF-8".into()),
            (env::VOLERY_HOME.into(), folder("state")),
            (env::VOLERY_CONFIG_HOME.into(), folder("config")),
            ("NO_PROXY".into(), "127.0.0.1,localhost".into()),
            ("no_proxy".into(), "127.0.0.1,localhost".into()),
        ];
        let proxies = ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"];
        all.extend(proxies.map(|name| (name.into(), url.into())));
        // The path of the program that an adapter drives is not secret, and without it none may be found.
        let adapter_variables = ["CLAUDE_CODE_EXECUTABLE", "CODEX_PATH"];
        all.extend(adapter_variables.into_iter().filter_map(|name| Some((name.into(), env::get(name)?))));
        all.extend(vendor_env.iter().map(|(name, value)| (name.into(), value.into())));
        all
    }
}

/// Returns what a run means for the probe.
pub(crate) fn interpret_run(run: &Value, exit: Exit, took_ms: u64) -> ProbeResult {
    let text = |key: &str| run[key].as_str().map(str::trim).filter(|text| !text.is_empty());
    let answered = text("result").is_some_and(|result| result.contains(ANSWER));
    match (text("status"), exit) {
        (Some("succeeded"), Exit::Code(0)) if answered => ProbeResult::Passed { took_ms },
        (Some("succeeded"), _) => {
            ProbeResult::Failed("it succeeded with another answer than the model's".to_owned())
        }
        (Some(_), _) => {
            let explanation = text("explanation").unwrap_or("it did not succeed");
            let last = text("stderr_tail").and_then(|tail| tail.lines().next_back());
            ProbeResult::Failed(match last {
                Some(last) => format!("{explanation} ({})", domain::size::head(last, 200)),
                None => explanation.to_owned(),
            })
        }
        (None, _) => {
            let refusal = run["error"]["message"].as_str().unwrap_or("the run could not be started");
            ProbeResult::Failed(refusal.to_owned())
        }
    }
}
