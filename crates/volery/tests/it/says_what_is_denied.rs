//! That commands are denied where nobody can be asked is said before the run, once per agent, with the line that allows
//! them.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::Value;

use crate::stage::{Said, Stage, said};

const LINE: &str = "write permission = { allow = [\"Bash\"] } under [agents.reviewer] in your configuration";

fn stage() -> Stage {
    let stage = Stage::new();
    let program = stage.path("bin/claude");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::write(&program, "#!/bin/sh\nexit 9\n").unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let folder = stage.project().join(".claude/agents");
    std::fs::create_dir_all(&folder).unwrap();
    let text = "---\nname: reviewer\ndescription: Reviews\ntools: Read, Bash\n---\nReview.\n";
    std::fs::write(folder.join("reviewer.md"), text).unwrap();
    stage
}

fn volery(stage: &Stage, words: &[&str]) -> Said {
    let mut command = stage.command(words);
    command.env("PATH", format!("{}:/usr/bin:/bin", stage.path("bin").display()));
    said(command.stdin(Stdio::null()).output().unwrap())
}

fn warnings_of_run(stage: &Stage, agent: &str, words: &[&str]) -> Vec<String> {
    volery(stage, &[&["run", agent, "go", "--timeout", "20s"], words].concat()).exits(1);
    let spec = stage.spec(stage.runs().last().unwrap());
    let warnings = spec["warnings"].as_array().cloned().unwrap_or_default();
    let about_tools =
        |warning: &Value| warning.as_str().filter(|text| text.starts_with("tools:")).map(str::to_owned);
    warnings.iter().filter_map(about_tools).collect()
}

#[test]
fn what_is_to_be_written_works_as_it_stands() {
    let stage = stage();
    let told = warnings_of_run(&stage, "reviewer", &[]);
    let (_, advice) = told[0].split_once("to allow that, write ").unwrap();
    let (line, rest) = advice.split_once(" under ").unwrap();
    let (section, _) = rest.split_once(" in your configuration").unwrap();
    stage.configure(&format!("{section}\n{line}\n"));
    assert_eq!(warnings_of_run(&stage, "reviewer", &[]), Vec::<String>::new());
}

#[test]
fn in_the_check_on_the_page_and_in_the_warnings_of_a_run() {
    let stage = stage();
    for words in [&["agents", "check"][..], &["agents", "show", "reviewer"]] {
        let text = volery(&stage, words).ok().stdout;
        assert_eq!(text.matches(LINE).count(), 1, "{text}");
        assert!(
            text.contains("Bash needs an answer from a person, and is denied where nobody can answer"),
            "{text}"
        );
    }
    let told = warnings_of_run(&stage, "reviewer", &[]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains("nobody can answer: the command has no terminal") && told[0].contains(LINE),
        "{told:?}"
    );
    // An agent without a list has every tool.
    let told = warnings_of_run(&stage, "claude", &[]);
    assert!(told[0].starts_with("tools: Bash is denied") && told[0].contains("[agents.claude]"), "{told:?}");
}

#[test]
fn not_where_it_is_allowed() {
    let stage = stage();
    assert_eq!(warnings_of_run(&stage, "reviewer", &["--allow", "Bash"]), [""; 0]);
    stage.configure("[agents.reviewer]\npermission = { allow = [\"Bash\"] }\n");
    assert_eq!(warnings_of_run(&stage, "reviewer", &[]), [""; 0]);
    let text = volery(&stage, &["agents", "check"]).ok().stdout;
    assert!(!text.contains("Bash"), "{text}");
}
