//! `volery import --apply` and `--undo`: the entries of clients are changed as described, and put back to the letter.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::stage::{Said, Stage, kill, said};

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
fn all(stage: &Stage) -> Vec<(PathBuf, String)> {
    fn below(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.metadata().unwrap().is_dir() {
                true => below(&entry.path(), found),
                false => found.push((entry.path(), fs::read_to_string(entry.path()).unwrap_or_default())),
            }
        }
    }
    let mut found = Vec::new();
    below(&stage.project(), &mut found);
    below(&stage.path("home"), &mut found);
    found.sort();
    found
}

/// A stage on whose search path the program is.
struct Installed {
    stage: Stage,
}

impl Installed {
    fn new() -> Self {
        let stage = Stage::new();
        fs::create_dir(stage.path("bin")).unwrap();
        symlink(env!("CARGO_BIN_EXE_volery"), stage.path("bin/volery")).unwrap();
        fs::create_dir(stage.project().join("team")).unwrap();
        Self { stage }
    }

    fn import(&self, words: &[&str]) -> Said {
        let mut command = self.stage.command(["import"]);
        command.args(words).env("PATH", self.stage.path("bin"));
        said(command.stdin(Stdio::null()).output().unwrap())
    }

    fn json(&self, words: &[&str]) -> Value {
        self.import(&[words, &["--json"]].concat()).json()
    }

    /// An entry of sub-agents-mcp, over several lines and with comments around it.
    fn subs(&self) -> String {
        let team = self.stage.project().join("team");
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
    let place = Installed::new();
    let file = write(place.stage.project().join(".mcp.json"), &place.subs());
    let before = all(&place.stage);
    let dry = place.json(&["--apply", "--dry-run"]);
    assert_eq!((states(&dry), all(&place.stage)), (vec!["would_change"], before.clone()));
    let said = place.import(&["--apply"]).ok();
    assert!(!said.stdout.contains("s3cret") && !said.stderr.contains("s3cret"), "{said:?}");
    let project = place.stage.project().display().to_string();
    insta::assert_snapshot!(said.stdout.replace(&project, "/p"), @r#"
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
    let copy = place.stage.project().join(".mcp.json.before-volery");
    assert_eq!(read(&copy), place.subs());
    let changed = all(&place.stage);
    let again = place.json(&["--apply"]);
    assert_eq!((&again["files"], &again["found"], all(&place.stage)), (&json!([]), &json!([]), changed));
    assert_eq!(states(&place.json(&["--undo", "--dry-run"])), ["would_change"]);
    let back = place.import(&["--undo"]).ok();
    assert!(back.stdout.ends_with("as it was without volery\n"), "{back:?}");
    assert_eq!((all(&place.stage), read(&file)), (before, place.subs()));
    let nothing = place.import(&["--undo"]).ok();
    assert!(nothing.stderr.contains("nothing was changed for this project"), "{nothing:?}");
}

#[test]
fn every_form_of_an_entry_is_changed_and_put_back() {
    let place = Installed::new();
    let (project, home) = (place.stage.project(), place.stage.path("home"));
    let server = place.stage.path("jarvis/dist/mcp/subagent-server.js");
    fs::create_dir_all(place.stage.path("jarvis/agents")).unwrap();
    let words = json!(["node", server]);
    let one = json!({"command": "node", "args": [server], "timeout": 5});
    let kept = json!({"projects": {project.to_str().unwrap(): {"mcpServers": {"j": one}}, "/elsewhere": {"mcpServers": {"j": one}}}});
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
        write(home.join(".claude.json"), &kept.to_string()),
        write(
            home.join(".config/zed/settings.json"),
            &format!("// z\n{}", json!({"context_servers": {"j": one}})),
        ),
    ];
    let before = all(&place.stage);
    let report = place.json(&["--apply"]);
    assert_eq!(states(&report), ["written"; 5], "{report}");
    assert_eq!(place.json(&[])["found"], json!([]), "an entry still starts the old system");
    let text: Vec<String> = files.iter().map(|file| read(file)).collect();
    let env = format!("\"JARVIS_HOME\":{:?}", place.stage.path("jarvis"));
    for (text, wanted) in text.iter().zip([
        format!("{{\"mcp\":{{\"j\":{{\"type\":\"local\",\"command\":[\"volery\", \"serve\", \"--dialect\", \"jarvis\"], \"environment\": {{{}}}", env.replace(':', ": ")),
        format!("[mcp_servers.j] # old\ncommand = \"volery\"\nargs = [\"serve\", \"--dialect\", \"jarvis\"]\nenv = {{ JARVIS_HOME = {:?} }}\n\n[tui]", place.stage.path("jarvis")),
        format!("  j: # old\n    cmd: volery\n    args:\n    - serve\n    - \"--dialect\"\n    - jarvis\n    timeout: 5\n    envs:\n      JARVIS_HOME: {}\nx: 1\n", place.stage.path("jarvis").display()),
        format!("\"/elsewhere\":{{\"mcpServers\":{{\"j\":{one}}}}}"),
        "// z\n{\"context_servers\":{\"j\":{\"command\":\"volery\"".to_owned(),
    ]) {
        assert!(text.contains(&wanted), "{wanted}\n{text}");
    }
    assert_eq!(states(&place.json(&["--undo"])), ["taken_back"; 5]);
    assert_eq!(all(&place.stage), before);
}

#[test]
fn two_systems_of_one_file_are_changed_one_after_the_other_and_put_back_together() {
    let place = Installed::new();
    fs::create_dir_all(place.stage.path("jarvis/agents")).unwrap();
    let jarvis = json!({"command": "node", "args": [place.stage.path("jarvis/dist/mcp/subagent-server.js")]});
    let text = place.subs().replace("\"other\": { \"command\": \"o\" }", &format!("\"j\": {jarvis}"));
    let file = write(place.stage.project().join(".mcp.json"), &text);
    for apply in
        [&["--apply"][..], &["--apply", "--from", "jarvis"], &["--apply", "--from", "sub-agents-mcp"]]
    {
        place.import(apply).ok();
        let now = read(&file);
        let (old, new) = (now.contains("subagent-server") || now.contains("npx"), now.contains("volery"));
        assert_eq!((old, new), (apply.contains(&"jarvis"), true), "{now}");
        if !apply.contains(&"jarvis") {
            place.import(&["--undo"]).ok();
            assert_eq!(read(&file), text);
        }
    }
}

#[test]
fn what_was_changed_elsewhere_in_the_file_stays() {
    let place = Installed::new();
    let file = write(place.stage.project().join(".mcp.json"), &place.subs());
    place.import(&["--apply"]).ok();
    let edited = read(&file).replace("\"o\" } // stays", "\"mine\" } // mine");
    fs::write(&file, edited).unwrap();
    place.import(&["--undo"]).ok();
    assert_eq!(read(&file), place.subs().replace("\"o\" } // stays", "\"mine\" } // mine"));
}

#[test]
fn an_entry_that_was_changed_since_is_not_put_back() {
    let place = Installed::new();
    let file = write(place.stage.project().join(".mcp.json"), &place.subs());
    place.import(&["--apply"]).ok();
    let edited = read(&file).replace("\"serve\"", "\"serve\", \"--tools\"");
    fs::write(&file, &edited).unwrap();
    for _ in 0..2 {
        let said = place.import(&["--undo"]).exits(1);
        assert!(said.stdout.contains("left alone: mcpServers.subs.args was changed since"), "{said:?}");
        assert_eq!(read(&file), edited);
    }
}

#[test]
fn what_can_only_be_put_back_with_losses_is_not_put_back() {
    let place = Installed::new();
    let text = place.subs().replace("\"-y\",", "\"-y\", // without a question\n       ");
    let file = write(place.stage.project().join(".mcp.json"), &text);
    place.import(&["--apply"]).ok();
    fs::write(&file, format!("{}\n", read(&file))).unwrap();
    let said = place.import(&["--undo"]).exits(1);
    let problem =
        "left alone: it was changed since, and the entry cannot be put back exactly; the file as it was: ";
    assert!(said.stdout.contains(problem) && said.stdout.contains(".mcp.json.before-volery"), "{said:?}");
    fs::write(&file, read(&file).trim_end_matches('\n').to_owned() + "\n").unwrap();
    place.import(&["--undo"]).ok();
    assert_eq!(read(&file), text, "without the other change it is exact");
}

#[test]
fn a_client_that_cannot_be_changed_does_not_keep_the_others_from_it() {
    let place = Installed::new();
    let (project, home) = (place.stage.project(), place.stage.path("home"));
    let good = write(project.join(".mcp.json"), &place.subs());
    let fixed = write(project.join(".cursor/mcp.json"), &place.subs());
    fs::set_permissions(&fixed, PermissionsExt::from_mode(0o444)).unwrap();
    let broken = write(project.join(".gemini/settings.json"), "{,}");
    let outside = write(home.join("outside.json"), &place.subs());
    fs::create_dir(project.join(".vscode")).unwrap();
    symlink(&outside, project.join(".vscode/mcp.json")).unwrap();
    let said = place.import(&["--apply"]).exits(1);
    assert!(read(&good).contains("volery"));
    assert!(
        said.stdout.contains("cursor: ") && said.stdout.contains("left alone: it is read-only"),
        "{said:?}"
    );
    assert!(
        said.stderr.contains("line 1, column 2") && said.stderr.contains("leads out of the project"),
        "{said:?}"
    );
    assert_eq!((read(&fixed), read(&broken), read(&outside)), (place.subs(), "{,}".to_owned(), place.subs()));
    place.import(&["--undo"]).ok();
    assert_eq!(read(&good), place.subs());
}

#[test]
fn a_link_stays_a_link() {
    let place = Installed::new();
    let target = write(place.stage.path("home/dotfiles/cursor.json"), &place.subs());
    let link = place.stage.path("home/.cursor/mcp.json");
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    symlink(&target, &link).unwrap();
    place.import(&["--apply"]).ok();
    assert!(link.symlink_metadata().unwrap().is_symlink() && read(&target).contains("volery"));
    place.import(&["--undo"]).ok();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(read(&target), place.subs());
}

#[test]
fn an_entry_with_which_the_server_would_not_start_is_left() {
    let place = Installed::new();
    let text = place.subs().replace("/team", "/nobody");
    let file = write(place.stage.project().join(".mcp.json"), &text);
    let said = place.import(&["--apply"]).exits(1);
    assert!(
        said.stdout.contains("left alone: subs: to mend first: AGENTS_DIR: there is no folder"),
        "{said:?}"
    );
    assert_eq!(read(&file), text);
    let kiwi =
        json!({"mcpServers": {"kiwi": {"command": "python", "args": ["-m", "kiwi_mcp.server"]}}}).to_string();
    fs::write(&file, &kiwi).unwrap();
    let said = place.import(&["--apply"]).ok();
    assert!(said.stderr.contains("has no dialect here yet") && read(&file) == kiwi, "{said:?}");
}

#[test]
fn a_relative_path_that_becomes_one_of_this_machine_is_named() {
    let place = Installed::new();
    let team = format!("{:?}", place.stage.project().join("team"));
    write(place.stage.project().join(".mcp.json"), &place.subs().replace(&team, "\"./team\""));
    let report = place.json(&["--apply"]);
    let warning = report["warnings"][0].as_str().unwrap();
    assert!(warning.contains("names paths of this machine: AGENTS_DIR; take AGENTS_DIR out"), "{report}");
}

#[test]
fn killed_before_the_file_is_replaced_it_is_as_it_was_and_can_be_changed_again() {
    for undone in [true, false] {
        let place = Installed::new();
        let file = write(place.stage.project().join(".mcp.json"), &place.subs());
        place.stage.hold("client_file_recorded");
        let mut command = place.stage.command(["import", "--apply"]);
        let mut child = command.env("PATH", place.stage.path("bin")).stdout(Stdio::null()).spawn().unwrap();
        let pid = place.stage.held("client_file_recorded");
        kill(pid, Signal::KILL);
        child.wait().unwrap();
        place.stage.release("client_file_recorded");
        assert_eq!(read(&file), place.subs());
        if undone {
            assert_eq!(states(&place.json(&["--undo"])), ["taken_back"]);
        }
        assert_eq!(states(&place.json(&["--apply"])), ["written"]);
        assert!(read(&file).contains("volery"));
        place.import(&["--undo"]).ok();
        assert_eq!(all(&place.stage), [(file, place.subs())], "undone meanwhile: {undone}");
    }
}

#[test]
fn what_init_added_to_the_same_file_is_apart() {
    for import_first in [true, false] {
        let place = Installed::new();
        let file = write(place.stage.project().join(".cursor/mcp.json"), &place.subs());
        let init = |words: &[&str]| {
            let mut command = place.stage.command(["init"]);
            said(command.args(words).env("PATH", place.stage.path("bin")).output().unwrap()).ok()
        };
        place.import(&["--apply"]).ok();
        init(&["--client", "cursor"]);
        if import_first {
            place.import(&["--undo"]).ok();
            let now = read(&file);
            assert!(now.contains("npx") && now.contains("\"volery\""), "{now}");
            init(&["--undo"]);
        } else {
            init(&["--undo"]);
            assert!(read(&file).contains("\"command\": \"volery\", // was"), "{}", read(&file));
            place.import(&["--undo"]).ok();
        }
        assert_eq!(read(&file), place.subs(), "import first: {import_first}");
    }
}

#[test]
fn a_dry_run_of_nothing_is_refused() {
    let place = Installed::new();
    let said = place.import(&["--dry-run"]).exits(2);
    assert!(said.stderr.contains("--dry-run goes with --apply or --undo"), "{said:?}");
}
