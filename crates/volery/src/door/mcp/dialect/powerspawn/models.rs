//! Which model a tool means: by the project's `models.json`, else by ours. Both say `{provider: {default, aliases}}`.

use std::path::Path;

use serde_json::Value;

use super::tools::Spawner;
use super::version::Version;
use crate::key_file;

const OURS: &str = include_str!("models.json");
const NAME: &str = "models.json";
/// Where PowerSpawn's own files stand in a project that it was copied into.
const FOLDERS: [&str; 2] = ["", "powerspawn"];

/// A model, and what is worth saying about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) model: Option<String>,
    pub(super) warnings: Vec<String>,
}

/// Returns the first of a project's places where PowerSpawn keeps a file, if it is there.
pub(super) fn find(project: &Path, name: &str) -> Option<std::path::PathBuf> {
    FOLDERS.iter().map(|folder| project.join(folder).join(name)).find(|path| path.is_file())
}

/// Chooses the model of an agent: the one that was asked for, else its default.
pub(super) fn choose(project: &Path, version: Version, spawner: &Spawner, asked: Option<&str>) -> Chosen {
    // The default that PowerSpawn's document names; since 1.8 it names models.json.
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
    let (usual, whose) = match default(both[0]) {
        Some(theirs) => (Some(theirs), "models.json of the project"),
        None => (default(both[1]).or(documented.map(ToOwned::to_owned)), "volery's own list of models"),
    };
    let is_documented =
        usual.as_deref() == documented || (version == Version::V1_8 && default(both[0]).is_some());
    if asked.is_none() && !is_documented {
        let model = usual.as_deref().unwrap_or("none");
        let documented = documented.unwrap_or("that of the program");
        warnings.push(format!("the documented default model, {documented}, is replaced by {model}: {whose}"));
    }
    let model = asked.map(ToOwned::to_owned).or(usual);
    let meant = |model: &str| {
        both.iter().find_map(|known| known["aliases"][model].as_str()).unwrap_or(model).to_owned()
    };
    Chosen { model: model.map(|model| meant(&model)), warnings }
}

#[cfg(test)]
mod tests {
    use super::super::tools;
    use super::*;

    fn chosen(model: &str, warning: Option<&str>) -> Chosen {
        Chosen {
            model: Some(model.to_owned()),
            warnings: warning.map(ToOwned::to_owned).into_iter().collect(),
        }
    }

    #[test]
    fn what_was_asked_for_counts_then_the_projects_word_then_ours() {
        let place = tempfile::tempdir().unwrap();
        let spawner = |tool| tools::of(Version::V1_6, tool).unwrap();
        let choose = |tool, asked| super::choose(place.path(), Version::V1_6, &spawner(tool), asked);
        let grok = |asked| choose("spawn_grok", asked);
        let replaced =
            "the documented default model, grok-3, is replaced by grok-4: volery's own list of models";
        assert_eq!(grok(None), chosen("grok-4", Some(replaced)));
        assert_eq!(grok(Some("grok-3")), chosen("grok-3", None));
        assert_eq!(choose("spawn_mistral", None), chosen("mistral-large-latest", None));
        assert_eq!(choose("spawn_copilot", Some("gemini")), chosen("gemini-2.5-pro", None));
        assert_eq!(choose("spawn_codex", None), Chosen { model: None, warnings: Vec::new() });
        std::fs::write(
            place.path().join(NAME),
            r#"{"grok": {"default": "fast", "aliases": {"fast": "grok-9-fast"}}}"#,
        )
        .unwrap();
        let replaced =
            "the documented default model, grok-3, is replaced by fast: models.json of the project";
        assert_eq!(grok(None), chosen("grok-9-fast", Some(replaced)));
        assert_eq!(grok(Some("fast")), chosen("grok-9-fast", None));
        std::fs::write(place.path().join(NAME), "[").unwrap();
        let broken = "models.json of the project is not used: it is no JSON (line 1, column 1)";
        assert_eq!(grok(Some("x")), chosen("x", Some(broken)));
        let replaced =
            "the documented default model, grok-3, is replaced by grok-4: volery's own list of models";
        assert_eq!(grok(None).warnings, [broken, replaced], "one does not hide the other");
    }

    #[test]
    fn the_providers_of_1_8_are_known_by_the_names_that_it_ships() {
        let place = tempfile::tempdir().unwrap();
        let models = r#"{
            "grok": {"default": "grok-build", "aliases": {"composer": "grok-composer-2.5-fast"}},
            "grok-api": {"default": "grok-4.3", "aliases": {"grok-4": "grok-4-fast-non-reasoning"}},
            "gemini-cli": {"default": "gemini-3.1-pro-preview", "aliases": {"gemini-flash": "gemini-3.5-flash"}}
        }"#;
        std::fs::write(place.path().join(NAME), models).unwrap();
        let model = |version, tool, asked| {
            let chosen = choose(place.path(), version, &tools::of(version, tool).unwrap(), asked);
            assert_eq!(chosen.warnings, Vec::<String>::new(), "{tool}");
            chosen.model.unwrap()
        };
        for (tool, default, alias, meant) in [
            ("spawn_grok", "grok-build", "composer", "grok-composer-2.5-fast"),
            ("spawn_grok_cli", "grok-build", "composer", "grok-composer-2.5-fast"),
            ("spawn_grok_api", "grok-4.3", "grok-4", "grok-4-fast-non-reasoning"),
            ("spawn_gemini_cli", "gemini-3.1-pro-preview", "gemini-flash", "gemini-3.5-flash"),
        ] {
            let found = (model(Version::V1_8, tool, None), model(Version::V1_8, tool, Some(alias)));
            assert_eq!(found, (default.to_owned(), meant.to_owned()), "{tool}");
        }
        assert_eq!(model(Version::V1_6, "spawn_gemini_cli", Some("gemini-flash")), "gemini-3.5-flash");
    }

    #[test]
    fn our_own_file_can_be_read() {
        let ours: Value = serde_json::from_str(OURS).unwrap();
        assert!(ours.as_object().unwrap().values().all(|provider| provider["aliases"].is_object()));
    }
}
