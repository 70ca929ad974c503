//! Chooses the model of a tool: from the project's `models.json`, else from Volery's. Both have `{provider: {default, aliases}}`.

use std::path::Path;

use serde_json::Value;

use super::tools::Spawner;
use super::version::PowerspawnVersion;
use engine::key_file;

const OURS: &str = include_str!("models.json");
const NAME: &str = "models.json";
/// The folders of PowerSpawn's files in a project that it was copied into.
const FOLDERS: [&str; 2] = ["", "powerspawn"];

/// A model, and warnings about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChosenModel {
    pub(super) model: Option<String>,
    pub(super) warnings: Vec<String>,
}

/// Returns the path of a PowerSpawn file in a project, if it exists.
pub(super) fn find(project: &Path, name: &str) -> Option<std::path::PathBuf> {
    FOLDERS.iter().map(|folder| project.join(folder).join(name)).find(|path| path.is_file())
}

/// Chooses the model of an agent: the requested one, else its default.
pub(super) fn choose(
    project: &Path,
    version: PowerspawnVersion,
    spawner: &Spawner,
    requested: Option<&str>,
) -> ChosenModel {
    // The default in PowerSpawn's documentation; since 1.8 that refers to models.json.
    let documented = spawner.model;
    let theirs = find(project, NAME).map(|path| key_file::read(&path));
    let mut warnings = Vec::new();
    if let Some(Err(reason)) = &theirs {
        warnings.push(format!("{NAME} of the project is not used: {reason}"));
    }
    let theirs = theirs.and_then(|read| read.ok().flatten()).unwrap_or_default();
    let ours: Value = serde_json::from_str(OURS).unwrap_or_default();
    let known = spawner.providers.iter().map(|name| &theirs[*name]).find(|known| known.is_object());
    let both = [known.unwrap_or(&Value::Null), &ours[spawner.own_models]];
    let default = |known: &Value| known["default"].as_str().map(ToOwned::to_owned);
    let (default_model, whose) = match default(both[0]) {
        Some(theirs) => (Some(theirs), "models.json of the project"),
        None => (default(both[1]).or(documented.map(ToOwned::to_owned)), "volery's own list of models"),
    };
    let is_documented = default_model.as_deref() == documented
        || (version == PowerspawnVersion::V1_8 && default(both[0]).is_some());
    if requested.is_none() && !is_documented {
        let model = default_model.as_deref().unwrap_or("none");
        let documented = documented.unwrap_or("that of the program");
        warnings.push(format!("the documented default model, {documented}, is replaced by {model}: {whose}"));
    }
    let model = requested.map(ToOwned::to_owned).or(default_model);
    let resolve_alias = |model: &str| {
        both.iter().find_map(|known| known["aliases"][model].as_str()).unwrap_or(model).to_owned()
    };
    ChosenModel { model: model.map(|model| resolve_alias(&model)), warnings }
}

#[cfg(test)]
mod tests {
    use super::super::tools;
    use super::*;

    fn chosen(model: &str, warning: Option<&str>) -> ChosenModel {
        ChosenModel {
            model: Some(model.to_owned()),
            warnings: warning.map(ToOwned::to_owned).into_iter().collect(),
        }
    }

    #[test]
    fn the_requested_model_counts_then_the_projects_then_ours() {
        let project = tempfile::tempdir().unwrap();
        let spawner = |tool| tools::find_spawner(PowerspawnVersion::V1_6, tool).unwrap();
        let choose = |tool, requested| {
            super::choose(project.path(), PowerspawnVersion::V1_6, &spawner(tool), requested)
        };
        let grok = |requested| choose("spawn_grok", requested);
        let replaced =
            "the documented default model, grok-3, is replaced by grok-4: volery's own list of models";
        assert_eq!(grok(None), chosen("grok-4", Some(replaced)));
        assert_eq!(grok(Some("grok-3")), chosen("grok-3", None));
        assert_eq!(choose("spawn_mistral", None), chosen("mistral-large-latest", None));
        assert_eq!(choose("spawn_copilot", Some("gemini")), chosen("gemini-2.5-pro", None));
        assert_eq!(choose("spawn_codex", None), ChosenModel { model: None, warnings: Vec::new() });
        std::fs::write(
            project.path().join(NAME),
            r#"{"grok": {"default": "fast", "aliases": {"fast": "grok-9-fast"}}}"#,
        )
        .unwrap();
        let replaced =
            "the documented default model, grok-3, is replaced by fast: models.json of the project";
        assert_eq!(grok(None), chosen("grok-9-fast", Some(replaced)));
        assert_eq!(grok(Some("fast")), chosen("grok-9-fast", None));
        std::fs::write(project.path().join(NAME), "[").unwrap();
        let broken = "models.json of the project is not used: it is no JSON (line 1, column 1)";
        assert_eq!(grok(Some("x")), chosen("x", Some(broken)));
        let replaced =
            "the documented default model, grok-3, is replaced by grok-4: volery's own list of models";
        assert_eq!(grok(None).warnings, [broken, replaced], "one does not hide the other");
    }

    #[test]
    fn the_providers_since_1_8_have_their_shipped_names() {
        let project = tempfile::tempdir().unwrap();
        let models = r#"{
            "grok": {"default": "grok-build", "aliases": {"composer": "grok-composer-2.5-fast"}},
            "grok-api": {"default": "grok-4.3", "aliases": {"grok-4": "grok-4-fast-non-reasoning"}},
            "gemini-cli": {"default": "gemini-3.1-pro-preview", "aliases": {"gemini-flash": "gemini-3.5-flash"}}
        }"#;
        std::fs::write(project.path().join(NAME), models).unwrap();
        let model = |version, tool, requested| {
            let chosen =
                choose(project.path(), version, &tools::find_spawner(version, tool).unwrap(), requested);
            assert_eq!(chosen.warnings, Vec::<String>::new(), "{tool}");
            chosen.model.unwrap()
        };
        for (tool, default, alias, resolved) in [
            ("spawn_grok", "grok-build", "composer", "grok-composer-2.5-fast"),
            ("spawn_grok_cli", "grok-build", "composer", "grok-composer-2.5-fast"),
            ("spawn_grok_api", "grok-4.3", "grok-4", "grok-4-fast-non-reasoning"),
            ("spawn_gemini_cli", "gemini-3.1-pro-preview", "gemini-flash", "gemini-3.5-flash"),
        ] {
            let found = (
                model(PowerspawnVersion::V1_8, tool, None),
                model(PowerspawnVersion::V1_8, tool, Some(alias)),
            );
            assert_eq!(found, (default.to_owned(), resolved.to_owned()), "{tool}");
        }
        assert_eq!(
            model(PowerspawnVersion::V1_6, "spawn_gemini_cli", Some("gemini-flash")),
            "gemini-3.5-flash"
        );
    }

    #[test]
    fn our_own_file_can_be_read() {
        let ours: Value = serde_json::from_str(OURS).unwrap();
        assert!(ours.as_object().unwrap().values().all(|provider| provider["aliases"].is_object()));
    }
}
