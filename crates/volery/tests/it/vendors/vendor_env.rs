//! A test environment for one vendor's program: its own home, the scripted model, and no other network.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fake_llm::{AgentDirs, ScriptedReply};
use serde_json::Value;
use testkit::{CliRequest, InstalledCli, OfflineSandbox, cli_launch};

use super::fake_clis::{FAKE_CLI_FOLDER, find_fake_cli};
use super::test_facts::{TestFacts, driver_program};
use crate::test_env::{CommandOutput, TestEnv, command_output, skip, tagged};

/// Vendors' programs take their time on a machine that does other things.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Services that Claude Code is pointed at: the backend or `AGENT_TYPE`, the address, the user's key and the variable by which Claude
/// Code is given it.
const SERVICES: [(&str, &str, &str, &str); 2] = [
    ("glm", "https://api.z.ai/api/anthropic", "ZAI_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    ("claude-kimi", "https://api.kimi.com/coding/", "CLI_API_KEY", "ANTHROPIC_API_KEY"),
];

/// The prefix of the temporary file that Claude Code renames to its state, and leaves there if it is killed meanwhile.
const CLAUDE_STATE_TEMP_PREFIX: &str = ".claude.json.tmp.";

const MARKING_SERVER: &str = r#"#!/bin/sh
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) answer='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"marking","version":"1"}}' ;;
    *'"tools/list"'*) answer='{"tools":[{"name":"TOOL","description":"Leaves a mark","inputSchema":{"type":"object","properties":{}}}]}' ;;
    *'"tools/call"'*) touch MARK; answer='{"content":[{"type":"text","text":"ANSWER"}]}' ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$answer"
done
"#;

/// A backend and the differences between its program and the others.
pub(super) struct Vendor {
    pub(super) name: &'static str,
}

/// A cell of the table.
pub(super) enum Cell {
    Works,
    /// Works as well as the program allows.
    Limited(&'static str),
    /// The program cannot do it.
    Cannot(&'static str),
    /// Left out, to save time.
    NotRun(&'static str),
}

impl Vendor {
    pub(super) const fn new(name: &'static str) -> Self {
        Self { name }
    }

    /// Returns the program that is driven, whichever way.
    pub(super) fn drives(&self) -> &'static str {
        driver_program(self.name)
    }

    /// Returns what tests know about the program.
    pub(super) fn test_facts(&self) -> TestFacts {
        TestFacts::read(self.name)
    }

    /// Returns a model reply that writes a file.
    pub(super) fn writes(&self, file: &Path, text: &str) -> ScriptedReply {
        self.test_facts().writes(&file.display().to_string(), text)
    }

    /// Returns a model reply that executes a command.
    pub(super) fn executes(&self, command: &str) -> ScriptedReply {
        self.test_facts().executes(command)
    }

    /// Returns a model reply that executes a command outside the sandbox.
    pub(super) fn executes_beyond(&self, command: &str) -> ScriptedReply {
        self.test_facts().executes_beyond(command)
    }

    /// Returns why the program can do what an agent may not that only reads, if so.
    pub(super) fn cannot_be_held(&self) -> Option<&'static str> {
        match self.name {
            "acp-claude" | "acp-gemini" | "acp-opencode" | "acp-qwen" => {
                Some("its own settings may allow it: refused before it starts")
            }
            "acp-kimi" => Some("it edits in a git work tree unasked: refused before it starts"),
            _ => None,
        }
    }

    /// Returns whether the output of the program reports denials. To Codex, a refusal of its sandbox looks like any failed
    /// command, and the output of Kiro is for people.
    pub(super) fn reports_denials(&self) -> bool {
        self.drives() != "codex" && self.name != "kiro"
    }

    /// Returns the rules that a denied `touch` names. The other programs can be passed no rule about a command, or do not
    /// report which command they denied.
    pub(super) fn rules_for_touch(&self) -> &'static [&'static str] {
        match self.name {
            "acp-gemini" | "cursor" | "goose" | "grok" | "kimi" => &[],
            _ => &["Bash(touch:*)"],
        }
    }

    /// Returns whether the real program decides by itself with the rules that it is passed, because it cannot ask. opencode,
    /// which takes long to start, is left out.
    pub(super) fn decides_by_rules(&self) -> bool {
        ["copilot", "gemini"].contains(&self.name)
    }

    /// Returns whether the program copies a conversation itself.
    pub(super) fn copies_sessions(&self) -> bool {
        let by_acp = ["acp-claude", "acp-codex", "acp-kimi", "acp-opencode"];
        let by_itself = ["claude", "codex", "glm", "grok", "opencode", "qwen"];
        by_acp.iter().chain(&by_itself).any(|name| *name == self.name)
    }
}

/// A test environment with a vendor's program on its search path.
pub(super) struct VendorEnv {
    pub(super) env: TestEnv,
    pub(super) offline: OfflineSandbox,
    variables: Vec<(String, String)>,
    /// The user's own files, as they were before anything ran.
    own_files: BTreeMap<PathBuf, Vec<u8>>,
    vendors: Vec<String>,
}

impl VendorEnv {
    /// Makes the environment. Returns `None` and records a skipped test if the program is not installed.
    pub(super) fn make(vendor: &Vendor, case: &str, script: Vec<ScriptedReply>) -> Option<Self> {
        if let Some(cell) = left_out(vendor.name, case) {
            record_cell(vendor, case, &cell);
            return None;
        }
        Self::make_for(&[vendor.name], case, script)
    }

    /// Makes an environment for several vendors' programs.
    pub(super) fn make_for(vendors: &[&str], case: &str, script: Vec<ScriptedReply>) -> Option<Self> {
        for vendor in vendors {
            if find_fake_cli(vendor).is_some() {
                continue;
            }
            if let Err(error) = InstalledCli::find(&program(vendor)) {
                skip(&format!("vendors::{vendor}::{case}"), &error.to_string());
                return None;
            }
        }
        let env = TestEnv::new();
        let holder = Path::new(env!("CARGO_BIN_EXE_volery")).with_file_name("fake-llm");
        let offline = OfflineSandbox::start(&holder, script).expect("a server can be started");
        let folders =
            AgentDirs { home: env.path("home"), work: env.project(), temp_dir: env.path("temporary") };
        for folder in [env.path("bin"), folders.temp_dir.clone()] {
            fs::create_dir_all(folder).unwrap();
        }
        let mut variables = vec![
            ("TMPDIR".to_owned(), folders.temp_dir.display().to_string()),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ];
        let vendors_here = vendors.iter().map(|vendor| (*vendor).to_owned()).collect();
        let mut vendor_env =
            Self { env, offline, variables: Vec::new(), own_files: BTreeMap::new(), vendors: vendors_here };
        for vendor in vendors {
            variables.extend(vendor_env.install(vendor, &folders));
        }
        vendor_env.variables = variables;
        fs::write(folders.home.join(".profile"), "# the user's own\n").unwrap();
        vendor_env.own_files = files_below(&folders.home);
        Some(vendor_env)
    }

    /// Installs a vendor's program and settings, and returns the variables that it needs.
    fn install(&self, backend: &str, folders: &AgentDirs) -> Vec<(String, String)> {
        let vendor = &program(backend);
        let url = self.offline.server().url();
        if let Some(fake_cli) = find_fake_cli(vendor) {
            return fake_cli.install(&self.env.path("bin"), &folders.home, &url);
        }
        let order = CliRequest { url: &url, folders, prompt: "", arguments: &[] };
        let recipe = cli_launch(vendor, &order).expect("it was found before");
        for (name, content) in &recipe.files {
            let path = folders.home.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let program = InstalledCli::find(vendor).expect("it was found before");
        let real = Path::new(program.argv.last().unwrap());
        // A package manager makes what it links executable.
        fs::set_permissions(real, PermissionsExt::from_mode(0o755)).unwrap();
        if let Some(service) = SERVICES.iter().find(|service| service.0 == backend) {
            return self.install_service(real, recipe.env, *service);
        }
        symlink(real, self.env.path("bin").join(vendor)).unwrap();
        if program.argv.len() > 1 {
            symlink(&program.argv[0], self.env.path("bin/node")).unwrap();
        }
        recipe.env
    }

    /// Installs Claude Code with the scripted model as the other vendor's service. The wrapper fails if Claude Code is
    /// pointed anywhere else.
    fn install_service(
        &self,
        real: &Path,
        variables: Vec<(String, String)>,
        (_, address, key, key_variable): (&str, &str, &str, &str),
    ) -> Vec<(String, String)> {
        // Its settings name the service too, so that those of its user cannot lead elsewhere.
        let script = format!(
            "#!/bin/sh\n[ \"$ANTHROPIC_BASE_URL\" = {address} ] || exit 97\n[ \"${key_variable}\" = dummy ] || exit 98\n\
             for word in \"$@\"; do case \"$word\" in --settings=*)\n\
             grep -q {address} \"${{word#--settings=}}\" || exit 96\n\
             sed -i 's|{address}|{url}|' \"${{word#--settings=}}\" ;;\nesac; done\n\
             ANTHROPIC_BASE_URL={url} exec '{}' \"$@\"\n",
            real.display(),
            url = self.offline.server().url(),
        );
        let program = self.env.path("bin/claude");
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let own = variables.into_iter().filter(|(name, _)| !name.starts_with("ANTHROPIC_"));
        own.chain([(key.to_owned(), "dummy".to_owned())]).collect()
    }

    /// Installs an MCP server with one tool, not marked as read-only, that leaves a mark when it is called.
    /// Returns the server and the mark.
    pub(super) fn marking_server(&self, tool: &str, answer: &str) -> (PathBuf, PathBuf) {
        let (server, mark) = (self.env.path("marking-server"), self.env.path("mark"));
        let script = MARKING_SERVER.replace("TOOL", tool).replace("ANSWER", answer);
        fs::write(&server, script.replace("MARK", &mark.display().to_string())).unwrap();
        fs::set_permissions(&server, PermissionsExt::from_mode(0o755)).unwrap();
        (server, mark)
    }

    /// Sets a variable for every command in this environment.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Removes the keys of the fake CLIs, as for a user who never logged in.
    pub(super) fn forget_keys(&mut self) {
        self.variables.retain(|(name, _)| !name.ends_with("_API_KEY"));
    }

    /// Takes everything away that a user of a program has: keys, settings and logins.
    pub(super) fn forget_user(&mut self) {
        // The last two say which program an adapter starts.
        let own = ["TMPDIR", "LANG", "CLAUDE_CODE_EXECUTABLE", "CODEX_PATH"];
        self.variables.retain(|(name, _)| own.contains(&name.as_str()));
        let home = self.env.path("home");
        fs::remove_dir_all(&home).unwrap();
        fs::create_dir_all(&home).unwrap();
        self.own_files.clear();
    }

    /// Defines the agent that the cases ask.
    pub(super) fn agent(&self, vendor: &Vendor, frontmatter: &str) {
        self.agent_named("worker", vendor.name, frontmatter);
    }

    pub(super) fn agent_named(&self, name: &str, vendor: &str, frontmatter: &str) {
        let model = if vendor.ends_with("gemini") { "model: gemini-2.5-flash\n" } else { "" };
        self.env.user_agent(name, &format!("backend: {vendor}\n{model}{frontmatter}"));
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let own = self.env.command(arguments);
        let mut argv = vec![own.get_program().to_str().unwrap().to_owned()];
        argv.extend(own.get_args().map(|argument| argument.to_str().unwrap().to_owned()));
        let mut command = self.offline.command(&argv);
        command.current_dir(self.env.project());
        command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let bin = self.env.path("bin");
        let path = std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path))).unwrap();
        command.env("PATH", path).envs(self.variables.iter().cloned());
        command
    }

    /// Returns a vendor's program as its user starts it, with nothing that only we would set.
    pub(super) fn client(&self, vendor: &str, prompt: &str, arguments: &[&str]) -> Command {
        let url = self.offline.server().url();
        let folders = AgentDirs {
            home: self.env.path("home"),
            work: self.env.project(),
            temp_dir: self.env.path("temporary"),
        };
        let order = CliRequest { url: &url, folders: &folders, prompt, arguments };
        let recipe = cli_launch(vendor, &order).expect("it was found before");
        let mut command = self.own(&recipe.argv);
        let input = self.env.path("prompt");
        fs::write(&input, &recipe.stdin).unwrap();
        command.stdin(fs::File::open(input).unwrap());
        command
    }

    /// Returns the command of a fake CLI, as its user starts it.
    pub(super) fn fake_cli(&self, program: &str, arguments: &[&str], more: &[&str]) -> Command {
        let path = self.env.path("bin").join(program).display().to_string();
        let following = arguments.iter().chain(more).map(|argument| (*argument).to_owned());
        let mut command = self.own(&std::iter::once(path).chain(following).collect::<Vec<_>>());
        command.stdin(Stdio::null());
        command
    }

    /// Returns a command of a vendor's program other than to work.
    pub(super) fn client_command(&self, vendor: &str, arguments: &[&str]) -> Command {
        let program = InstalledCli::find(vendor).expect("it was found before");
        let argv: Vec<String> =
            program.argv.into_iter().chain(arguments.iter().map(|argument| (*argument).to_owned())).collect();
        let mut command = self.own(&argv);
        command.stdin(Stdio::null());
        command
    }

    /// Returns a program that is not ours, in the user's environment.
    fn own(&self, argv: &[String]) -> Command {
        let mut command = self.offline.command(argv);
        command.current_dir(self.env.project()).env("HOME", self.env.path("home"));
        command
            .envs(self.variables.iter().cloned())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    #[must_use = "look at the exit code at least"]
    pub(super) fn volery(&self, arguments: &[&str]) -> CommandOutput {
        command_output(self.command(arguments).stdin(Stdio::null()).output().unwrap())
    }

    /// Asks the agent and returns the run, whatever became of it.
    pub(super) fn run(&self, prompt: &str, more: &[&str]) -> Value {
        let mut arguments = vec!["run", "worker", prompt, "--json"];
        arguments.extend(more);
        let run = self.volery(&arguments).json();
        assert!(run["run_id"].is_string(), "nothing was started: {run}");
        self.check_nothing_left(&run);
        run
    }

    /// No process of the run is left, nor a file with a secret.
    pub(super) fn check_nothing_left(&self, run: &Value) {
        let id = run["run_id"].as_str().unwrap();
        assert_eq!(tagged(self.env.tag(id)), Vec::<u32>::new(), "processes are left: {run}");
        let work = self.env.run_dir(id).join("work");
        let names = fs::read_dir(work).into_iter().flatten().filter_map(Result::ok);
        let secret: Vec<_> =
            names.filter(|entry| entry.file_name().to_string_lossy().starts_with("secret-")).collect();
        assert!(secret.is_empty(), "{secret:?}");
        assert_eq!(self.temporary_entries(), 0, "temporary files are left: {run}");
        self.check_home(run);
    }

    /// Counts the entries of the folder for temporary files.
    pub(super) fn temporary_entries(&self) -> usize {
        fs::read_dir(self.env.path("temporary")).unwrap().count()
    }

    /// The user has changed a file of their own.
    pub(super) fn user_changed(&mut self, path: &Path) {
        if let Some(content) = self.own_files.get_mut(path) {
            *content = fs::read(path).unwrap();
        }
    }

    /// Checks that the user's files are unchanged, and that new ones are only in the folders of the vendors.
    fn check_home(&self, run: &Value) {
        let home = self.env.path("home");
        let now = files_below(&home);
        for (path, content) in &self.own_files {
            let left = now.get(path).map(|content| meaning(content));
            assert_eq!(left, Some(meaning(content)), "{} is not as it was: {run}", path.display());
        }
        let own: Vec<String> = self.vendors.iter().flat_map(|vendor| state_folders(vendor)).collect();
        let strange = now.keys().filter(|path| {
            let within = path.strip_prefix(&home).unwrap();
            let own = own.iter().any(|folder| within.starts_with(folder))
                || within.to_str().is_some_and(|name| name.starts_with(CLAUDE_STATE_TEMP_PREFIX));
            !self.own_files.contains_key(*path) && !own
        });
        let strange: Vec<_> = strange.collect();
        assert!(strange.is_empty(), "files were made elsewhere: {strange:?}");
    }
}

/// Returns where a vendor's program keeps its own state below the user's home.
fn state_folders(vendor: &str) -> Vec<String> {
    let facts = TestFacts::read(vendor);
    let of_fake_cli = facts.fake_cli.map(|_| FAKE_CLI_FOLDER.to_owned());
    facts.state_folders.into_iter().chain(of_fake_cli).collect()
}

/// Returns the content of a file without keys such as `$version`, which some programs add to settings that lack them.
fn meaning(content: &[u8]) -> Value {
    match serde_json::from_slice::<Value>(content) {
        Ok(Value::Object(mut settings)) => {
            settings.retain(|key, _| !key.starts_with('$'));
            Value::Object(settings)
        }
        Ok(value) => value,
        Err(_) => Value::String(String::from_utf8_lossy(content).into_owned()),
    }
}

/// Returns every file below a folder, with its content.
pub(super) fn files_below(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files_below(&path)),
            Ok(kind) if kind.is_file() => {
                // A file may vanish while it is read.
                found.extend(fs::read(&path).ok().map(|content| (path, content)));
            }
            Ok(_) | Err(_) => {}
        }
    }
    found
}

/// Returns what to say of a case that is not tried.
pub(super) fn left_out(backend: &str, case: &str) -> Option<Cell> {
    match case {
        "resume" if backend == "acp-gemini" => Some(Cell::Cannot(
            "its session/load does not find a session of the same minute, and writes over it",
        )),
        "doctor" if backend == "glm" => Some(Cell::Cannot("its program is tried by its other backend")),
        "doctor" if find_fake_cli(backend).is_some() => {
            Some(Cell::NotRun("a fake CLI cannot show whether the real program keeps its contract"))
        }
        _ => None,
    }
}

/// Returns the program that a backend drives, by its name in the list of those that are installed.
fn program(backend: &str) -> String {
    let adapter = TestFacts::read(backend).acp.program.filter(|_| backend.starts_with("acp-"));
    adapter.unwrap_or_else(|| driver_program(backend).to_owned())
}

/// Returns the expected text of a cell: `works`, unless `expected.txt` has another one.
fn expected(vendor: &str, case: &str) -> &'static str {
    let list = include_str!("expected.txt").lines().filter_map(|line| line.split_once(" | "));
    let mut cells = list.filter_map(|(name, rest)| Some((name, rest.split_once(" | ")?)));
    cells
        .find_map(|(name, (listed_case, text))| (name == vendor && listed_case == case).then_some(text))
        .unwrap_or("works")
}

/// Compares a cell with `expected.txt` and writes it to the table that the test command prints at its end.
pub(super) fn record_cell(vendor: &Vendor, case: &str, cell: &Cell) {
    let text = match cell {
        Cell::Works => "works".to_owned(),
        Cell::Limited(how) => format!("limited: {how}"),
        Cell::Cannot(why) => format!("cannot: {why}"),
        Cell::NotRun(why) => format!("not run: {why}"),
    };
    assert_eq!(text, expected(vendor.name, case), "{} {case}: mend it, or expected.txt", vendor.name);
    let Some(table) = std::env::var_os("VOLERY_TESTS_TABLE").map(PathBuf::from) else { return };
    let mut file = fs::OpenOptions::new().append(true).create(true).open(table).unwrap();
    let real = if find_fake_cli(vendor.name).is_some() { " (fake)" } else { "" };
    writeln!(file, "{}{real}\t{case}\t{text}", vendor.name).unwrap();
}
