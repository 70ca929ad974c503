//! Whether the programs of vendors still keep the contract that their backends rest on: each is asked one question as an
//! ordinary run, in a place of its own, with a model on loopback that gives one answer. No key or setting of the user's is
//! read, nothing is spent, and nothing is left.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use backend::contract::Exit;
use backend::process::{CaptureRequest, capture};
use model_server::{Folders, Reply, Server};
use serde_json::Value;

use super::machine::VendorProgram;
use crate::{clock, env, own_program};

/// How long one program may take.
const RUN_MAX: Duration = Duration::from_secs(60);
/// How much longer its run may take to end.
const END_MAX: Duration = Duration::from_secs(20);
/// How many are tried at once: some of them take a core for seconds.
const AT_ONCE: usize = 2;
const ANSWER: &str = "The contract is kept.";
const OUTPUT_BYTES_MAX: usize = 4 << 20;

/// What a try showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contract {
    Kept {
        took_ms: u64,
    },
    /// What went wrong instead.
    Broken(String),
    /// It takes its answers only from its vendor.
    Untried(&'static str),
}

/// Tries every program that is installed, some at a time, and tells of each when it is begun.
pub fn try_contracts(vendors: &mut [VendorProgram], begun: &(dyn Fn(&'static str) + Sync)) {
    let waiting: Mutex<VecDeque<&mut VendorProgram>> =
        Mutex::new(vendors.iter_mut().filter(|vendor| vendor.found.is_some()).collect());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(vendor) = next() {
                    begun(vendor.backend);
                    vendor.contract = Some(try_contract(vendor.backend));
                }
            });
        }
    });
}

fn try_contract(backend: &str) -> Contract {
    let place = match Place::make(backend) {
        Ok(place) => place,
        Err(error) => return Contract::Broken(format!("there is no place to try it in: {error}")),
    };
    let tried = place.try_out(backend);
    // A place that cannot be removed is a temporary folder like any other.
    let _ = fs::remove_dir_all(&place.root);
    tried.unwrap_or_else(|error| Contract::Broken(error.to_string()))
}

/// A home, a project, a state and a model for one try.
struct Place {
    root: PathBuf,
    folders: Folders,
    server: Server,
}

impl Place {
    fn make(backend: &str) -> io::Result<Self> {
        let name = format!("volery-doctor-{backend}-{:x}", clock::new_tag());
        let root = std::env::temp_dir().join(name);
        let mut private = fs::DirBuilder::new();
        private.mode(0o700).create(&root)?;
        let folders = Folders::make(&root)?;
        for folder in ["state", "config", "work/.volery/agents"] {
            private.recursive(true).create(root.join(folder))?;
        }
        // Some programs ask for more than one answer, such as a title.
        let server = Server::start(vec![Reply::say(ANSWER).always()])?;
        Ok(Self { root, folders, server })
    }

    fn try_out(&self, backend: &str) -> io::Result<Contract> {
        let url = self.server.url();
        let Some(around) = model_server::around(backend.trim_start_matches("acp-"), &url, &self.folders)
        else {
            return Ok(Contract::Untried("it cannot be pointed at a model on this machine"));
        };
        self.folders.furnish(&around.files)?;
        let names: Vec<&str> = around.env.iter().map(|(name, _)| name.as_str()).collect();
        let agent = format!(
            "---\ndescription: One question.\nbackend: {backend}\n{}env: [{}]\n---\nAnswer in one sentence.\n",
            around.model.map(|model| format!("model: {model}\n")).unwrap_or_default(),
            names.join(", "),
        );
        fs::write(self.folders.work.join(".volery/agents/contract.md"), agent)?;
        let begun = Instant::now();
        let program = own_program::path()?;
        let seconds = format!("{}s", RUN_MAX.as_secs());
        let args =
            ["run", "contract", "Is the contract kept?", "--json", "--timeout", &seconds].map(OsString::from);
        let request = CaptureRequest {
            program: &program,
            args: &args,
            env: &self.environment(&around.env, &url),
            directory: &self.folders.work,
            // What it starts is a door like any other.
            tag: clock::new_tag_without_run(),
            input: &[],
            deadline: begun + RUN_MAX + END_MAX,
            output_bytes_max: OUTPUT_BYTES_MAX,
        };
        let captured = capture(&request).map_err(io::Error::other)?;
        let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let run = serde_json::from_slice::<Value>(&captured.stdout).unwrap_or_default();
        Ok(understood(&run, captured.exit, took_ms))
    }

    /// Returns an environment without anything of the user's but the search path. Whoever wants to leave the machine
    /// is sent to the model, which is no proxy and refuses.
    fn environment(&self, around: &[(String, String)], url: &str) -> Vec<(OsString, OsString)> {
        let folder = |name: &str| self.root.join(name).into_os_string();
        let mut all: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), env::get("PATH").unwrap_or_default()),
            ("HOME".into(), self.folders.home.clone().into()),
            ("TMPDIR".into(), self.folders.temporary.clone().into()),
            ("LANG".into(), "C.UTF-8".into()),
            (env::VOLERY_HOME.into(), folder("state")),
            (env::VOLERY_CONFIG_HOME.into(), folder("config")),
            ("NO_PROXY".into(), "127.0.0.1,localhost".into()),
            ("no_proxy".into(), "127.0.0.1,localhost".into()),
        ];
        let proxies = ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"];
        all.extend(proxies.map(|name| (name.into(), url.into())));
        // Which program an adapter drives is no secret, and without it none may be found.
        let driven = ["CLAUDE_CODE_EXECUTABLE", "CODEX_PATH"];
        all.extend(driven.into_iter().filter_map(|name| Some((name.into(), env::get(name)?))));
        all.extend(around.iter().map(|(name, value)| (name.into(), value.into())));
        all
    }
}

/// Says what a run means for the contract.
pub fn understood(run: &Value, exit: Exit, took_ms: u64) -> Contract {
    let text = |key: &str| run[key].as_str().map(str::trim).filter(|text| !text.is_empty());
    let answered = text("result").is_some_and(|result| result.contains(ANSWER));
    match (text("status"), exit) {
        (Some("succeeded"), Exit::Code(0)) if answered => Contract::Kept { took_ms },
        (Some("succeeded"), _) => {
            Contract::Broken("it succeeded with another answer than the model's".to_owned())
        }
        (Some(_), _) => {
            let explanation = text("explanation").unwrap_or("it did not succeed");
            let last = text("stderr_tail").and_then(|tail| tail.lines().next_back());
            Contract::Broken(match last {
                Some(last) => format!("{explanation} ({})", domain::size::head(last, 200)),
                None => explanation.to_owned(),
            })
        }
        (None, _) => {
            let refusal = run["error"]["message"].as_str().unwrap_or("the run could not be started");
            Contract::Broken(refusal.to_owned())
        }
    }
}

/// Returns what can be found of a login of the user's, by the name of its place.
pub(super) fn login(backend: &str) -> Option<LoginFound> {
    let logins = backend::logins::of(backend)?;
    let home = env::home();
    Some(match logins.found(home.as_deref().map(Path::new), env::get) {
        Some(place) => LoginFound::At(place),
        None if logins.keyring => LoginFound::Keyring(logins.advice),
        None => LoginFound::Nowhere(logins.advice),
    })
}

/// Where a vendor's program would find its login. Never what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginFound {
    At(String),
    /// Nowhere that can be looked at; it may be in a keyring. How to log in otherwise.
    Keyring(&'static str),
    /// How to log in.
    Nowhere(&'static str),
}
