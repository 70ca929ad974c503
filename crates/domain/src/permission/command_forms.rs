//! The forms in which a shell line may name a command that a rule restricts: `rm\tx`, `"rm" x`, `/bin/rm x`,
//! `{ rm x; }`, `A=1 env rm x` and `sh -c 'rm x'` all start `rm`.
//!
//! This reads no shell grammar. It takes away what commonly surrounds a command, so that a restricting rule matches too
//! often rather than too rarely. A command that is computed (`$x`, `eval`, a script) cannot be recognised by any text
//! rule; only a kernel sandbox stops it.

/// Characters that end one command of a line and begin the next.
const SEPARATORS: [char; 10] = [';', '|', '&', '`', '$', '(', ')', '<', '>', '\n'];

/// Words of the shell and programs that start the command that follows them.
const PREFIXES: [&str; 30] = [
    "{", "}", "!", "if", "then", "elif", "else", "while", "until", "do", "time", "builtin", "command",
    "exec", "eval", "env", "sudo", "doas", "nohup", "nice", "ionice", "setsid", "stdbuf", "timeout", "xargs",
    "busybox", "sh", "bash", "dash", "zsh",
];

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

/// Tells whether a word comes before the command: a prefix, one of its options or numbers, or an assignment.
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
