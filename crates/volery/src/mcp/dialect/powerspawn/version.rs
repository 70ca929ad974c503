//! Detects which version of PowerSpawn the server replaces. `spawn_grok` called the x.ai API before 1.8 and starts Grok's
//! program since then, so the version matters.

use std::path::{Path, PathBuf};

use serde_json::Value;
use system_files::regular_file;

use engine::EngineError;
use engine::env;

/// The files of PowerSpawn that name its version, with the assignment that does.
const FILES: [(&str, &str); 2] = [("__init__.py", "__version__"), ("mcp_server.py", "SERVER_VERSION")];
const MODELS: &str = "models.json";
/// A provider that `models.json` has since 1.8.
const PROVIDER_SINCE_1_8: &str = "grok-api";
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The versions whose tools differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PowerspawnVersion {
    /// 1.6 and 1.7.
    V1_6,
    /// 1.8 and later.
    V1_8,
}

impl PowerspawnVersion {
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.trim().trim_start_matches('v').split('.').map(str::parse::<u32>);
        let (major, minor) = (numbers.next()?.ok()?, numbers.next().unwrap_or(Ok(0)).ok()?);
        Some(if (major, minor) >= (1, 8) { Self::V1_8 } else { Self::V1_6 })
    }
}

/// Returns the version from the variable, else from the files in the project, else 1.6, the documented one.
pub(super) fn detect(variable: Option<&str>, project: &Path) -> Result<PowerspawnVersion, EngineError> {
    if let Some(text) = variable {
        return PowerspawnVersion::parse(text).ok_or_else(|| {
            let message = format!("{} is {text:?}, which is not a version", env::POWERSPAWN_VERSION);
            EngineError::usage(message).hint("write for example 1.6.2 or 1.8.1")
        });
    }
    let folders = [project.to_owned(), project.join("powerspawn")];
    Ok(find(&folders).and_then(|text| PowerspawnVersion::parse(&text)).unwrap_or(PowerspawnVersion::V1_6))
}

/// Returns the version of PowerSpawn in one of these folders.
pub(crate) fn find(folders: &[PathBuf]) -> Option<String> {
    folders.iter().find_map(|folder| {
        let assigned = FILES.iter().find_map(|(file, name)| assigned(&folder.join(file), name));
        assigned.or_else(|| has_models_since_1_8(folder).then(|| "1.8".to_owned()))
    })
}

/// Returns the version that a line of Python assigns to a name.
fn assigned(file: &Path, name: &str) -> Option<String> {
    let text = regular_file::read_text(file, FILE_BYTES_MAX).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix('='))?;
    let value = value.split(['"', '\'']).nth(1)?;
    // Other programs may have a file of this name.
    let is_powerspawn = file.ends_with("powerspawn/__init__.py") || text.contains("spawn_claude");
    (is_powerspawn && PowerspawnVersion::parse(value).is_some()).then(|| value.to_owned())
}

fn has_models_since_1_8(folder: &Path) -> bool {
    let text = regular_file::read_text(&folder.join(MODELS), FILE_BYTES_MAX).ok();
    let models: Value = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    models.get(PROVIDER_SINCE_1_8).is_some()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_variable_counts_then_the_files_then_the_documented_version() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path();
        let found = |variable: Option<&str>| detect(variable, project);
        assert_eq!(found(None), Ok(PowerspawnVersion::V1_6));
        fs::write(project.join(MODELS), r#"{"grok": {}, "grok-api": {}}"#).unwrap();
        assert_eq!(found(None), Ok(PowerspawnVersion::V1_8));
        fs::write(project.join("mcp_server.py"), "SERVER_VERSION = \"9.0\"\n").unwrap();
        assert_eq!(found(None), Ok(PowerspawnVersion::V1_8), "that server is somebody else's");
        fs::write(project.join("mcp_server.py"), "SERVER_VERSION = '1.6.2'\nspawn_claude\n").unwrap();
        assert_eq!(found(None), Ok(PowerspawnVersion::V1_6));
        fs::create_dir(project.join("powerspawn")).unwrap();
        fs::write(project.join("powerspawn/__init__.py"), "__version__ = \"1.8.1\"\n").unwrap();
        assert_eq!(find(&[project.join("powerspawn")]).as_deref(), Some("1.8.1"));
        assert_eq!(
            (found(Some("v1.8")), found(Some("1.7.0"))),
            (Ok(PowerspawnVersion::V1_8), Ok(PowerspawnVersion::V1_6))
        );
        assert!(found(Some("new")).unwrap_err().to_string().contains("POWERSPAWN_VERSION is \"new\""));
    }
}
