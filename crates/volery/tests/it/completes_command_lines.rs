//! What a shell offers when somebody presses Tab: agents and runs of the moment. The scripts run in the real shells;
//! `scripts/setup-shells` downloads zsh and fish.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::test_env::{CommandOutput, TestEnv, command_output, skip};

/// Writes the script that we print for a shell.
fn script(env: &TestEnv, shell: &str) -> PathBuf {
    let script = env.path(&format!("volery.{shell}"));
    fs::write(&script, env.volery(["completions", shell]).ok().stdout).unwrap();
    script
}

/// Returns a shell in the user's environment, with volery on its search path.
pub(crate) fn shell(env: &TestEnv, program: &Path) -> Command {
    let ours = env.command([""; 0]);
    let folder = Path::new(ours.get_program()).parent().unwrap().to_owned();
    let mut shell = Command::new(program);
    shell.env_clear().envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let path = std::env::var("PATH").unwrap_or_default();
    shell.env("PATH", format!("{}:{path}", folder.display())).current_dir(env.project());
    shell.stdin(Stdio::null());
    shell
}

/// Returns where `scripts/setup-shells` puts the shells; nothing where it could not, which is recorded as a skipped test.
pub(crate) fn downloaded_shells(test: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/shells/root");
    let root = root.canonicalize().unwrap_or(root);
    if root.join("stamp").is_file() {
        return Some(root);
    }
    skip(test, "scripts/setup-shells has not downloaded the shells and tmux");
    None
}

/// Returns the folders of the libraries that were downloaded with the shells.
pub(crate) fn libraries(root: &Path) -> String {
    let folders = ["lib", "usr/lib"].map(|folder| root.join(folder));
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten());
    let found = entries.filter_map(Result::ok).map(|entry| entry.path().display().to_string());
    found.filter(|path| path.ends_with("-linux-gnu")).collect::<Vec<_>>().join(":")
}

/// Returns what a real fish offers for a line.
fn offered_by_fish(env: &TestEnv, root: &Path, line: &str) -> Vec<String> {
    let mut fish = shell(env, &root.join("usr/bin/fish"));
    fish.env("LD_LIBRARY_PATH", libraries(root)).env("TERM", "dumb");
    fish.args(["--no-config", "-c", "source $argv[1]; complete -C $argv[2]"]);
    let printed = command_output(fish.arg(script(env, "fish")).arg(line).output().unwrap()).ok();
    assert_eq!(printed.stderr, "");
    // The description follows a tab.
    let words = printed.stdout.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned());
    words.collect()
}

/// Returns what a real zsh offers for a line, and what the line is after one Tab.
fn offered_by_zsh(env: &TestEnv, root: &Path, line: &str) -> (Vec<String>, String) {
    let mut zsh = shell(env, &root.join("usr/bin/zsh"));
    zsh.env("LD_LIBRARY_PATH", libraries(root)).env("TERM", "dumb").arg("-f");
    zsh.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/shells/complete.zsh"));
    zsh.arg(root).arg(script(env, "zsh")).arg(env.path("zsh-out")).arg(line);
    let CommandOutput { stdout, stderr, .. } = command_output(zsh.output().unwrap()).ok();
    let lines: Vec<&str> = stdout.lines().collect();
    let Some((completed, candidates)) = lines.split_last() else { panic!("{stderr}") };
    let completed = completed.strip_prefix("line: ").unwrap_or_else(|| panic!("{stdout}{stderr}"));
    let mut candidates: Vec<String> = candidates.iter().map(|word| (*word).to_owned()).collect();
    candidates.sort();
    // zsh adds each candidate once with its description and once without, and an empty one between them.
    candidates.dedup();
    candidates.retain(|word| !word.is_empty());
    (candidates, completed.to_owned())
}

/// Makes agents of plain names and of names with `:` and `/`, which shells treat in ways of their own, and
/// returns their environment with the short id of a run.
fn env_with_agents() -> (TestEnv, String) {
    let env = TestEnv::new();
    env.rehearsal("reviewer", "- say: hello", "").rehearsal("reporter", "- say: hello", "");
    let write = |path: PathBuf, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    // A shell must take nothing of a description for its own.
    let agent = "---\ndescription: \"it's [a] `test`: $(touch pwned) %s\"\n---\nx";
    write(env.project().join(".opencode/agent/team/lead.md"), agent);
    let kit = env.path("home/.claude/plugins/cache/market/kit");
    write(kit.join(".claude-plugin/plugin.json"), r#"{"name": "kit"}"#);
    write(kit.join("agents/rescue.md"), agent);
    let installed = json!({"version": 2, "plugins": {"kit@market": [{"scope": "user", "installPath": kit}]}});
    write(env.path("home/.claude/plugins/installed_plugins.json"), &installed.to_string());
    write(env.path("home/.claude/settings.json"), r#"{"enabledPlugins": {"kit@market": true}}"#);
    let run = env.start("reviewer", "one");
    env.wait_for_end(&run);
    let short = run[run.len() - 8..].to_owned();
    (env, short)
}

#[test]
fn fish_offers_commands_agents_and_runs() {
    let Some(root) = downloaded_shells("completes_command_lines::fish") else { return };
    let (env, run) = env_with_agents();
    let offered = |line: &str| offered_by_fish(&env, &root, line);
    assert_eq!(offered("volery agen"), ["agents"]);
    assert_eq!(offered("volery run --timeout 5m re"), ["reporter", "reviewer"]);
    assert_eq!(offered("volery run kit:"), ["kit:rescue"]);
    assert_eq!(offered("volery run team/l"), ["team/lead"]);
    assert_eq!(offered("volery show "), [run.as_str()]);
    assert_eq!(offered("volery cancel "), Vec::<String>::new());
    assert_eq!(offered("volery run reviewer --on-disconnect=con"), ["--on-disconnect=continue"]);
    assert!(!env.project().join("pwned").exists());
}

#[test]
fn zsh_offers_commands_agents_and_runs() {
    let Some(root) = downloaded_shells("completes_command_lines::zsh") else { return };
    let (env, run) = env_with_agents();
    let offered = |line: &str| offered_by_zsh(&env, &root, line);
    let one = |word: &str, line: &str| (vec![word.to_owned()], format!("{line} "));
    assert_eq!(offered("volery agen"), one("agents", "volery agents"));
    assert_eq!(offered("volery run --timeout 5m re").0, ["reporter", "reviewer"]);
    assert_eq!(offered("volery run kit:r"), one("kit:rescue", "volery run kit:rescue"));
    assert_eq!(offered("volery run team/l"), one("team/lead", "volery run team/lead"));
    assert_eq!(offered("volery show "), one(&run, &format!("volery show {run}")));
    let line = "volery run reviewer --on-disconnect=con";
    assert_eq!(offered(line), one("--on-disconnect=continue", &format!("{line}tinue")));
    assert!(!env.project().join("pwned").exists());
}

/// Returns what a real bash offers for a line, with the script that we print.
fn offered_by_bash(env: &TestEnv, words: &[&str]) -> Vec<String> {
    let script = script(env, "bash");
    let mut bash = shell(env, Path::new("bash"));
    bash.args([
        "--norc",
        "-c",
        "source \"$1\"; shift; COMP_WORDS=(volery \"$@\"); COMP_CWORD=$#; _volery; \
                printf '%s\\n' \"${COMPREPLY[@]}\"",
        "bash",
    ]);
    let printed = command_output(bash.arg(&script).args(words).output().unwrap()).ok();
    assert_eq!(printed.stderr, "");
    printed.stdout.lines().map(str::to_owned).filter(|line| !line.is_empty()).collect()
}

#[test]
fn bash_offers_commands_agents_and_runs() {
    let (env, short) = env_with_agents();
    assert_eq!(offered_by_bash(&env, &["agen"]), ["agents"]);
    assert_eq!(offered_by_bash(&env, &["run", "rep"]), ["reporter"]);
    assert_eq!(offered_by_bash(&env, &["run", "--timeout", "5m", "re"]), ["reporter", "reviewer"]);
    assert_eq!(offered_by_bash(&env, &["show", ""]), [short.as_str()]);
    assert_eq!(offered_by_bash(&env, &["show", &short[..3]]), [short]);
    assert_eq!(offered_by_bash(&env, &["cancel", ""]), Vec::<String>::new());
    // Bash hands over a colon and an equals sign as words of their own, and replaces what follows them.
    assert_eq!(offered_by_bash(&env, &["run", "kit", ":", "r"]), ["rescue"]);
    assert_eq!(offered_by_bash(&env, &["run", "team/l"]), ["team/lead"]);
    // Some front ends ask before anything follows the name of the program.
    assert_eq!(offered_by_bash(&env, &[]), Vec::<String>::new());
    assert_eq!(offered_by_bash(&env, &["run", "reviewer", "--on-disconnect", "=", "con"]), ["continue"]);
}

#[test]
fn bash_offers_what_fits_the_rest_of_the_line() {
    let env = TestEnv::new();
    env.rehearsal("reviewer", "- say: hello", "");
    let other = env.path("home/other/.volery/agents");
    std::fs::create_dir_all(&other).unwrap();
    std::fs::write(other.join("reporter.md"), "---\ndescription: x\nbackend: rehearsal\n---\n").unwrap();
    let folder = env.path("home/other").display().to_string();
    assert_eq!(offered_by_bash(&env, &["run", "--dir", &folder, "re"]), ["reporter"]);
    assert_eq!(offered_by_bash(&env, &["run", "--dir", "=", &folder, "re"]), ["reporter"]);
    assert_eq!(offered_by_bash(&env, &["run", "--dir", "~/other", "re"]), ["reporter"]);
    assert_eq!(offered_by_bash(&env, &["ps", "--state", "r"]), ["running", "refused"]);
    let [one, two] = ["one", "two"].map(|prompt| env.start("reviewer", prompt));
    let short = |run: &str| run[run.len() - 8..].to_owned();
    env.wait_for_end(&one);
    let session = env.wait_for_end(&two)["session"].as_str().unwrap().to_owned();
    assert!(offered_by_bash(&env, &["ps", "--session", ""]).contains(&session));
    assert_eq!(offered_by_bash(&env, &["wait", &short(&one), ""]), [short(&two)]);
}

#[test]
fn a_shell_that_cannot_be_answered_prints_nothing() {
    let env = TestEnv::new();
    env.rehearsal("reviewer", "- say: hello", "");
    let complete = |words: &[&str]| env.volery([&["__complete"], words].concat()).ok();
    assert_eq!(complete(&["zsh", "run", "rev"]).stdout, "reviewer:for a test\n");
    assert_eq!(complete(&["fish", "run", "rev"]).stdout, "reviewer\tfor a test\n");
    assert_eq!(complete(&["fish"]).stdout, "");
    // No state directory can be made: nothing is offered, and no error appears on the line that is being typed.
    let mut broken = env.command(["__complete", "bash", "show", ""]);
    let silent = command_output(broken.env("VOLERY_HOME", "/dev/null/x").output().unwrap()).ok();
    assert_eq!((silent.stdout.as_str(), silent.stderr.as_str()), ("", ""));
}
