//! A place for one vendor's program: its own home, the scripted model, and nothing else that can be reached.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use model_server::{Folders, Offline, Order, Program, Reply, recipe};
use serde_json::{Value, json};

use super::stand_ins::stand_in;
use crate::stage::{Said, Stage, said, skip, tagged};

/// Vendors' programs take their time on a machine that does other things.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Services that Claude Code is pointed at: the backend or `AGENT_TYPE`, the address, the user's key and the variable by which Claude
/// Code is given it.
const SERVICES: [(&str, &str, &str, &str); 2] = [
    ("glm", "https://api.z.ai/api/anthropic", "ZAI_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    ("claude-kimi", "https://api.kimi.com/coding/", "CLI_API_KEY", "ANTHROPIC_API_KEY"),
];

/// Beside its state Claude Code writes what it then renames, and leaves it there when it is killed meanwhile.
const CLAUDES_DRAFT: &str = ".claude.json.tmp.";

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

/// What differs between the programs.
pub(super) struct Vendor {
    pub(super) name: &'static str,
}

/// What a cell of the table says.
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
    pub(super) const fn named(name: &'static str) -> Self {
        Self { name }
    }

    /// Returns the program that is driven, whichever way.
    pub(super) fn drives(&self) -> &'static str {
        match self.name {
            "glm" | "claude-kimi" => "claude",
            name => name.strip_prefix("acp-").unwrap_or(name),
        }
    }

    /// Returns the model's wish to write a file.
    pub(super) fn writes(&self, file: &Path, text: &str) -> Reply {
        let path = file.display().to_string();
        match self.drives() {
            "claude" => Reply::call("Write", json!({"file_path": path, "content": text})),
            "codex" => Reply::call("exec_command", json!({"cmd": format!("printf %s '{text}' > '{path}'")})),
            "gemini" | "qwen" => Reply::call("write_file", json!({"file_path": path, "content": text})),
            "copilot" => Reply::call("create", json!({"path": path, "file_text": text})),
            "opencode" => Reply::call("write", json!({"filePath": path, "content": text})),
            "kimi" => Reply::call("Write", json!({"path": path, "content": text})),
            "goose" => self.executes(&format!("printf %s '{text}' > '{path}'")),
            "cursor" => Reply::call("write", json!({"path": path, "fileText": text})),
            "kiro" => Reply::call("fs_write", json!({"command": "create", "path": path, "file_text": text})),
            "grok" => Reply::call(
                "search_replace",
                json!({"file_path": path, "old_string": "", "new_string": text}),
            ),
            other => panic!("nobody knows how {other} writes"),
        }
    }

    /// Returns the model's wish to execute a command.
    pub(super) fn executes(&self, command: &str) -> Reply {
        match self.drives() {
            "claude" | "kimi" => {
                Reply::call("Bash", json!({"command": command, "description": "for a test"}))
            }
            "codex" => Reply::call("exec_command", json!({"cmd": command})),
            "gemini" | "qwen" => Reply::call(
                "run_shell_command",
                json!({"command": command, "description": "for a test", "is_background": false}),
            ),
            "copilot" | "opencode" => {
                Reply::call("bash", json!({"command": command, "description": "for a test"}))
            }
            "goose" | "cursor" => Reply::call("shell", json!({"command": command})),
            "kiro" => Reply::call("execute_bash", json!({"command": command})),
            "grok" => Reply::call("run_terminal_cmd", json!({"command": command})),
            other => panic!("nobody knows how {other} executes"),
        }
    }
}

impl Vendor {
    /// Returns the model's wish to execute a command that needs more than the directory.
    pub(super) fn executes_beyond(&self, command: &str) -> Reply {
        let beyond =
            json!({"cmd": command, "sandbox_permissions": "require_escalated", "justification": "a test"});
        if self.drives() == "codex" { Reply::call("exec_command", beyond) } else { self.executes(command) }
    }

    /// Returns the file in which the program looks for a project's own MCP servers.
    pub(super) fn servers_file(&self) -> &'static str {
        match self.drives() {
            "cursor" => ".cursor/mcp.json",
            "kiro" => ".kiro/settings/mcp.json",
            _ => ".mcp.json",
        }
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

    /// Tells whether what the program writes shows that the agent was denied something. What a sandbox refuses looks to
    /// Codex like any command that fails, and Kiro writes only for people.
    pub(super) fn tells_denials(&self) -> bool {
        self.drives() != "codex" && self.name != "kiro"
    }

    /// Tells whether the program copies a conversation itself.
    pub(super) fn copies_sessions(&self) -> bool {
        let by_acp = ["acp-claude", "acp-codex", "acp-kimi", "acp-opencode"];
        let by_itself = ["claude", "codex", "glm", "grok", "opencode", "qwen"];
        by_acp.iter().chain(&by_itself).any(|name| *name == self.name)
    }

    /// Returns the file of instructions that the program reads in its directory.
    pub(super) fn instructions(&self) -> &'static str {
        match self.drives() {
            "claude" => "CLAUDE.md",
            "gemini" => "GEMINI.md",
            "qwen" => "QWEN.md",
            _ => "AGENTS.md",
        }
    }
}

/// A stage with a vendor's program on its search path.
pub(super) struct Place {
    pub(super) stage: Stage,
    pub(super) offline: Offline,
    env: Vec<(String, String)>,
    /// The user's own files, as they were before anything ran.
    own_files: BTreeMap<PathBuf, Vec<u8>>,
    vendors: Vec<String>,
}

impl Place {
    /// Makes the place; nothing where the program is not installed, which is recorded as a skipped test.
    pub(super) fn make(vendor: &Vendor, case: &str, script: Vec<Reply>) -> Option<Self> {
        if let Some(cell) = left_out(vendor.name, case) {
            tell(vendor, case, &cell);
            return None;
        }
        Self::make_for(&[vendor.name], case, script)
    }

    /// Makes a place for several vendors' programs.
    pub(super) fn make_for(vendors: &[&str], case: &str, script: Vec<Reply>) -> Option<Self> {
        for vendor in vendors {
            if stand_in(vendor).is_some() {
                continue;
            }
            if let Err(error) = Program::find(program(vendor)) {
                skip(&format!("vendors::{vendor}::{case}"), &error.to_string());
                return None;
            }
        }
        let stage = Stage::new();
        let holder = Path::new(env!("CARGO_BIN_EXE_volery")).with_file_name("model-server");
        let offline = Offline::start(&holder, script).expect("a server can be started");
        let folders =
            Folders { home: stage.path("home"), work: stage.project(), temporary: stage.path("temporary") };
        for folder in [stage.path("bin"), folders.temporary.clone()] {
            fs::create_dir_all(folder).unwrap();
        }
        let mut env = vec![
            ("TMPDIR".to_owned(), folders.temporary.display().to_string()),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ];
        let vendors_here = vendors.iter().map(|vendor| (*vendor).to_owned()).collect();
        let mut place =
            Self { stage, offline, env: Vec::new(), own_files: BTreeMap::new(), vendors: vendors_here };
        for vendor in vendors {
            env.extend(place.furnish(vendor, &folders));
        }
        place.env = env;
        fs::write(folders.home.join(".profile"), "# the user's own\n").unwrap();
        place.own_files = files_below(&folders.home);
        Some(place)
    }

    /// Puts a vendor's program and settings in place; returns the variables that it needs.
    fn furnish(&self, backend: &str, folders: &Folders) -> Vec<(String, String)> {
        let vendor = program(backend);
        let url = self.offline.server().url();
        if let Some(stand_in) = stand_in(vendor) {
            return stand_in.furnish(&self.stage.path("bin"), &folders.home, &url);
        }
        let order = Order { url: &url, folders, prompt: "", arguments: &[] };
        let recipe = recipe(vendor, &order).expect("it was found before");
        for (name, content) in &recipe.files {
            let path = folders.home.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let program = Program::find(vendor).expect("it was found before");
        let real = Path::new(program.argv.last().unwrap());
        // A package manager makes what it links executable.
        fs::set_permissions(real, PermissionsExt::from_mode(0o755)).unwrap();
        if let Some(service) = SERVICES.iter().find(|service| service.0 == backend) {
            return self.furnish_service(real, recipe.env, *service);
        }
        symlink(real, self.stage.path("bin").join(vendor)).unwrap();
        if program.argv.len() > 1 {
            symlink(&program.argv[0], self.stage.path("bin/node")).unwrap();
        }
        recipe.env
    }

    /// Puts Claude Code in place with the scripted model where it is told to ask the other vendor's service, and only
    /// there.
    fn furnish_service(
        &self,
        real: &Path,
        env: Vec<(String, String)>,
        (_, address, key, given_as): (&str, &str, &str, &str),
    ) -> Vec<(String, String)> {
        // Its settings name the service too, so that those of its user cannot lead elsewhere.
        let script = format!(
            "#!/bin/sh\n[ \"$ANTHROPIC_BASE_URL\" = {address} ] || exit 97\n[ \"${given_as}\" = dummy ] || exit 98\n\
             for word in \"$@\"; do case \"$word\" in --settings=*)\n\
             grep -q {address} \"${{word#--settings=}}\" || exit 96\n\
             sed -i 's|{address}|{url}|' \"${{word#--settings=}}\" ;;\nesac; done\n\
             ANTHROPIC_BASE_URL={url} exec '{}' \"$@\"\n",
            real.display(),
            url = self.offline.server().url(),
        );
        let program = self.stage.path("bin/claude");
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let own = env.into_iter().filter(|(name, _)| !name.starts_with("ANTHROPIC_"));
        own.chain([(key.to_owned(), "dummy".to_owned())]).collect()
    }

    /// Puts an MCP server in place that has one tool, does not say that it changes nothing, and leaves a mark when it is called.
    /// Returns the server and the mark.
    pub(super) fn marking_server(&self, tool: &str, answer: &str) -> (PathBuf, PathBuf) {
        let (server, mark) = (self.stage.path("marking-server"), self.stage.path("mark"));
        let script = MARKING_SERVER.replace("TOOL", tool).replace("ANSWER", answer);
        fs::write(&server, script.replace("MARK", &mark.display().to_string())).unwrap();
        fs::set_permissions(&server, PermissionsExt::from_mode(0o755)).unwrap();
        (server, mark)
    }

    /// Sets a variable for every command of this place.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.env.push((name.to_owned(), value.to_owned()));
    }

    /// Takes the keys of stand-ins away, as from somebody who never logged in.
    pub(super) fn forget_keys(&mut self) {
        self.env.retain(|(name, _)| !name.ends_with("_API_KEY"));
    }

    /// Takes everything away that a user of a program has: keys, settings and logins.
    pub(super) fn forget_user(&mut self) {
        // The last two say which program an adapter starts.
        let own = ["TMPDIR", "LANG", "CLAUDE_CODE_EXECUTABLE", "CODEX_PATH"];
        self.env.retain(|(name, _)| own.contains(&name.as_str()));
        let home = self.stage.path("home");
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
        self.stage.agent(name, &format!("backend: {vendor}\n{model}{frontmatter}"));
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let own = self.stage.command(arguments);
        let mut argv = vec![own.get_program().to_str().unwrap().to_owned()];
        argv.extend(own.get_args().map(|word| word.to_str().unwrap().to_owned()));
        let mut command = self.offline.command(&argv);
        command.current_dir(self.stage.project());
        command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let bin = self.stage.path("bin");
        let path = std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path))).unwrap();
        command.env("PATH", path).envs(self.env.iter().cloned());
        command
    }

    /// Returns a vendor's program as its user starts it, with nothing that only we would set.
    pub(super) fn client(&self, vendor: &str, prompt: &str, arguments: &[&str]) -> Command {
        let url = self.offline.server().url();
        let folders = Folders {
            home: self.stage.path("home"),
            work: self.stage.project(),
            temporary: self.stage.path("temporary"),
        };
        let order = Order { url: &url, folders: &folders, prompt, arguments };
        let recipe = recipe(vendor, &order).expect("it was found before");
        let mut command = self.own(&recipe.argv);
        let input = self.stage.path("prompt");
        fs::write(&input, &recipe.stdin).unwrap();
        command.stdin(fs::File::open(input).unwrap());
        command
    }

    /// Returns a program that is stood in for, as its user starts it.
    pub(super) fn stand_in(&self, program: &str, arguments: &[&str], more: &[&str]) -> Command {
        let path = self.stage.path("bin").join(program).display().to_string();
        let words = arguments.iter().chain(more).map(|word| (*word).to_owned());
        let mut command = self.own(&std::iter::once(path).chain(words).collect::<Vec<_>>());
        command.stdin(Stdio::null());
        command
    }

    /// Returns a command of a vendor's program other than to work.
    pub(super) fn client_command(&self, vendor: &str, words: &[&str]) -> Command {
        let program = Program::find(vendor).expect("it was found before");
        let argv: Vec<String> =
            program.argv.into_iter().chain(words.iter().map(|word| (*word).to_owned())).collect();
        let mut command = self.own(&argv);
        command.stdin(Stdio::null());
        command
    }

    /// Returns a program that is not ours, in the user's environment.
    fn own(&self, argv: &[String]) -> Command {
        let mut command = self.offline.command(argv);
        command.current_dir(self.stage.project()).env("HOME", self.stage.path("home"));
        command.envs(self.env.iter().cloned()).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    #[must_use = "look at the exit code at least"]
    pub(super) fn volery(&self, arguments: &[&str]) -> Said {
        said(self.command(arguments).stdin(Stdio::null()).output().unwrap())
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
        assert_eq!(tagged(self.stage.tag(id)), Vec::<u32>::new(), "processes are left: {run}");
        let work = self.stage.run_dir(id).join("work");
        let names = fs::read_dir(work).into_iter().flatten().filter_map(Result::ok);
        let secret: Vec<_> =
            names.filter(|entry| entry.file_name().to_string_lossy().starts_with("secret-")).collect();
        assert!(secret.is_empty(), "{secret:?}");
        assert_eq!(self.temporary_entries(), 0, "temporary files are left: {run}");
        self.check_home(run);
    }

    /// Counts what stands in the folder for temporary files.
    pub(super) fn temporary_entries(&self) -> usize {
        fs::read_dir(self.stage.path("temporary")).unwrap().count()
    }

    /// The user has changed a file of their own.
    pub(super) fn user_changed(&mut self, path: &Path) {
        if let Some(content) = self.own_files.get_mut(path) {
            *content = fs::read(path).unwrap();
        }
    }

    /// What the user had is as it was, and what is new is in the folders of the vendors' own.
    fn check_home(&self, run: &Value) {
        let home = self.stage.path("home");
        let now = files_below(&home);
        for (path, content) in &self.own_files {
            let left = now.get(path).map(|content| meaning(content));
            assert_eq!(left, Some(meaning(content)), "{} is not as it was: {run}", path.display());
        }
        let own: Vec<&str> = self.vendors.iter().flat_map(|vendor| state_folders(vendor)).copied().collect();
        let strange = now.keys().filter(|path| {
            let within = path.strip_prefix(&home).unwrap();
            let own = own.iter().any(|folder| within.starts_with(folder))
                || within.to_str().is_some_and(|name| name.starts_with(CLAUDES_DRAFT));
            !self.own_files.contains_key(*path) && !own
        });
        let strange: Vec<_> = strange.collect();
        assert!(strange.is_empty(), "files were made elsewhere: {strange:?}");
    }
}

/// Returns where a vendor's program keeps its own state below the user's home.
fn state_folders(vendor: &str) -> &'static [&'static str] {
    match vendor.strip_prefix("acp-").unwrap_or(vendor) {
        "claude" | "glm" | "claude-kimi" => &[".claude", ".claude.json", ".cache/claude-cli-nodejs"],
        "codex" => &[".codex"],
        "gemini" => &[".gemini"],
        "qwen" => &[".qwen"],
        "copilot" => &[".copilot", ".cache/copilot", ".cache/Microsoft"],
        "opencode" => {
            &[".config/opencode", ".local/share/opencode", ".local/state/opencode", ".cache/opencode"]
        }
        "goose" => &[".config/goose", ".local/share/goose", ".local/state/goose"],
        "kimi" => &[".kimi-code"],
        other => {
            stand_in(other).unwrap_or_else(|| panic!("nobody knows where {other} keeps its state")).state
        }
    }
}

/// Returns what a file says. Some programs write their version into settings that lack it, whoever starts them.
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
                // A file may go while it is looked at: whoever kept it open is gone, its journal is not.
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
        "doctor" if stand_in(backend).is_some() => {
            Some(Cell::NotRun("a stand-in cannot show whether the real program keeps its contract"))
        }
        _ => None,
    }
}

/// Returns the program that a backend drives, by its name in the list of those that are installed.
fn program(backend: &str) -> &str {
    match backend {
        "acp-claude" => "claude-agent-acp",
        "acp-codex" => "codex-acp",
        "glm" | "claude-kimi" => "claude",
        other => other.strip_prefix("acp-").unwrap_or(other),
    }
}

/// Returns what a cell of the table must say: it works, unless the list of what programs cannot do says otherwise.
fn expected(vendor: &str, case: &str) -> &'static str {
    let list = include_str!("expected.txt").lines().filter_map(|line| line.split_once(" | "));
    let mut cells = list.filter_map(|(name, rest)| Some((name, rest.split_once(" | ")?)));
    cells.find_map(|(name, (of, text))| (name == vendor && of == case).then_some(text)).unwrap_or("works")
}

/// Writes a cell of the table that the test command prints at its end, and holds it to what is expected.
pub(super) fn tell(vendor: &Vendor, case: &str, cell: &Cell) {
    let text = match cell {
        Cell::Works => "works".to_owned(),
        Cell::Limited(how) => format!("limited: {how}"),
        Cell::Cannot(why) => format!("cannot: {why}"),
        Cell::NotRun(why) => format!("not run: {why}"),
    };
    assert_eq!(text, expected(vendor.name, case), "{} {case}: mend it, or expected.txt", vendor.name);
    let Some(table) = std::env::var_os("VOLERY_TESTS_TABLE").map(PathBuf::from) else { return };
    let mut file = fs::OpenOptions::new().append(true).create(true).open(table).unwrap();
    let real = if stand_in(vendor.name).is_some() { " (stand-in)" } else { "" };
    writeln!(file, "{}{real}\t{case}\t{text}", vendor.name).unwrap();
}
