//! A home and a project of their own for the demo, removed when it is over.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use backend::process::{Piped, PipedRequest, spawn_piped};
use serde_json::{Value, json};

use crate::app::AppError;

/// An agent of the demo and what it is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member {
    pub(crate) agent: &'static str,
    definition: &'static str,
    prompt: &'static str,
}

pub(crate) const CAST: [Member; 3] = [
    Member {
        agent: "scout",
        definition: include_str!("scout.md"),
        prompt: "Where is the login time-out decided?",
    },
    Member {
        agent: "critic",
        definition: include_str!("critic.md"),
        prompt: "Review the change to the retry loop.",
    },
    Member {
        agent: "scribe",
        definition: include_str!("scribe.md"),
        prompt: "Write the notes for the next release.",
    },
];

/// A temporary directory with a state and a project in it.
pub(crate) struct Stage {
    root: PathBuf,
}

impl Stage {
    /// Makes the directories and writes the agents.
    pub(crate) fn set() -> Result<Self, AppError> {
        let name = format!("volery-demo-{}", crate::clock::new_run_id().short());
        let stage = Self { root: std::env::temp_dir().join(name) };
        let failed = |error: io::Error| {
            AppError::internal(format!("could not write to {}: {error}", stage.root.display()))
                .hint("set TMPDIR to a directory that can be written")
        };
        stage.furnish().map_err(failed)?;
        Ok(stage)
    }

    fn furnish(&self) -> io::Result<()> {
        // Not recursive: somebody else's directory of this name is an error.
        DirBuilder::new().mode(0o700).create(&self.root)?;
        let agents = self.project().join(".volery").join("agents");
        DirBuilder::new().mode(0o700).recursive(true).create(&agents)?;
        for member in CAST {
            fs::write(agents.join(format!("{}.md", member.agent)), member.definition)?;
        }
        Ok(())
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    /// Starts this very program as a server, with nothing of the user's own state or configuration.
    pub(crate) fn start_server(&self) -> Result<Piped, AppError> {
        let failed =
            |error: io::Error| AppError::internal(format!("could not start `volery serve`: {error}"));
        let program = std::env::current_exe().map_err(failed)?;
        let own = [
            (crate::env::VOLERY_HOME, self.root.join("state")),
            (crate::env::VOLERY_CONFIG_HOME, self.root.join("config")),
        ];
        let mut env: Vec<(OsString, OsString)> = crate::env::for_agent(&[]);
        env.retain(|(name, _)| own.iter().all(|(replaced, _)| name != replaced));
        env.extend(own.map(|(name, path)| (name.into(), path.into_os_string())));
        let directory = self.project();
        let request =
            PipedRequest { program: &program, args: &["serve".into()], env: &env, directory: &directory };
        spawn_piped(&request).map_err(failed)
    }

    /// Returns what the agents are asked, as the tool wants it.
    pub(crate) fn tasks(&self) -> Value {
        let directory = self.project();
        let task = |member: Member| json!({ "agent": member.agent, "prompt": member.prompt, "directory": text(&directory) });
        Value::Array(CAST.map(task).to_vec())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What cannot be removed lies in the temporary directory, which the system cleans.
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
