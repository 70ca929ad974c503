//! Clients' files on disk: edited safely, and restored exactly.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use backends::client_setup::{ClientEnvironment, ConfigLevels, ConfigScope, ServerCommand};
use backends::clients;
use proptest::prelude::*;
use serde_json::Value;

use super::super::change_records::Records;
use super::super::file_changes::{EditPurpose, EditRequest, FileOutcome, FileReport, set_up, undo_edits};

/// A temporary project and home.
pub(super) struct TestHome {
    folder: tempfile::TempDir,
}

impl TestHome {
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

    pub(super) fn act(&self, client: &str, scope: ConfigScope, options: InitOptions) -> Vec<FileReport> {
        let (project, records) = (self.path("project"), Records::for_setup(&self.path("state")));
        let environment = ClientEnvironment {
            project: project.clone(),
            home: self.path("home"),
            variable: |_| None,
            macos: options.macos,
        };
        let arguments = std::iter::once("serve".to_owned())
            .chain(options.dialect.map(|name| format!("--dialect={name}")));
        let server =
            ServerCommand { command: "volery".to_owned(), arguments: arguments.collect(), env: Vec::new() };
        let client = clients::setup_by_name(client).unwrap();
        let desired_files = (client.desired_files)(&environment, scope, &server);
        let request = EditRequest {
            project: &project,
            owner: Some(project.clone()),
            records: &records,
            dry_run: options.dry_run,
            purpose: EditPurpose::SetUp,
        };
        let client = client.name;
        if options.undo {
            undo_edits(client, &desired_files, &request)
        } else {
            set_up(client, &desired_files, &request)
        }
    }

    pub(super) fn init(&self, client: &str, scope: ConfigScope) -> Vec<FileReport> {
        self.act(client, scope, InitOptions::default())
    }

    pub(super) fn undo(&self, client: &str, scope: ConfigScope) -> Vec<FileReport> {
        self.act(client, scope, InitOptions { undo: true, ..InitOptions::default() })
    }

    /// Returns every file with its content and mode, except for the state directory.
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
pub(super) struct InitOptions {
    pub(super) undo: bool,
    pub(super) dry_run: bool,
    pub(super) macos: bool,
    pub(super) dialect: Option<&'static str>,
}

pub(super) fn states(reports: &[FileReport]) -> Vec<FileOutcome> {
    reports.iter().map(|report| report.state).collect()
}

fn problem(reports: &[FileReport]) -> &str {
    reports.iter().find_map(|report| report.problem.as_deref()).unwrap_or_default()
}

#[test]
fn every_client_is_set_up_and_undone_without_a_trace() {
    for client in clients::setups() {
        let scopes =
            [ConfigScope::Project, ConfigScope::User].into_iter().filter(|scope| client.supports(*scope));
        for scope in scopes {
            let home = TestHome::new();
            let before = home.all();
            let first = home.init(client.name, scope);
            assert!(
                first.iter().all(|file| file.state == FileOutcome::Written),
                "{}: {first:?}",
                client.name
            );
            let between = home.all();
            assert!(home.init(client.name, scope).iter().all(|file| file.state == FileOutcome::Unchanged));
            assert_eq!(home.all(), between, "{}: a second time changed something", client.name);
            assert!(home.undo(client.name, scope).iter().all(|file| file.state == FileOutcome::Removed));
            assert_eq!(home.all(), before, "{}", client.name);
        }
    }
}

#[test]
fn the_previous_content_is_backed_up_and_restored_exactly() {
    let home = TestHome::new();
    let text = "{ \"mcpServers\" :{} , \"x\":[ 1,2 ]}";
    let path = home.write("project/.mcp.json", text);
    fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    let before = home.all();
    let reports = home.init("claude", ConfigScope::Project);
    let backup = reports[0].backup.clone().unwrap();
    assert_eq!(
        (fs::read_to_string(&backup).unwrap().as_str(), backup.file_name().unwrap().to_str().unwrap()),
        (text, ".mcp.json.before-volery")
    );
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(
        states(&home.undo("claude", ConfigScope::Project)),
        [FileOutcome::Restored, FileOutcome::Removed]
    );
    assert_eq!(home.all(), before);
}

#[test]
fn what_the_user_changed_since_survives_the_undoing() {
    let home = TestHome::new();
    let path = home.write("project/.mcp.json", "{\n  \"mcpServers\": {}\n}\n");
    home.init("claude", ConfigScope::Project);
    let edited = fs::read_to_string(&path)
        .unwrap()
        .replace("\"mcpServers\"", "// mine\n  \"a\": 1,\n  \"mcpServers\"");
    fs::write(&path, &edited).unwrap();
    home.undo("claude", ConfigScope::Project);
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\n  // mine\n  \"a\": 1,\n  \"mcpServers\": {}\n}\n");
}

#[test]
fn another_dialect_replaces_the_first_and_one_undo_removes_both() {
    let home = TestHome::new();
    home.write("home/.codex/config.toml", "model = \"x\" # mine\n");
    let before = home.all();
    home.init("codex", ConfigScope::User);
    home.act("codex", ConfigScope::User, InitOptions { dialect: Some("jarvis"), ..InitOptions::default() });
    let now = fs::read_to_string(home.path("home/.codex/config.toml")).unwrap();
    assert!(now.contains("jarvis") && now.matches("[mcp_servers").count() == 1, "{now}");
    home.undo("codex", ConfigScope::User);
    assert_eq!(home.all(), before);
}

#[test]
fn a_dry_run_changes_nothing_and_shows_everything() {
    let home = TestHome::new();
    home.write("project/.cursor/mcp.json", "{}");
    let before = home.all();
    let reports =
        home.act("cursor", ConfigScope::Project, InitOptions { dry_run: true, ..InitOptions::default() });
    assert_eq!((states(&reports), home.all()), (vec![FileOutcome::WouldChange], before));
    assert!(reports[0].diff.contains("+    \"volery\": {"), "{}", reports[0].diff);
}

#[test]
fn a_broken_file_is_reported_with_its_position_and_its_client_left_alone() {
    let home = TestHome::new();
    home.write("project/.claude/settings.local.json", "{\n  \"permissions\": {,}\n}\n");
    let before = home.all();
    let reports = home.init("claude", ConfigScope::Project);
    assert_eq!(states(&reports), [FileOutcome::LeftAlone, FileOutcome::LeftAlone]);
    assert_eq!(reports[1].problem.as_deref(), Some("line 2, column 19: a key in double quotes was expected"));
    assert_eq!(home.all(), before, "half of a client was set up");
}

#[test]
fn a_file_that_is_not_text_is_left_alone() {
    let home = TestHome::new();
    let path = home.write("project/.mcp.json", "");
    fs::write(&path, b"{\n \"a\": \"\xff\"}").unwrap();
    assert_eq!(
        home.init("claude", ConfigScope::Project)[0].problem.as_deref(),
        Some("line 2, column 8: not UTF-8 text")
    );
}

#[test]
fn a_read_only_file_is_left_alone() {
    let home = TestHome::new();
    let path = home.write("project/.cursor/mcp.json", "{}");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
    let before = home.all();
    assert_eq!(problem(&home.init("cursor", ConfigScope::Project)), "it is read-only");
    assert_eq!(home.all(), before);
}

#[test]
fn a_link_out_of_the_project_is_not_followed() {
    for link in [".cursor", ".cursor/mcp.json"] {
        let home = TestHome::new();
        let outside = home.write("home/outside/mcp.json", "{}");
        let at = home.path("project").join(link);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        let target = if link == ".cursor" { home.path("home/outside") } else { outside.clone() };
        symlink(target, at).unwrap();
        let reports = home.init("cursor", ConfigScope::Project);
        assert!(problem(&reports).starts_with("it leads out of the project"), "{reports:?}");
        assert_eq!(fs::read_to_string(outside).unwrap(), "{}");
    }
}

#[test]
fn a_link_within_the_project_and_a_users_own_stay_links() {
    let home = TestHome::new();
    for (link, target, client, scope) in [
        ("project/.cursor/mcp.json", "project/shared.json", "cursor", ConfigScope::Project),
        ("home/.qwen/settings.json", "home/dotfiles/qwen.json", "qwen", ConfigScope::User),
    ] {
        let target = home.write(target, "{}");
        let link = home.path(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(&target, &link).unwrap();
        assert_eq!(states(&home.init(client, scope)), [FileOutcome::Written]);
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert!(fs::read_to_string(&target).unwrap().contains("volery"));
        home.undo(client, scope);
        assert_eq!(fs::read_to_string(&target).unwrap(), "{}");
    }
}

#[test]
fn a_link_to_nowhere_is_left_alone() {
    let home = TestHome::new();
    fs::create_dir(home.path("project/.cursor")).unwrap();
    symlink(home.path("home/nothing"), home.path("project/.cursor/mcp.json")).unwrap();
    assert!(problem(&home.init("cursor", ConfigScope::Project)).starts_with("could not find it"));
    assert!(!home.path("home/nothing").exists());
}

#[test]
fn opencode_keeps_the_file_that_it_has() {
    let home = TestHome::new();
    let path = home.write("project/opencode.jsonc", "{\n  // mine\n}\n");
    let reports = home.init("opencode", ConfigScope::Project);
    assert_eq!(reports[0].path, path);
    assert!(!home.path("project/opencode.json").exists());
}

#[test]
fn clients_without_a_project_file_change_only_the_users() {
    for client in clients::setups().filter(|client| client.config_levels == ConfigLevels::UserOnly) {
        let home = TestHome::new();
        let reports = home.init(client.name, ConfigScope::Project);
        assert!(reports.iter().all(|report| report.path.starts_with(home.path("home"))), "{}", client.name);
        assert!(!client.supports(ConfigScope::Project) && client.supports(ConfigScope::User));
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
            let home = TestHome::new();
            let reports = home.act(name, ConfigScope::User, InitOptions { macos, ..InitOptions::default() });
            let paths: Vec<&PathBuf> = reports.iter().map(|report| &report.path).collect();
            assert_eq!(paths, [&home.path(folder).join(file)]);
        }
    }
}

#[test]
fn each_cline_that_is_here_is_set_up() {
    let home = TestHome::new();
    let extension_dir = "home/.config/Code/User/globalStorage/saoudrizwan.claude-dev";
    fs::create_dir_all(home.path("home/.cline")).unwrap();
    let paths = |home: &TestHome| -> Vec<PathBuf> {
        let options = InitOptions { dry_run: true, ..InitOptions::default() };
        home.act("cline", ConfigScope::User, options).into_iter().map(|report| report.path).collect()
    };
    let command_line = home.path("home/.cline/data/settings/cline_mcp_settings.json");
    assert_eq!(paths(&home), std::slice::from_ref(&command_line));
    fs::create_dir_all(home.path(extension_dir)).unwrap();
    let extension = home.path(extension_dir).join("settings/cline_mcp_settings.json");
    assert_eq!(paths(&home), [extension, command_line]);
}

#[test]
fn comments_of_zed_and_goose_stay_and_undoing_is_exact() {
    let zed =
        "// Zed settings\n{\n  // a theme\n  \"theme\": \"x\", // mine\n  \"context_servers\": {\n  },\n}\n";
    let goose = "# mine\nextensions: # all\n  developer: {enabled: true} # built in\n\n# the end\n";
    for (client, file, text) in
        [("zed", "home/.config/zed/settings.json", zed), ("goose", "home/.config/goose/config.yaml", goose)]
    {
        let home = TestHome::new();
        let path = home.write(file, text);
        let before = home.all();
        assert_eq!(states(&home.init(client, ConfigScope::User)), [FileOutcome::Written]);
        let written = fs::read_to_string(&path).unwrap();
        let mut left = written.lines();
        assert!(text.lines().all(|line| left.any(|now| now == line)), "a line of {text} is gone: {written}");
        assert!(written.contains("volery"), "{written}");
        home.undo(client, ConfigScope::User);
        assert_eq!(home.all(), before);
    }
}

#[test]
fn a_file_that_cannot_be_edited_gets_a_text_to_paste() {
    let home = TestHome::new();
    let path = home.write("home/.config/goose/config.yaml", "extensions: {a: {cmd: x}}\n");
    let reports = home.init("goose", ConfigScope::User);
    assert_eq!(states(&reports), [FileOutcome::LeftAlone]);
    let paste = reports[0].paste.as_deref().unwrap();
    assert!(paste.starts_with("extensions:\n  volery:\n") && paste.contains("    cmd: volery\n"), "{paste}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "extensions: {a: {cmd: x}}\n");
    let home = TestHome::new();
    home.write("project/.cursor/mcp.json", "{,}");
    let reports = home.init("cursor", ConfigScope::Project);
    assert!(reports[0].paste.as_deref().unwrap().starts_with("{\n  \"mcpServers\": {\n"), "{reports:?}");
    assert_eq!(home.undo("cursor", ConfigScope::Project)[0].paste, None);
}

#[test]
fn secrets_in_a_file_are_not_in_the_difference() {
    let home = TestHome::new();
    let servers = "\"a\": {\"env\": {\"SOME_API_KEY\": \"s3cret\", \"X_TOKEN\": \"longer-s3cret-one\"}}";
    home.write("project/.cursor/mcp.json", &format!("{{\"mcpServers\": {{{servers}}}}}"));
    home.write(
        "home/.config/goose/config.yaml",
        "extensions:\n  a:\n    envs:\n      A_TOKEN: longer-s3cret\n",
    );
    for (client, scope) in [("cursor", ConfigScope::Project), ("goose", ConfigScope::User)] {
        let reports = home.init(client, scope);
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
        let home = TestHome::new();
        home.write("project/.mcp.json", &text);
        let before = home.all();
        home.init("claude", ConfigScope::Project);
        home.undo("claude", ConfigScope::Project);
        prop_assert_eq!(home.all(), before);
    }
}
