//! Files of clients: kept safe, kept apart, and put back to the letter.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::Value;

use super::super::client::{CLIENTS, Levels, Scope, Server, Surroundings, named};
use super::super::record::Records;
use super::super::set_up::{FileReport, Order, Purpose, State, set_up, take_back};

/// A project and a home of their own.
pub(super) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["project", "home", "state"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.folder.path()).unwrap().join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(super) fn act(&self, client: &str, scope: Scope, how: How) -> Vec<FileReport> {
        let (project, records) = (self.path("project"), Records::below(&self.path("state")));
        let surroundings = Surroundings {
            project: project.clone(),
            home: self.path("home"),
            claude_config: None,
            codex_home: None,
            copilot_home: None,
            config_home: None,
            kimi_home: None,
            goose_root: None,
            macos: how.macos,
        };
        let arguments =
            std::iter::once("serve".to_owned()).chain(how.dialect.map(|name| format!("--dialect={name}")));
        let server = Server { command: "volery".to_owned(), arguments: arguments.collect(), env: Vec::new() };
        let client = named(client).unwrap();
        let wishes = (client.wishes)(&surroundings, scope, &server);
        let order = Order {
            project: &project,
            asked_for: Some(project.clone()),
            records: &records,
            dry_run: how.dry_run,
            purpose: Purpose::SetUp,
        };
        let client = client.name;
        if how.undo { take_back(client, &wishes, &order) } else { set_up(client, &wishes, &order) }
    }

    pub(super) fn init(&self, client: &str, scope: Scope) -> Vec<FileReport> {
        self.act(client, scope, How::default())
    }

    pub(super) fn undo(&self, client: &str, scope: Scope) -> Vec<FileReport> {
        self.act(client, scope, How { undo: true, ..How::default() })
    }

    /// Returns every file with its content and mode, the state apart.
    pub(super) fn all(&self) -> Vec<(PathBuf, Vec<u8>, u32)> {
        fn below(folder: &Path, found: &mut Vec<(PathBuf, Vec<u8>, u32)>) {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let metadata = entry.metadata().unwrap();
                if metadata.is_dir() {
                    found.push((entry.path(), Vec::new(), 0));
                    below(&entry.path(), found);
                } else {
                    let content = fs::read(entry.path()).unwrap_or_default();
                    found.push((entry.path(), content, metadata.permissions().mode()));
                }
            }
        }
        let mut found = Vec::new();
        for name in ["project", "home"] {
            below(&self.path(name), &mut found);
        }
        found.sort();
        found
    }
}

#[derive(Default)]
pub(super) struct How {
    pub(super) undo: bool,
    pub(super) dry_run: bool,
    pub(super) macos: bool,
    pub(super) dialect: Option<&'static str>,
}

pub(super) fn states(reports: &[FileReport]) -> Vec<State> {
    reports.iter().map(|report| report.state).collect()
}

fn problem(reports: &[FileReport]) -> &str {
    reports.iter().find_map(|report| report.problem.as_deref()).unwrap_or_default()
}

#[test]
fn every_client_is_set_up_and_taken_back_without_a_trace() {
    for client in CLIENTS {
        let scopes = [Scope::Project, Scope::User].into_iter().filter(|scope| client.fits(*scope));
        for scope in scopes {
            let place = Place::new();
            let before = place.all();
            let first = place.init(client.name, scope);
            assert!(first.iter().all(|file| file.state == State::Written), "{}: {first:?}", client.name);
            let between = place.all();
            assert!(place.init(client.name, scope).iter().all(|file| file.state == State::Unchanged));
            assert_eq!(place.all(), between, "{}: a second time changed something", client.name);
            assert!(place.undo(client.name, scope).iter().all(|file| file.state == State::Removed));
            assert_eq!(place.all(), before, "{}", client.name);
        }
    }
}

#[test]
fn what_was_there_is_kept_beside_and_comes_back_to_the_letter() {
    let place = Place::new();
    let text = "{ \"mcpServers\" :{} , \"x\":[ 1,2 ]}";
    let path = place.write("project/.mcp.json", text);
    fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    let before = place.all();
    let reports = place.init("claude", Scope::Project);
    let backup = reports[0].backup.clone().unwrap();
    assert_eq!(
        (fs::read_to_string(&backup).unwrap().as_str(), backup.file_name().unwrap().to_str().unwrap()),
        (text, ".mcp.json.before-volery")
    );
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(states(&place.undo("claude", Scope::Project)), [State::TakenBack, State::Removed]);
    assert_eq!(place.all(), before);
}

#[test]
fn what_the_user_changed_since_survives_the_undoing() {
    let place = Place::new();
    let path = place.write("project/.mcp.json", "{\n  \"mcpServers\": {}\n}\n");
    place.init("claude", Scope::Project);
    let edited = fs::read_to_string(&path)
        .unwrap()
        .replace("\"mcpServers\"", "// mine\n  \"a\": 1,\n  \"mcpServers\"");
    fs::write(&path, &edited).unwrap();
    place.undo("claude", Scope::Project);
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\n  // mine\n  \"a\": 1,\n  \"mcpServers\": {}\n}\n");
}

#[test]
fn another_dialect_replaces_the_first_and_one_undo_takes_back_both() {
    let place = Place::new();
    place.write("home/.codex/config.toml", "model = \"x\" # mine\n");
    let before = place.all();
    place.init("codex", Scope::User);
    place.act("codex", Scope::User, How { dialect: Some("jarvis"), ..How::default() });
    let now = fs::read_to_string(place.path("home/.codex/config.toml")).unwrap();
    assert!(now.contains("jarvis") && now.matches("[mcp_servers").count() == 1, "{now}");
    place.undo("codex", Scope::User);
    assert_eq!(place.all(), before);
}

#[test]
fn a_dry_run_changes_nothing_and_shows_everything() {
    let place = Place::new();
    place.write("project/.cursor/mcp.json", "{}");
    let before = place.all();
    let reports = place.act("cursor", Scope::Project, How { dry_run: true, ..How::default() });
    assert_eq!((states(&reports), place.all()), (vec![State::WouldChange], before));
    assert!(reports[0].diff.contains("+    \"volery\": {"), "{}", reports[0].diff);
}

#[test]
fn a_broken_file_is_named_with_its_place_and_its_client_left_alone() {
    let place = Place::new();
    place.write("project/.claude/settings.local.json", "{\n  \"permissions\": {,}\n}\n");
    let before = place.all();
    let reports = place.init("claude", Scope::Project);
    assert_eq!(states(&reports), [State::LeftAlone, State::LeftAlone]);
    assert_eq!(reports[1].problem.as_deref(), Some("line 2, column 19: a key in double quotes was expected"));
    assert_eq!(place.all(), before, "half of a client was set up");
}

#[test]
fn text_that_is_none_is_left_alone() {
    let place = Place::new();
    let path = place.write("project/.mcp.json", "");
    fs::write(&path, b"{\n \"a\": \"\xff\"}").unwrap();
    assert_eq!(
        place.init("claude", Scope::Project)[0].problem.as_deref(),
        Some("line 2, column 8: not UTF-8 text")
    );
}

#[test]
fn a_read_only_file_is_left_alone() {
    let place = Place::new();
    let path = place.write("project/.cursor/mcp.json", "{}");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
    let before = place.all();
    assert_eq!(problem(&place.init("cursor", Scope::Project)), "it is read-only");
    assert_eq!(place.all(), before);
}

#[test]
fn a_link_out_of_the_project_is_not_followed() {
    for link in [".cursor", ".cursor/mcp.json"] {
        let place = Place::new();
        let outside = place.write("home/outside/mcp.json", "{}");
        let at = place.path("project").join(link);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        let target = if link == ".cursor" { place.path("home/outside") } else { outside.clone() };
        symlink(target, at).unwrap();
        let reports = place.init("cursor", Scope::Project);
        assert!(problem(&reports).starts_with("it leads out of the project"), "{reports:?}");
        assert_eq!(fs::read_to_string(outside).unwrap(), "{}");
    }
}

#[test]
fn a_link_within_the_project_and_a_users_own_stay_links() {
    let place = Place::new();
    for (link, target, client, scope) in [
        ("project/.cursor/mcp.json", "project/shared.json", "cursor", Scope::Project),
        ("home/.qwen/settings.json", "home/dotfiles/qwen.json", "qwen", Scope::User),
    ] {
        let target = place.write(target, "{}");
        let link = place.path(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(&target, &link).unwrap();
        assert_eq!(states(&place.init(client, scope)), [State::Written]);
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert!(fs::read_to_string(&target).unwrap().contains("volery"));
        place.undo(client, scope);
        assert_eq!(fs::read_to_string(&target).unwrap(), "{}");
    }
}

#[test]
fn a_link_to_nowhere_is_left_alone() {
    let place = Place::new();
    fs::create_dir(place.path("project/.cursor")).unwrap();
    symlink(place.path("home/nothing"), place.path("project/.cursor/mcp.json")).unwrap();
    assert!(problem(&place.init("cursor", Scope::Project)).starts_with("could not find it"));
    assert!(!place.path("home/nothing").exists());
}

#[test]
fn opencode_keeps_the_file_that_it_has() {
    let place = Place::new();
    let path = place.write("project/opencode.jsonc", "{\n  // mine\n}\n");
    let reports = place.init("opencode", Scope::Project);
    assert_eq!(reports[0].path, path);
    assert!(!place.path("project/opencode.json").exists());
}

#[test]
fn clients_without_a_project_file_change_only_the_users() {
    for client in CLIENTS.into_iter().filter(|client| client.levels == Levels::UserOnly) {
        let place = Place::new();
        let reports = place.init(client.name, Scope::Project);
        assert!(reports.iter().all(|report| report.path.starts_with(place.path("home"))), "{}", client.name);
        assert!(!client.fits(Scope::Project) && client.fits(Scope::User));
    }
}

#[test]
fn applications_of_macos_keep_their_files_in_its_library() {
    for (name, file) in [
        ("claude-desktop", "Claude/claude_desktop_config.json"),
        ("vscode", "Code/User/mcp.json"),
        ("cline", "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"),
    ] {
        for (macos, folder) in [(true, "home/Library/Application Support"), (false, "home/.config")] {
            let place = Place::new();
            let reports = place.act(name, Scope::User, How { macos, ..How::default() });
            let paths: Vec<&PathBuf> = reports.iter().map(|report| &report.path).collect();
            assert_eq!(paths, [&place.path(folder).join(file)]);
        }
    }
}

#[test]
fn each_cline_that_is_here_is_set_up() {
    let place = Place::new();
    let of_extension = "home/.config/Code/User/globalStorage/saoudrizwan.claude-dev";
    fs::create_dir_all(place.path("home/.cline")).unwrap();
    let paths = |place: &Place| -> Vec<PathBuf> {
        let how = How { dry_run: true, ..How::default() };
        place.act("cline", Scope::User, how).into_iter().map(|report| report.path).collect()
    };
    let command_line = place.path("home/.cline/data/settings/cline_mcp_settings.json");
    assert_eq!(paths(&place), std::slice::from_ref(&command_line));
    fs::create_dir_all(place.path(of_extension)).unwrap();
    let extension = place.path(of_extension).join("settings/cline_mcp_settings.json");
    assert_eq!(paths(&place), [extension, command_line]);
}

#[test]
fn comments_of_zed_and_goose_stay_and_undoing_is_to_the_letter() {
    let zed =
        "// Zed settings\n{\n  // a theme\n  \"theme\": \"x\", // mine\n  \"context_servers\": {\n  },\n}\n";
    let goose = "# mine\nextensions: # all\n  developer: {enabled: true} # built in\n\n# the end\n";
    for (client, file, text) in
        [("zed", "home/.config/zed/settings.json", zed), ("goose", "home/.config/goose/config.yaml", goose)]
    {
        let place = Place::new();
        let path = place.write(file, text);
        let before = place.all();
        assert_eq!(states(&place.init(client, Scope::User)), [State::Written]);
        let written = fs::read_to_string(&path).unwrap();
        let mut left = written.lines();
        assert!(text.lines().all(|line| left.any(|now| now == line)), "a line of {text} is gone: {written}");
        assert!(written.contains("volery"), "{written}");
        place.undo(client, Scope::User);
        assert_eq!(place.all(), before);
    }
}

#[test]
fn what_cannot_be_edited_is_given_as_text_to_paste() {
    let place = Place::new();
    let path = place.write("home/.config/goose/config.yaml", "extensions: {a: {cmd: x}}\n");
    let reports = place.init("goose", Scope::User);
    assert_eq!(states(&reports), [State::LeftAlone]);
    let paste = reports[0].paste.as_deref().unwrap();
    assert!(paste.starts_with("extensions:\n  volery:\n") && paste.contains("    cmd: volery\n"), "{paste}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "extensions: {a: {cmd: x}}\n");
    let place = Place::new();
    place.write("project/.cursor/mcp.json", "{,}");
    let reports = place.init("cursor", Scope::Project);
    assert!(reports[0].paste.as_deref().unwrap().starts_with("{\n  \"mcpServers\": {\n"), "{reports:?}");
    assert_eq!(place.undo("cursor", Scope::Project)[0].paste, None);
}

#[test]
fn secrets_in_a_file_are_not_in_the_difference() {
    let place = Place::new();
    let servers = "\"a\": {\"env\": {\"SOME_API_KEY\": \"s3cret\", \"X_TOKEN\": \"longer-s3cret-one\"}}";
    place.write("project/.cursor/mcp.json", &format!("{{\"mcpServers\": {{{servers}}}}}"));
    place.write(
        "home/.config/goose/config.yaml",
        "extensions:\n  a:\n    envs:\n      A_TOKEN: longer-s3cret\n",
    );
    for (client, scope) in [("cursor", Scope::Project), ("goose", Scope::User)] {
        let reports = place.init(client, scope);
        assert!(!reports[0].diff.contains("s3cret"), "{}", reports[0].diff);
        assert!(reports[0].diff.contains("[hidden]"), "{}", reports[0].diff);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn set_up_and_undone_is_the_same_to_the_byte(
        keys in proptest::collection::btree_map("[a-z]{1,4}|mcpServers", "[1-9][0-9]{0,2}|\\{\\}|\\{ \"q\" : \\[ \\] \\}", 0..4),
        space in "[ \t\n]{0,3}", end in "\n?",
    ) {
        let members: Vec<String> = keys.iter().map(|(key, value)| format!("{space}\"{key}\":{space}{value}")).collect();
        let text = format!("{{{}{space}}}{end}", members.join(","));
        prop_assume!(serde_json::from_str::<Value>(&text).is_ok());
        let place = Place::new();
        place.write("project/.mcp.json", &text);
        let before = place.all();
        place.init("claude", Scope::Project);
        place.undo("claude", Scope::Project);
        prop_assert_eq!(place.all(), before);
    }
}
