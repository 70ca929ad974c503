//! The forms in which a shell line may contain a command that a rule restricts: `rm\tx`, `"rm" x`, `/bin/rm x`, `{ rm
//! x; }`, `A=1 env rm x` and `sh -c 'rm x'` all start `rm`.
//!
//! This does not parse shell grammar. It strips common prefixes and quotes from a command, so that a restricting rule
//! matches too often rather than too rarely. No text rule can recognise a computed command (`$x`, `eval`, a script);
//! only a kernel sandbox stops it.

/// Characters that end one command of a line and begin the next.
const SEPARATORS: [char; 10] = [';', '|', '&', '`', '$', '(', ')', '<', '>', '\n'];

/// Words of the shell and programs that start the command that follows them.
const PREFIXES: [&str; 30] = [
    "{", "}", "!", "if", "then", "elif", "else", "while", "until", "do", "time", "builtin", "command",
    "exec", "eval", "env", "sudo", "doas", "nohup", "nice", "ionice", "setsid", "stdbuf", "timeout", "xargs",
    "busybox", "sh", "bash", "dash", "zsh",
];

/// Shell words that start another command, or change how the shell reads or finds the commands after them.
const SHELL_WORDS: [&str; 57] = [
    "!",
    "{",
    "}",
    "[[",
    ".",
    ":",
    "alias",
    "autoload",
    "bind",
    "builtin",
    "case",
    "cd",
    "command",
    "complete",
    "coproc",
    "declare",
    "disown",
    "do",
    "done",
    "elif",
    "else",
    "emulate",
    "enable",
    "esac",
    "eval",
    "exec",
    "export",
    "fc",
    "fi",
    "for",
    "function",
    "getopts",
    "hash",
    "if",
    "let",
    "local",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "read",
    "readarray",
    "readonly",
    "select",
    "set",
    "setopt",
    "shopt",
    "source",
    "then",
    "time",
    "trap",
    "typeset",
    "ulimit",
    "umask",
    "unset",
    "until",
    "while",
];

/// Returns whether a command is a shell word of `SHELL_WORDS` or begins with an assignment. Such a command can change the effect
/// of the commands after it in the same line.
pub(super) fn changes_shell(words: &[String]) -> bool {
    words.first().is_none_or(|word| SHELL_WORDS.contains(&word.as_str()) || is_assignment(word))
}

/// Returns each command of a line, without quotes, escapes, extra blanks, prefixes and the program's folder.
pub(super) fn command_forms(line: &str) -> Vec<String> {
    let unquoted: String =
        line.replace("\\\n", " ").chars().filter(|c| !matches!(c, '"' | '\'' | '\\')).collect();
    let mut forms = Vec::new();
    for part in unquoted.split(SEPARATORS) {
        let words: Vec<&str> = part.split_whitespace().collect();
        let start = words.iter().position(|word| !is_prefix(word)).unwrap_or(words.len());
        let Some((program, arguments)) = words[start..].split_first() else { continue };
        let name = program.rsplit('/').next().unwrap_or(program);
        for program in [program, &name] {
            let form = std::iter::once(program).chain(arguments).copied().collect::<Vec<_>>().join(" ");
            if !forms.contains(&form) {
                forms.push(form);
            }
        }
    }
    forms
}

/// The forms of an argument vector.
#[derive(Debug, Default)]
pub(crate) struct ArgvForms<'a> {
    /// Commands whose words are known.
    pub(crate) words: Vec<Vec<&'a str>>,
    /// Commands that another program may read from the words, such as the line after `sh -c`.
    pub(crate) lines: Vec<String>,
}

/// Returns each command that an argument vector may start, without prefixes and the program's folder. Its words are not
/// split: only a program that starts another one, such as a shell, may do that.
pub(crate) fn argv_forms(argv: &[String]) -> ArgvForms<'_> {
    let words: Vec<&str> = argv.iter().map(String::as_str).collect();
    let start = words.iter().position(|word| !is_prefix(word)).unwrap_or(words.len());
    let mut forms = ArgvForms { words: vec![words.clone()], lines: Vec::new() };
    for command in [&words[..], &words[start..]] {
        let Some((program, arguments)) = command.split_first() else { continue };
        let name = program.rsplit('/').next().unwrap_or(program);
        forms.words.push(std::iter::once(name).chain(arguments.iter().copied()).collect());
    }
    if start > 0 {
        forms.lines = command_forms(&words[start..].join(" "));
    }
    forms
}

/// Returns whether a word precedes the command: a prefix, one of its options or numbers, or an assignment.
fn is_prefix(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    let number = word.starts_with(|c: char| c.is_ascii_digit());
    PREFIXES.contains(&name) || word.starts_with('-') || number || is_assignment(word)
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    !name.is_empty() && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
}
