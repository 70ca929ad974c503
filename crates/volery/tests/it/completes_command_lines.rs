//! What a shell offers when somebody presses Tab: agents and runs of the moment.

use std::process::Command;

use crate::stage::{Stage, said};

/// Returns what a real bash offers for a line, with the script that we print.
fn offered_by_bash(stage: &Stage, words: &[&str]) -> Vec<String> {
    let script = stage.path("volery.bash");
    std::fs::write(&script, stage.volery(["completions", "bash"]).ok().stdout).unwrap();
    let ours = stage.command([""; 0]);
    let folder = std::path::Path::new(ours.get_program()).parent().unwrap().to_owned();
    let mut bash = Command::new("bash");
    bash.env_clear().envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let path = std::env::var("PATH").unwrap_or_default();
    bash.env("PATH", format!("{}:{path}", folder.display())).current_dir(stage.project());
    bash.args([
        "--norc",
        "-c",
        "source \"$1\"; shift; COMP_WORDS=(volery \"$@\"); COMP_CWORD=$#; _volery; \
                printf '%s\\n' \"${COMPREPLY[@]}\"",
        "bash",
    ]);
    let printed = said(bash.arg(&script).args(words).output().unwrap()).ok();
    assert_eq!(printed.stderr, "");
    printed.stdout.lines().map(str::to_owned).filter(|line| !line.is_empty()).collect()
}

#[test]
fn bash_offers_commands_agents_and_runs() {
    let stage = Stage::new();
    stage.rehearsal("reviewer", "- say: hello", "").rehearsal("reporter", "- say: hello", "");
    let run = stage.start("reviewer", "one");
    stage.ended(&run);
    let short = run[run.len() - 8..].to_owned();
    assert_eq!(offered_by_bash(&stage, &["agen"]), ["agents"]);
    assert_eq!(offered_by_bash(&stage, &["run", "rep"]), ["reporter"]);
    assert_eq!(offered_by_bash(&stage, &["run", "--timeout", "5m", "re"]), ["reporter", "reviewer"]);
    assert_eq!(offered_by_bash(&stage, &["show", ""]), [short.as_str()]);
    assert_eq!(offered_by_bash(&stage, &["show", &short[..3]]), [short]);
    assert_eq!(offered_by_bash(&stage, &["cancel", ""]), Vec::<String>::new());
    // Bash hands over an equals sign as a word of its own.
    assert_eq!(offered_by_bash(&stage, &["run", "reviewer", "--on-disconnect", "=", "con"]), ["continue"]);
}

#[test]
fn a_shell_that_cannot_be_answered_prints_nothing() {
    let stage = Stage::new();
    stage.rehearsal("reviewer", "- say: hello", "");
    let asked = |words: &[&str]| stage.volery([&["__complete"], words].concat()).ok();
    assert_eq!(asked(&["zsh", "run", "rev"]).stdout, "reviewer:for a test\n");
    assert_eq!(asked(&["fish", "run", "rev"]).stdout, "reviewer\tfor a test\n");
    assert_eq!(asked(&["fish"]).stdout, "");
    // No state directory can be made: nothing is offered, and no error stands on the line that is being typed.
    let mut broken = stage.command(["__complete", "bash", "show", ""]);
    let silent = said(broken.env("VOLERY_HOME", "/dev/null/x").output().unwrap()).ok();
    assert_eq!((silent.stdout.as_str(), silent.stderr.as_str()), ("", ""));
}
