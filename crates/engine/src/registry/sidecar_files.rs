//! Reads the files that some formats have next to an agent's file: memory and skills, prompts and templates. They are
//! read again each time.

use std::path::{Path, PathBuf};

use config::agent_formats::{AgentFile, jarvis, kiro};
use domain::agent::Agent;
use domain::diagnostic::Diagnostic;
use domain::id::AgentName;

use super::agent_folders::KiroPrompts;
use super::file_state::observe;
use super::guarded_read::{ESCAPES_FOLDER, escapes_folder, read_text};

/// The most skills of one agent.
const SKILLS_MAX: usize = 100;

/// Reads an agent of Jarvis with its memory and skills.
pub(super) fn read_jarvis(agent_file: AgentFile<'_>, diagnostics: &mut Vec<Diagnostic>) -> Option<Agent> {
    let folder = Path::new(agent_file.file).parent().unwrap_or(Path::new(""));
    let shown = folder.display().to_string();
    let memory = read_within(&folder.join("memory.md"), folder, diagnostics);
    let skills: Vec<String> = skill_files(folder, diagnostics)
        .iter()
        .filter_map(|path| read_within(path, folder, diagnostics))
        .collect();
    let sidecars = jarvis::AgentFolder { folder: &shown, memory: memory.as_deref(), skills: &skills };
    let (agent, found) = jarvis::read(agent_file, sidecars);
    diagnostics.extend(found);
    agent
}

fn skill_files(folder: &Path, diagnostics: &mut Vec<Diagnostic>) -> Vec<PathBuf> {
    let skills = folder.join("skills");
    if escapes_folder(&skills, folder) {
        diagnostics.push(Diagnostic::error(&skills.display().to_string(), ESCAPES_FOLDER));
        return Vec::new();
    }
    observe(&skills);
    let Ok(entries) = std::fs::read_dir(&skills) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    if paths.len() > SKILLS_MAX {
        let message = format!("only the first {SKILLS_MAX} of {} skills are read", paths.len());
        diagnostics.push(Diagnostic::warning(&skills.display().to_string(), message));
        paths.truncate(SKILLS_MAX);
    }
    paths
}

/// Reads an agent of Kiro with its prompt file and the templates.
pub(super) fn read_kiro(
    agent_file: AgentFile<'_>,
    prompts: &KiroPrompts,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Agent> {
    let mut nearest = |name: &str| {
        prompts.folders.iter().find_map(|folder| {
            let path = folder.join(name);
            read_within(&path, folder, diagnostics).map(|text| (text, path.display().to_string()))
        })
    };
    // Only a name without a path separator can be the name of a file.
    let name: Option<AgentName> = kiro::declared_name(agent_file.text, agent_file.stem).parse().ok();
    let prompt = name.filter(AgentName::is_plain).and_then(|name| nearest(&format!("{name}.md")));
    let (system, summary) = (nearest("_system.md"), nearest("_context-summary.md"));
    // A file that the user named explicitly may be anywhere.
    let mut read_named = |file: &Option<PathBuf>| file.as_ref().map(|path| read_text(path, diagnostics));
    let system = read_named(&prompts.system).unwrap_or(system.map(|(text, _)| text));
    let summary = read_named(&prompts.summary).unwrap_or(summary.map(|(text, _)| text));
    let sidecars = kiro::SidecarFiles {
        prompt: prompt.as_ref().map(|(text, file)| (text.as_str(), file.as_str())),
        system_template: system.as_deref(),
        summary_template: summary.as_deref(),
        sub_agents_only: prompts.sub_agents_only,
    };
    let (agent, found) = kiro::read(agent_file, sidecars);
    diagnostics.extend(found);
    agent
}

fn read_within(path: &Path, folder: &Path, diagnostics: &mut Vec<Diagnostic>) -> Option<String> {
    // Any part of the path may be a link.
    if escapes_folder(path, folder) {
        diagnostics.push(Diagnostic::error(&path.display().to_string(), ESCAPES_FOLDER));
        return None;
    }
    read_text(path, diagnostics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_anywhere_in_a_path_leads_out() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        std::fs::create_dir_all(at("agent/own")).unwrap();
        std::fs::create_dir(at("elsewhere")).unwrap();
        for file in ["agent/own/skill.md", "elsewhere/skill.md"] {
            std::fs::write(at(file), file).unwrap();
        }
        std::os::unix::fs::symlink(at("elsewhere"), at("agent/linked")).unwrap();
        let mut diagnostics = Vec::new();
        let own = read_within(&at("agent/own/skill.md"), &at("agent"), &mut diagnostics);
        assert_eq!((own.as_deref(), diagnostics.len()), (Some("agent/own/skill.md"), 0));
        assert_eq!(read_within(&at("agent/linked/skill.md"), &at("agent"), &mut diagnostics), None);
        assert!(diagnostics[0].to_string().ends_with(ESCAPES_FOLDER), "{diagnostics:?}");
    }
}
