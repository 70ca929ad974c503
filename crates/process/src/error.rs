//! Why an agent could not be started, in words for the person who wrote its definition.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use super::os::LaunchStage;

/// Why an agent could not be started. Nothing of it runs.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("no program was named")]
    Empty,
    #[error("{what} contains a NUL byte")]
    Nul { what: &'static str },
    #[error("program {program:?} was not found in PATH ({})", path.display())]
    NotInPath { program: OsString, path: OsString },
    #[error("program {program:?} was not found: the agent's environment has no PATH")]
    NoPath { program: OsString },
    #[error("program {} does not exist", program.display())]
    NoProgram { program: PathBuf },
    #[error("program {} cannot be executed: {reason}", program.display())]
    NotExecutable { program: PathBuf, reason: &'static str },
    #[error("program {} names the interpreter {interpreter:?}, which does not exist", program.display())]
    NoInterpreter { program: PathBuf, interpreter: String },
    #[error("the arguments and the environment together are longer than the system allows")]
    TooLong,
    #[error("directory {} cannot be entered", directory.display())]
    Directory {
        directory: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("containment `strict` needs a pid namespace, which this machine refuses: {reason}")]
    ContainmentRefused { reason: String },
    #[error("this machine cannot confine a program to its files and hosts: {reason}")]
    ConfinementUnavailable { reason: String },
    #[error("a program cannot be confined to {}: it cannot be opened", path.display())]
    ConfinementPath {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("a program cannot be confined to {}: {} is in it", directory.display(), hidden.display())]
    ConfinementExposes { directory: PathBuf, hidden: PathBuf },
    #[error("program {} is outside the directories that a confined program may read", program.display())]
    OutsideConfinement { program: PathBuf },
    #[error("the agent's process was killed before it could execute its program")]
    Lost,
    /// Something else failed in the new process.
    #[error("the agent's process failed while {stage}")]
    Stage {
        stage: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("a process for the agent could not be made")]
    System {
        #[from]
        source: io::Error,
    },
}

impl SpawnError {
    pub(super) fn from_stage(stage: LaunchStage, source: io::Error) -> Self {
        Self::Stage { stage: stage.as_str(), source }
    }
}
