//! `volery import --apply` and `--undo`: the entries of clients are changed as described, and put back to the letter.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::test_env::{CommandOutput, TestEnv, command_output, kill};

/// Writes a file and returns where.
fn write(path: PathBuf, text: &str) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// Returns every file of the project and the home with its content.
fn all(env: &TestEnv) -> Vec<(PathBuf, String)> {
    fn below(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.metadata().unwrap().is_dir() {
                true => below(&entry.path(), found),
                false => found.push((entry.path(), fs::read_to_string(entry.path()).unwrap_or_default())),
            }
        }
    }
    let mut found = Vec::new();
    below(&env.project(), &mut found);
    below(&env.path("home"), &mut found);
    found.sort();
    found
}

/// A test environment whose `PATH` contains the program.
struct InstalledEnv {
    env: TestEnv,
}

impl InstalledEnv {
    fn new() -> Self {
        let env = TestEnv::new();
        fs::create_dir(env.path("bin")).unwrap();
        symlink(env!("CARGO_BIN_EXE_volery"), env.path("bin/volery")).unwrap();
        fs::create_dir(env.project().join("team")).unwrap();
        Self { env }
    }

    fn import(&self, words: &[&str]) -> CommandOutput {
        let mut command = self.env.command(["import"]);
        command.args(words).env("PATH", self.env.path("bin"));
        command_output(command.stdin(Stdio::null()).output().unwrap())
    }

    fn json(&self, words: &[&str]) -> Value {
        self.import(&[words, &["--json"]].concat()).json()
    }

    /// An entry of sub-agents-mcp, over several lines and with comments around it.
    fn subs(&self) -> String {
        let team = self.env.project().join("team");
        format!(
            "// servers\n{{\n  \"mcpServers\": {{\n    \"subs\": {{\n      \"command\": \"npx\", // was\n      \
             \"args\": [\"-y\", \"sub-agents-mcp\"],\n      \"env\": {{ \"AGENTS_DIR\": {team:?}, \
             \"AGENT_TYPE\": \"claude\", \"ANTHROPIC_API_KEY\": \"s3cret\" }}\n    }},\n    \
             \"other\": {{ \"command\": \"o\" }} // stays\n  }}\n}}\n"
        )
    }
}

fn states(report: &Value) -> Vec<&str> {
    report["files"].as_array().unwrap().iter().map(|file| file["state"].as_str().unwrap()).collect()
}

#[test]
fn an_entry_is_changed_as_described_and_put_back_to_the_letter() {
    let vendor_env = InstalledEnv::new();
    let file = write(vendor_env.env.project().join(".mcp.json"), &vendor_env.subs());
    let before = all(&vendor_env.env);
    let dry = vendor_env.json(&["--apply", "--dry-run"]);
    assert_eq!((states(&dry), all(&vendor_env.env)), (vec!["would_change"], before.clone()));
    let output = vendor_env.import(&["--apply"]).ok();
    assert!(!output.stdout.contains("s3cret") && !output.stderr.contains("s3cret"), "{output:?}");
    let project = vendor_env.env.project().display().to_string();
    insta::assert_snapshot!(output.stdout.replace(&project, "/p"), @r#"
    --- /p/.mcp.json
    +++ /p/.mcp.json
    @@ -2,8 +2,8 @@
     {
       "mcpServers": {
         "subs": {
    -      "command": "npx", // was
    -      "args": ["-y", "sub-agents-mcp"],
    +      "command": "volery", // was
    +      "args": ["serve", "--dialect", "sub-agents-mcp"],
           "env": { "AGENTS_DIR": "/p/team", "AGENT_TYPE": "claude", "ANTHROPIC_API_KEY": "[hidden]" }
         },
         "other": { "command": "o" } // stays
    claude: .mcp.json written
    "#);
    let copy = vendor_env.env.project().join(".mcp.json.before-volery");
    assert_eq!(read(&copy), vendor_env.subs());
    let changed = all(&vendor_env.env);
    let again = vendor_env.json(&["--apply"]);
    assert_eq!((&again["files"], &again["found"], all(&vendor_env.env)), (&json!([]), &json!([]), changed));
    assert_eq!(again["changed_already"][0]["entry"]["name"], json!("subs"), "{again}");
    for words in [&["--apply"][..], &[], &["--from", "sub-agents-mcp"]] {
        let repeated = vendor_env.import(words).ok();
        insta::allow_duplicates! {
            insta::assert_snapshot!(vendor_env.env.masked(&repeated.stderr), @"sub-agents-mcp: subs in [stage]/project/.mcp.json (claude): starts volery already");
        }
    }
    assert_eq!(states(&vendor_env.json(&["--undo", "--dry-run"])), ["would_change"]);
    let back = vendor_env.import(&["--undo"]).ok();
    insta::assert_snapshot!(vendor_env.env.masked(&back.stdout), @r#"
    --- [stage]/project/.mcp.json
    +++ [stage]/project/.mcp.json
    @@ -2,8 +2,8 @@
     {
       "mcpServers": {
         "subs": {
    -      "command": "volery", // was
    -      "args": ["serve", "--dialect", "sub-agents-mcp"],
    +      "command": "npx", // was
    +      "args": ["-y", "sub-agents-mcp"],
           "env": { "AGENTS_DIR": "[stage]/project/team", "AGENT_TYPE": "claude", "ANTHROPIC_API_KEY": "[hidden]" }
         },
         "other": { "command": "o" } // stays
    claude: .mcp.json as it was without volery
    "#);
    assert_eq!((all(&vendor_env.env), read(&file)), (before, vendor_env.subs()));
    let nothing = vendor_env.import(&["--undo"]).ok();
    insta::assert_snapshot!(vendor_env.env.masked(&nothing.stderr), @"nothing was changed for this project");
}

#[test]
fn every_form_of_an_entry_is_changed_and_put_back() {
    let vendor_env = InstalledEnv::new();
    let (project, home) = (vendor_env.env.project(), vendor_env.env.path("home"));
    let server = vendor_env.env.path("jarvis/dist/mcp/subagent-server.js");
    fs::create_dir_all(vendor_env.env.path("jarvis/agents")).unwrap();
    let words = json!(["node", server]);
    let one = json!({"command": "node", "args": [server], "timeout": 5});
    let claude_config = json!({"projects": {project.to_str().unwrap(): {"mcpServers": {"j": one}}, "/elsewhere": {"mcpServers": {"j": one}}}});
    let files = [
        write(
            project.join("opencode.json"),
            &json!({"mcp": {"j": {"type": "local", "command": words}}}).to_string(),
        ),
        write(
            home.join(".codex/config.toml"),
            &format!(
                "# mine\n[mcp_servers.j] # old\ncommand = \"node\"\nargs = [{server:?}]\n\n[tui]\na = 1\n"
            ),
        ),
        write(
            home.join(".config/goose/config.yaml"),
            &format!(
                "# mine\nextensions:\n  j: # old\n    cmd: node\n    args:\n    - {}\n    timeout: 5\nx: 1\n",
                server.display()
            ),
        ),
        write(home.join(".claude.json"), &claude_config.to_string()),
        write(
            home.join(".config/zed/settings.json"),
            &format!("// z\n{}", json!({"context_servers": {"j": one}})),
        ),
    ];
    let before = all(&vendor_env.env);
    let report = vendor_env.json(&["--apply"]);
    assert_eq!(states(&report), ["written"; 5], "{report}");
    assert_eq!(vendor_env.json(&[])["found"], json!([]), "an entry still starts the old system");
    let text: Vec<String> = files.iter().map(|file| read(file)).collect();
    let env = format!("\"JARVIS_HOME\":{:?}", vendor_env.env.path("jarvis"));
    for (text, expected) in text.iter().zip([
        format!("{{\"mcp\":{{\"j\":{{\"type\":\"local\",\"command\":[\"volery\", \"serve\", \"--dialect\", \"jarvis\"], \"environment\": {{{}}}", env.replace(':', ": ")),
        format!("[mcp_servers.j] # old\ncommand = \"volery\"\nargs = [\"serve\", \"--dialect\", \"jarvis\"]\nenv = {{ JARVIS_HOME = {:?} }}\n\n[tui]", vendor_env.env.path("jarvis")),
        format!("  j: # old\n    cmd: volery\n    args:\n    - serve\n    - \"--dialect\"\n    - jarvis\n    timeout: 5\n    envs:\n      JARVIS_HOME: {}\nx: 1\n", vendor_env.env.path("jarvis").display()),
        format!("\"/elsewhere\":{{\"mcpServers\":{{\"j\":{one}}}}}"),
        "// z\n{\"context_servers\":{\"j\":{\"command\":\"volery\"".to_owned(),
    ]) {
        assert!(text.contains(&expected), "{expected}\n{text}");
    }
    assert_eq!(states(&vendor_env.json(&["--undo"])), ["taken_back"; 5]);
    assert_eq!(all(&vendor_env.env), before);
}

#[test]
fn two_systems_of_one_file_are_changed_one_after_the_other_and_put_back_together() {
    let vendor_env = InstalledEnv::new();
    fs::create_dir_all(vendor_env.env.path("jarvis/agents")).unwrap();
    let jarvis =
        json!({"command": "node", "args": [vendor_env.env.path("jarvis/dist/mcp/subagent-server.js")]});
    let text = vendor_env.subs().replace("\"other\": { \"command\": \"o\" }", &format!("\"j\": {jarvis}"));
    let file = write(vendor_env.env.project().join(".mcp.json"), &text);
    for apply in
        [&["--apply"][..], &["--apply", "--from", "jarvis"], &["--apply", "--from", "sub-agents-mcp"]]
    {
        vendor_env.import(apply).ok();
        let now = read(&file);
        let (old, new) = (now.contains("subagent-server") || now.contains("npx"), now.contains("volery"));
        assert_eq!((old, new), (apply.contains(&"jarvis"), true), "{now}");
        if !apply.contains(&"jarvis") {
            vendor_env.import(&["--undo"]).ok();
            assert_eq!(read(&file), text);
        }
    }
}

#[test]
fn what_was_changed_elsewhere_in_the_file_stays() {
    let vendor_env = InstalledEnv::new();
    let file = write(vendor_env.env.project().join(".mcp.json"), &vendor_env.subs());
    vendor_env.import(&["--apply"]).ok();
    let edited = read(&file).replace("\"o\" } // stays", "\"mine\" } // mine");
    fs::write(&file, edited).unwrap();
    vendor_env.import(&["--undo"]).ok();
    assert_eq!(read(&file), vendor_env.subs().replace("\"o\" } // stays", "\"mine\" } // mine"));
}

#[test]
fn an_entry_that_was_changed_since_is_not_put_back() {
    let vendor_env = InstalledEnv::new();
    let file = write(vendor_env.env.project().join(".mcp.json"), &vendor_env.subs());
    vendor_env.import(&["--apply"]).ok();
    let edited = read(&file).replace("\"serve\"", "\"serve\", \"--tools\"");
    fs::write(&file, &edited).unwrap();
    for _ in 0..2 {
        let output = vendor_env.import(&["--undo"]).exits(1);
        insta::allow_duplicates! {
            insta::assert_snapshot!(vendor_env.env.masked(&output.stdout), @"claude: .mcp.json left alone: mcpServers.subs.args was changed since: take it out by hand, and then undo the rest");
        }
        assert_eq!(read(&file), edited);
    }
}

#[test]
fn what_can_only_be_put_back_with_losses_is_not_put_back() {
    let vendor_env = InstalledEnv::new();
    let text = vendor_env.subs().replace("\"-y\",", "\"-y\", // without a question\n       ");
    let file = write(vendor_env.env.project().join(".mcp.json"), &text);
    vendor_env.import(&["--apply"]).ok();
    fs::write(&file, format!("{}\n", read(&file))).unwrap();
    let output = vendor_env.import(&["--undo"]).exits(1);
    insta::assert_snapshot!(vendor_env.env.masked(&output.stdout), @"claude: .mcp.json left alone: it was changed since, and the entry cannot be put back exactly; the file as it was: [stage]/project/.mcp.json.before-volery");
    fs::write(&file, read(&file).trim_end_matches('\n').to_owned() + "\n").unwrap();
    vendor_env.import(&["--undo"]).ok();
    assert_eq!(read(&file), text, "without the other change it is exact");
}

#[test]
fn a_client_that_cannot_be_changed_does_not_keep_the_others_from_it() {
    let vendor_env = InstalledEnv::new();
    let (project, home) = (vendor_env.env.project(), vendor_env.env.path("home"));
    let good = write(project.join(".mcp.json"), &vendor_env.subs());
    let fixed = write(project.join(".cursor/mcp.json"), &vendor_env.subs());
    fs::set_permissions(&fixed, PermissionsExt::from_mode(0o444)).unwrap();
    let broken = write(project.join(".gemini/settings.json"), "{,}");
    let outside = write(home.join("outside.json"), &vendor_env.subs());
    fs::create_dir(project.join(".vscode")).unwrap();
    symlink(&outside, project.join(".vscode/mcp.json")).unwrap();
    let output = vendor_env.import(&["--apply"]).exits(1);
    assert!(read(&good).contains("volery"));
    insta::assert_snapshot!(vendor_env.env.masked(&output.stdout), @r#"
    --- [stage]/project/.mcp.json
    +++ [stage]/project/.mcp.json
    @@ -2,8 +2,8 @@
     {
       "mcpServers": {
         "subs": {
    -      "command": "npx", // was
    -      "args": ["-y", "sub-agents-mcp"],
    +      "command": "volery", // was
    +      "args": ["serve", "--dialect", "sub-agents-mcp"],
           "env": { "AGENTS_DIR": "[stage]/project/team", "AGENT_TYPE": "claude", "ANTHROPIC_API_KEY": "[hidden]" }
         },
         "other": { "command": "o" } // stays
    claude: .mcp.json written
    cursor: .cursor/mcp.json left alone: it is read-only
    {
      "mcpServers": {
        "subs": {
          "command": "volery",
          "args": ["serve", "--dialect", "sub-agents-mcp"]
        }
      }
    }
    "#);
    insta::assert_snapshot!(vendor_env.env.masked(&output.stderr), @"
    what it was is kept in [stage]/project/.mcp.json.before-volery
    write this into it by hand, next to what it has:
    warning: [stage]/project/.gemini/settings.json: line 1, column 2: a key in double quotes was expected
    warning: [stage]/project/.vscode/mcp.json: it leads out of the project, to ~/outside.json
    hint: clients that run already have to be started anew; volery import --undo takes it back
    ");
    assert_eq!(
        (read(&fixed), read(&broken), read(&outside)),
        (vendor_env.subs(), "{,}".to_owned(), vendor_env.subs())
    );
    vendor_env.import(&["--undo"]).ok();
    assert_eq!(read(&good), vendor_env.subs());
}

#[test]
fn a_link_stays_a_link() {
    let vendor_env = InstalledEnv::new();
    let target = write(vendor_env.env.path("home/dotfiles/cursor.json"), &vendor_env.subs());
    let link = vendor_env.env.path("home/.cursor/mcp.json");
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    symlink(&target, &link).unwrap();
    vendor_env.import(&["--apply"]).ok();
    assert!(link.symlink_metadata().unwrap().is_symlink() && read(&target).contains("volery"));
    vendor_env.import(&["--undo"]).ok();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(read(&target), vendor_env.subs());
}

#[test]
fn an_entry_with_which_the_server_would_not_start_is_left() {
    let vendor_env = InstalledEnv::new();
    let text = vendor_env.subs().replace("/team", "/nobody");
    let file = write(vendor_env.env.project().join(".mcp.json"), &text);
    let output = vendor_env.import(&["--apply"]).exits(1);
    insta::assert_snapshot!(vendor_env.env.masked(&output.stdout), @"claude: .mcp.json left alone: subs: to mend first: AGENTS_DIR: there is no folder [stage]/project/nobody");
    assert_eq!(read(&file), text);
    let kiwi =
        json!({"mcpServers": {"kiwi": {"command": "python", "args": ["-m", "kiwi_mcp.server"]}}}).to_string();
    fs::write(&file, &kiwi).unwrap();
    let output = vendor_env.import(&["--apply"]).ok();
    insta::assert_snapshot!(vendor_env.env.masked(&output.stderr), @"kiwi: kiwi in [stage]/project/.mcp.json (claude): has no dialect here yet");
    assert_eq!(read(&file), kiwi);
}

#[test]
fn a_relative_path_that_becomes_one_of_this_machine_is_named() {
    let vendor_env = InstalledEnv::new();
    let team = format!("{:?}", vendor_env.env.project().join("team"));
    write(vendor_env.env.project().join(".mcp.json"), &vendor_env.subs().replace(&team, "\"./team\""));
    let report = vendor_env.json(&["--apply"]);
    insta::assert_snapshot!(vendor_env.env.masked_texts(&report["warnings"]), @"[stage]/project/.mcp.json is usually shared with others, and names paths of this machine: AGENTS_DIR; the server needs an absolute path in AGENTS_DIR: everybody else has to write their own there, so do not commit this change, or agree on a folder that is the same for all");
}

#[test]
fn killed_before_the_file_is_replaced_it_is_as_it_was_and_can_be_changed_again() {
    for undone in [true, false] {
        let vendor_env = InstalledEnv::new();
        let file = write(vendor_env.env.project().join(".mcp.json"), &vendor_env.subs());
        vendor_env.env.hold("client_file_recorded");
        let mut command = vendor_env.env.command(["import", "--apply"]);
        let mut child =
            command.env("PATH", vendor_env.env.path("bin")).stdout(Stdio::null()).spawn().unwrap();
        let pid = vendor_env.env.wait_until_held("client_file_recorded");
        kill(pid, Signal::KILL);
        child.wait().unwrap();
        vendor_env.env.release("client_file_recorded");
        assert_eq!(read(&file), vendor_env.subs());
        if undone {
            assert_eq!(states(&vendor_env.json(&["--undo"])), ["taken_back"]);
        }
        assert_eq!(states(&vendor_env.json(&["--apply"])), ["written"]);
        assert!(read(&file).contains("volery"));
        vendor_env.import(&["--undo"]).ok();
        assert_eq!(all(&vendor_env.env), [(file, vendor_env.subs())], "undone meanwhile: {undone}");
    }
}

#[test]
fn what_init_added_to_the_same_file_is_apart() {
    for import_first in [true, false] {
        let vendor_env = InstalledEnv::new();
        let file = write(vendor_env.env.project().join(".cursor/mcp.json"), &vendor_env.subs());
        let init = |words: &[&str]| {
            let mut command = vendor_env.env.command(["init"]);
            command_output(command.args(words).env("PATH", vendor_env.env.path("bin")).output().unwrap()).ok()
        };
        vendor_env.import(&["--apply"]).ok();
        init(&["--client", "cursor"]);
        if import_first {
            vendor_env.import(&["--undo"]).ok();
            let now = read(&file);
            assert!(now.contains("npx") && now.contains("\"volery\""), "{now}");
            init(&["--undo"]);
        } else {
            init(&["--undo"]);
            assert!(read(&file).contains("\"command\": \"volery\", // was"), "{}", read(&file));
            vendor_env.import(&["--undo"]).ok();
        }
        assert_eq!(read(&file), vendor_env.subs(), "import first: {import_first}");
    }
}

#[test]
fn a_dry_run_of_nothing_is_refused() {
    let vendor_env = InstalledEnv::new();
    let output = vendor_env.import(&["--dry-run"]).exits(2);
    insta::assert_snapshot!(vendor_env.env.masked(&output.stderr), @"
    error: --dry-run goes with --apply or --undo
    hint: without them, volery import changes nothing anyway
    ");
}
