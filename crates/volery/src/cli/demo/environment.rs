//! A temporary home and project for the demo, removed at its end.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use process::{Piped, PipedRequest, spawn_piped};
use serde_json::{Value, json};

use engine::EngineError;

/// An agent of the demo and its prompt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DemoAgent {
    pub(crate) name: &'static str,
    definition: &'static str,
    prompt: &'static str,
}

pub(crate) const DEMO_AGENTS: [DemoAgent; 3] = [
    DemoAgent {
        name: "scout",
        definition: include_str!("scout.md"),
        prompt: "Where is the login time-out decided?",
    },
    DemoAgent {
        name: "critic",
        definition: include_str!("critic.md"),
        prompt: "Review the change to the retry loop.",
    },
    DemoAgent {
        name: "scribe",
        definition: include_str!("scribe.md"),
        prompt: "Write the notes for the next release.",
    },
];

/// A temporary directory with a state directory and a project.
pub(crate) struct DemoEnv {
    root: PathBuf,
}

impl DemoEnv {
    /// Creates the directories and writes the agents.
    pub(crate) fn create() -> Result<Self, EngineError> {
        let name = format!("volery-demo-{}", engine::clock::new_run_id().short());
        let env = Self { root: std::env::temp_dir().join(name) };
        let failed = |error: io::Error| {
            EngineError::internal(format!("could not write to {}: {error}", env.root.display()))
                .hint("set TMPDIR to a directory that can be written")
        };
        env.create_files().map_err(failed)?;
        Ok(env)
    }

    fn create_files(&self) -> io::Result<()> {
        // Not recursive: an existing directory of this name is an error.
        DirBuilder::new().mode(0o700).create(&self.root)?;
        let agents = self.project().join(".volery").join("agents");
        DirBuilder::new().mode(0o700).recursive(true).create(&agents)?;
        for agent in DEMO_AGENTS {
            fs::write(agents.join(format!("{}.md", agent.name)), agent.definition)?;
        }
        Ok(())
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    /// Starts this program as a server, without the user's state and configuration.
    pub(crate) fn start_server(&self) -> Result<Piped, EngineError> {
        let failed =
            |error: io::Error| EngineError::internal(format!("could not start `volery serve`: {error}"));
        let program = std::env::current_exe().map_err(failed)?;
        let own = [
            (engine::env::VOLERY_HOME, self.root.join("state")),
            (engine::env::VOLERY_CONFIG_HOME, self.root.join("config")),
        ];
        let mut env: Vec<(OsString, OsString)> = engine::env::for_agent(&[]);
        env.retain(|(name, _)| own.iter().all(|(replaced, _)| name != replaced));
        env.extend(own.map(|(name, path)| (name.into(), path.into_os_string())));
        let directory = self.project();
        let request =
            PipedRequest { program: &program, args: &["serve".into()], env: &env, directory: &directory };
        spawn_piped(&request).map_err(failed)
    }

    /// Returns the tasks of the agents, as arguments of the tool.
    pub(crate) fn tasks(&self) -> Value {
        let directory = self.project();
        let task = |agent: DemoAgent| json!({ "agent": agent.name, "prompt": agent.prompt, "directory": text(&directory) });
        Value::Array(DEMO_AGENTS.map(task).to_vec())
    }
}

impl Drop for DemoEnv {
    fn drop(&mut self) {
        // The system cleans its temporary directory if this fails.
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
