//! Shows the screens of a user's first day in a real tmux with 80 columns, while a script imitates Claude Code.
//! `scripts/setup-shells` downloads tmux.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::completes_command_lines::{downloaded_shells, libraries, shell};
use crate::test_env::{PATIENCE, TestEnv, command_output, run_processes, wait_for};

const CLAUDE: &str = include_str!("shows_a_first_day/claude.sh");
/// The number of rows, enough for the longest screen.
const ROWS: &str = "45";

/// A terminal with 80 columns and a shell.
struct Screen<'a> {
    env: &'a TestEnv,
    root: PathBuf,
}

impl<'a> Screen<'a> {
    fn open(env: &'a TestEnv, test: &str) -> Option<Self> {
        let screen = Self { env, root: downloaded_shells(&format!("shows_a_first_day::{test}"))? };
        let session = ["new-session", "-d", "-x", "80", "-y", ROWS, "exec env -u TMUX PS1='$ ' sh"];
        command_output(screen.tmux(&session).output().unwrap()).ok();
        screen.shows("$");
        Some(screen)
    }

    fn tmux(&self, words: &[&str]) -> Command {
        let mut tmux = shell(self.env, &self.root.join("usr/bin/tmux"));
        let path = tmux.get_envs().find_map(|(name, value)| (name == "PATH").then_some(value?));
        let path = format!("{}:{}", self.env.path("bin").display(), path.unwrap().to_string_lossy());
        tmux.env("PATH", path).env("LD_LIBRARY_PATH", libraries(&self.root)).env("USER", "ada");
        tmux.env("LC_ALL", "C.UTF-8").env("TERM", "screen").env_remove("CI");
        tmux.arg("-u").args(["-f", "/dev/null", "-S"]).arg(self.env.path("tmux")).args(words);
        tmux
    }

    /// Types a line into the shell, or into the command that it executes.
    fn types(&self, line: &str) {
        command_output(self.tmux(&["send-keys", "-l", line]).output().unwrap()).ok();
        command_output(self.tmux(&["send-keys", "Enter"]).output().unwrap()).ok();
    }

    /// Executes a command on an empty screen, and waits for the next prompt of the shell.
    fn executes(&self, command: &str) -> String {
        self.starts(command);
        self.ended()
    }

    fn starts(&self, command: &str) {
        self.types("clear");
        wait_for(PATIENCE, "an empty screen", || (self.text() == "$").then_some(()));
        self.types(command);
    }

    /// Waits for the next prompt of the shell, and returns the screen.
    fn ended(&self) -> String {
        let screen =
            wait_for(PATIENCE, "the prompt", || Some(self.text()).filter(|text| text.ends_with("\n$")));
        let masked = self.env.masked(screen.trim_end_matches("\n$"));
        // The width of a time depends on the machine.
        masked.lines().map(|line| collapse_blanks(line) + "\n").collect()
    }

    fn shows(&self, text: &str) {
        wait_for(PATIENCE, text, || self.text().contains(text).then_some(()));
    }

    fn text(&self) -> String {
        let captured = command_output(self.tmux(&["capture-pane", "-p"]).output().unwrap()).ok().stdout;
        let lines: Vec<&str> = captured.trim_end().lines().map(str::trim_end).collect();
        lines.join("\n")
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        // The tmux server may have ended before.
        let _ = self.tmux(&["kill-server"]).output();
    }
}

/// Shortens more than two blanks within a line.
fn collapse_blanks(line: &str) -> String {
    let (indent, text) = line.split_at(line.len() - line.trim_start().len());
    let columns: Vec<&str> = text.split("  ").map(str::trim).filter(|column| !column.is_empty()).collect();
    format!("{indent}{}", columns.join("  "))
}

pub(crate) fn env() -> TestEnv {
    let env = TestEnv::new();
    env.people_answer();
    let program = env.path("bin/claude");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::write(&program, CLAUDE).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(env.project().join("birds.txt"), "grey heron\npurple heron\ngrey heron\n").unwrap();
    env
}

#[test]
fn a_run_with_tools_and_a_question() {
    let env = env();
    let Some(screen) = Screen::open(&env, "a_run_with_tools_and_a_question") else { return };
    screen.starts("volery run claude how many herons are there");
    screen.shows("[y]es  [n]o  [a]lways  [v]iew  [?]");
    screen.types("a");
    insta::assert_snapshot!(screen.ended(), @r#"
    $ volery run claude how many herons are there
    claude asks: may it use Bash? {"command":"touch counted"}
    always: allow Bash(touch:*) for the agent claude in all your projects
    [y]es  [n]o  [a]lways  [v]iew  [?] a
    [stage]/config/config.toml has now:
      [agents.claude] permission.allow = ["Bash(touch:*)"]
    Three herons: two grey ones and a purple one.
    [run-id] succeeded in [span], $0.0123, 1,200 tokens in, 80 out
    "#);
    insta::assert_snapshot!(screen.executes("volery logs"), @r#"
    $ volery logs
    the last run: [run-id] claude: how many herons are there
    [run-id] claude  [time], asked by you
    > how many herons are there

    · claude
    · model claude-sonnet-4-5

    I read the list of birds first.

    → Read birds.txt
        grey heron
        purple heron
        grey heron
    → $ touch counted
    ? asks: may it use Bash? {"command":"touch counted"}
    · allowed by ada

    Three herons: two grey ones and a purple one.

    ✓ succeeded in [span], $0.0123, 1,200 tokens in, 80 out
    "#);
}

#[test]
fn an_interrupted_run_and_its_resume() {
    let env = env();
    let Some(screen) = Screen::open(&env, "an_interrupted_run_and_its_resume") else { return };
    screen.executes("volery run claude Wait. --background");
    let id = env.only_run();
    env.wait_for_event(&id, "said");
    let processes = run_processes(&env.run_dir(&id));
    for member in [processes.keeper, processes.worker] {
        member.unwrap().kill();
    }
    insta::assert_snapshot!(screen.executes("volery ps; volery wait"), @"
    $ volery ps; volery wait
    ID  AGENT  STATUS  AGE  TIME  COST  PROMPT
    [run-id]  claude  partial  [span]  [span]  -  Wait.
    hint: [run-id] was interrupted: volery resume [run-id] continues it
    the last run: [run-id] claude: Wait.
    I count the herons in the reed bed.
    [run-id] partial: interrupted, keeper and worker were killed or could not
      write, or the machine restarted, with usable output so far, after [span]
    hint: volery resume [run-id] continues it
    ");
    insta::assert_snapshot!(screen.executes("volery resume"), @"
    $ volery resume
    the last run: [run-id] claude: Wait.
    warning: this run continues [run-id], which was interrupted
    Three herons at the pond, two in the reed bed.
    [run-id] succeeded in [span], $0.0123, 1,200 tokens in, 80 out
    ");
}

#[test]
fn a_child_that_waits() {
    let env = env();
    env.rehearsal("fixer", "- ask: May I use the staging database?\n- say: fixed", "");
    env.rehearsal("chief", "- delegate: {agent: fixer, prompt: Fix the build.}", "delegates: [fixer]");
    let Some(screen) = Screen::open(&env, "a_child_that_waits") else { return };
    screen.executes("volery run chief get the build green --background");
    wait_for(PATIENCE, "the question", || screen.executes("volery ps").contains("waiting").then_some(()));
    insta::assert_snapshot!(screen.executes("volery ps"), @"
    $ volery ps
    ID  AGENT  STATUS  AGE  TIME  COST  PROMPT
    [run-id]  fixer  waiting  [span]  [span]  -  needs you: fixer
    [run-id]  chief  running  [span]  [span]  -  needs you: chief › fixer
    needs you: chief › fixer: May I use the staging database?
    hint: volery approve|deny [run-id], or volery answer [run-id] TEXT
    ");
    screen.executes("volery approve");
    insta::assert_snapshot!(screen.executes("volery wait"), @"
    $ volery wait
    the last run: [run-id] chief: get the build green
    yes
    fixed
    [run-id] succeeded in [span]
    ");
}
