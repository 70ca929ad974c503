//! Commands that only read: a short list of programs, each with the options that neither write nor start another program.
//! Every level allows them, because every level allows reading.
//!
//! The reader understands far less than a shell does and refuses what it does not understand: a command that it refuses
//! is an ordinary command, which needs a rule or an answer. Git follows the configuration of the repository, as it does
//! for a person, so an agent may not choose another repository by `cd` or `git -C`.

/// Programs without an option that writes or starts a program.
const READING_PROGRAMS: [&str; 6] = ["ls", "cat", "head", "tail", "wc", "grep"];

const GIT_COMMANDS: [&str; 6] = ["log", "show", "diff", "status", "blame", "ls-files"];

/// Long options of the git commands. Abbreviations are not in the list, since `--outp` is `--output`. Deliberately
/// absent: `output`, `ext-diff`, `textconv`, `show-signature`, `no-index`, `paginate`.
const GIT_OPTIONS: &[&str] = &[
    "abbrev",
    "abbrev-commit",
    "ahead-behind",
    "all",
    "all-match",
    "ancestry-path",
    "author",
    "author-date-order",
    "before",
    "boundary",
    "branch",
    "branches",
    "cached",
    "cc",
    "check",
    "cherry",
    "cherry-mark",
    "cherry-pick",
    "color",
    "color-moved",
    "color-words",
    "column",
    "committer",
    "cumulative",
    "date",
    "date-order",
    "debug",
    "decorate",
    "deduplicate",
    "deleted",
    "dense",
    "diff-algorithm",
    "diff-filter",
    "directory",
    "dirstat",
    "encoding",
    "eol",
    "error-unmatch",
    "exclude",
    "exclude-standard",
    "exit-code",
    "extended-regexp",
    "find-copies",
    "find-copies-harder",
    "find-renames",
    "first-parent",
    "fixed-strings",
    "follow",
    "format",
    "full-history",
    "full-index",
    "full-name",
    "function-context",
    "glob",
    "graph",
    "grep",
    "histogram",
    "ignore-all-space",
    "ignore-blank-lines",
    "ignore-cr-at-eol",
    "ignore-rev",
    "ignore-revs-file",
    "ignore-space-at-eol",
    "ignore-space-change",
    "ignore-submodules",
    "ignored",
    "incremental",
    "inter-hunk-context",
    "invert-grep",
    "killed",
    "left-right",
    "line-porcelain",
    "long",
    "max-count",
    "max-parents",
    "merge-base",
    "merges",
    "min-parents",
    "minimal",
    "modified",
    "name-only",
    "name-status",
    "no-abbrev",
    "no-abbrev-commit",
    "no-ahead-behind",
    "no-color",
    "no-commit-id",
    "no-decorate",
    "no-empty-directory",
    "no-ext-diff",
    "no-merges",
    "no-notes",
    "no-patch",
    "no-prefix",
    "no-relative",
    "no-renames",
    "no-textconv",
    "no-walk",
    "notes",
    "numstat",
    "oneline",
    "others",
    "parents",
    "patch",
    "patch-with-raw",
    "patch-with-stat",
    "patience",
    "perl-regexp",
    "pickaxe-all",
    "pickaxe-regex",
    "porcelain",
    "pretty",
    "quiet",
    "raw",
    "recurse-submodules",
    "regexp-ignore-case",
    "relative",
    "relative-date",
    "remotes",
    "renames",
    "reverse",
    "root",
    "score-debug",
    "short",
    "shortstat",
    "show-email",
    "show-name",
    "show-number",
    "show-stash",
    "show-stats",
    "simplify-by-decoration",
    "since",
    "skip",
    "source",
    "sparse",
    "src-prefix",
    "dst-prefix",
    "stage",
    "staged",
    "stat",
    "submodule",
    "summary",
    "tags",
    "text",
    "topo-order",
    "unified",
    "unmerged",
    "until",
    "untracked-files",
    "verbose",
    "walk-reflogs",
    "with-tree",
    "word-diff",
    "word-diff-regex",
];

/// Options of `find` with one dash. Deliberately absent: those that execute, delete, or write a file.
const FIND_OPTIONS: &[&str] = &[
    "H",
    "L",
    "P",
    "a",
    "amin",
    "and",
    "atime",
    "cmin",
    "ctime",
    "daystart",
    "depth",
    "empty",
    "executable",
    "false",
    "follow",
    "group",
    "iname",
    "inum",
    "ipath",
    "iregex",
    "links",
    "ls",
    "maxdepth",
    "mindepth",
    "mmin",
    "mount",
    "mtime",
    "name",
    "newer",
    "nogroup",
    "noleaf",
    "not",
    "nouser",
    "o",
    "or",
    "path",
    "perm",
    "print",
    "print0",
    "printf",
    "prune",
    "quit",
    "readable",
    "regex",
    "regextype",
    "samefile",
    "size",
    "true",
    "type",
    "user",
    "wholename",
    "writable",
    "xdev",
    "xtype",
];

/// Long options of `rg`. Deliberately absent: `pre` and `hostname-bin`, which start programs, and `search-zip`.
const RG_OPTIONS: &[&str] = &[
    "after-context",
    "before-context",
    "binary",
    "byte-offset",
    "case-sensitive",
    "color",
    "column",
    "context",
    "context-separator",
    "count",
    "count-matches",
    "crlf",
    "encoding",
    "files",
    "files-with-matches",
    "files-without-match",
    "fixed-strings",
    "follow",
    "glob",
    "glob-case-insensitive",
    "heading",
    "hidden",
    "iglob",
    "ignore-case",
    "invert-match",
    "json",
    "line-number",
    "line-regexp",
    "max-columns",
    "max-columns-preview",
    "max-count",
    "max-depth",
    "max-filesize",
    "multiline",
    "multiline-dotall",
    "no-filename",
    "no-heading",
    "no-ignore",
    "no-ignore-vcs",
    "no-line-number",
    "no-messages",
    "null",
    "one-file-system",
    "only-matching",
    "passthru",
    "pcre2",
    "quiet",
    "regexp",
    "replace",
    "smart-case",
    "sort",
    "sortr",
    "stats",
    "text",
    "trim",
    "type",
    "type-list",
    "type-not",
    "unrestricted",
    "vimgrep",
    "with-filename",
    "word-regexp",
];

/// Returns whether every command of a shell line only reads.
pub(super) fn line_only_reads(line: &str) -> bool {
    parse_line(line).is_some_and(|commands| commands.iter().all(|command| words_only_read(&command.words)))
}

/// Returns whether a program with its arguments only reads, also if another program joins the words for a shell.
pub(super) fn argv_only_reads(argv: &[String]) -> bool {
    let is_literal = |word: &String| {
        parse_line(word)
            .is_some_and(|commands| matches!(&commands[..], [only] if only.words == [word.as_str()]))
    };
    argv.iter().all(is_literal) && words_only_read(argv)
}

fn words_only_read(words: &[String]) -> bool {
    let Some((program, arguments)) = words.split_first() else { return false };
    match program.as_str() {
        "git" => git_only_reads(arguments),
        "find" => arguments.iter().all(|word| is_find_argument(word)),
        "rg" => before_separator(arguments).all(is_rg_argument),
        program => READING_PROGRAMS.contains(&program),
    }
}

fn git_only_reads(arguments: &[String]) -> bool {
    let arguments = match arguments {
        [pager, rest @ ..] if pager == "--no-pager" => rest,
        arguments => arguments,
    };
    let Some((command, options)) = arguments.split_first() else { return false };
    let is_allowed = |word: &str| match word.strip_prefix("--") {
        // `%G` in a format starts GnuPG.
        _ if word.contains("%G") => false,
        Some(long) => is_listed(long, GIT_OPTIONS),
        // No short option of these commands writes or starts a program.
        None => true,
    };
    GIT_COMMANDS.contains(&command.as_str()) && before_separator(options).all(is_allowed)
}

fn is_find_argument(word: &str) -> bool {
    let Some(option) = word.strip_prefix('-') else { return true };
    // As in `-mtime -7` and `-size -10k`.
    let is_number = option.starts_with(|first: char| first.is_ascii_digit())
        && option.chars().all(|char| char.is_ascii_alphanumeric());
    is_number || FIND_OPTIONS.contains(&option) || option.starts_with("newer") && option.len() == 7
}

fn is_rg_argument(word: &str) -> bool {
    match word.strip_prefix("--") {
        Some(long) => is_listed(long, RG_OPTIONS),
        // `-z` starts a program that unpacks.
        None => !word.starts_with('-') || !word.contains('z'),
    }
}

fn is_listed(option: &str, options: &[&str]) -> bool {
    let name = option.split_once('=').map_or(option, |(name, _)| name);
    options.contains(&name)
}

/// Returns the words before `--`, after which no word is an option.
fn before_separator(words: &[String]) -> impl Iterator<Item = &str> {
    words.iter().map(String::as_str).take_while(|word| *word != "--")
}

/// A command of a line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LineCommand {
    pub(super) words: Vec<String>,
    /// A pipe connects its input to the output of the command before it.
    pub(super) reads_pipe: bool,
}

/// Splits a line into commands and their words; `None` if a shell could read anything in it in another way.
///
/// Commands are separated by `|`, `||`, `&&` and `;`. Patterns (`*`) are refused outside of quotes, because the name of a
/// file can be an option.
pub(super) fn parse_line(line: &str) -> Option<Vec<LineCommand>> {
    if line.contains(char::is_control) {
        return None;
    }
    let mut commands = vec![LineCommand::default()];
    let mut word: Option<String> = None;
    let mut rest = line.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            ' ' | '|' | '&' | ';' => {
                commands.last_mut()?.words.extend(word.take());
                let is_double = character != ' ' && character != ';' && rest.next_if_eq(&character).is_some();
                match character {
                    ' ' => {}
                    '&' if !is_double => return None,
                    _ => commands
                        .push(LineCommand { words: Vec::new(), reads_pipe: character == '|' && !is_double }),
                }
            }
            '\'' => word.get_or_insert_default().push_str(&quoted(&mut rest, '\'', |_| true)?),
            '"' => {
                let is_literal = |char| !matches!(char, '$' | '`' | '\\' | '!');
                word.get_or_insert_default().push_str(&quoted(&mut rest, '"', is_literal)?);
            }
            // As in `HEAD@{1}`.
            '{' if word.as_ref().is_some_and(|word| word.ends_with('@')) => {
                let inner = quoted(&mut rest, '}', |char| char.is_ascii_alphanumeric() || char == '-')?;
                word.get_or_insert_default().push_str(&format!("{{{inner}}}"));
            }
            // Negates a condition of `find`; as the first word it would negate the command, which is not in the list.
            '!' if word.is_none() && matches!(rest.peek(), None | Some(' ')) => word = Some("!".to_owned()),
            // zsh replaces `=name` by the path of a program.
            '=' if word.is_none() => return None,
            character if character.is_alphanumeric() || "-_./,:=@+%^~".contains(character) => {
                word.get_or_insert_default().push(character);
            }
            _ => return None,
        }
    }
    commands.last_mut()?.words.extend(word);
    commands.iter().all(|command| !command.words.is_empty()).then_some(commands)
}

/// Reads a quoted text up to its end.
fn quoted(
    rest: &mut impl Iterator<Item = char>,
    end: char,
    is_literal: impl Fn(char) -> bool,
) -> Option<String> {
    let mut text = String::new();
    for character in rest {
        match character {
            character if character == end => return Some(text),
            character if is_literal(character) => text.push(character),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn usual_reading_commands_only_read() {
        for line in [
            "git log",
            "git log --oneline -5 --stat",
            "git --no-pager log -p -- src/main.rs",
            "git show HEAD~1:README.md",
            "git show 'HEAD@{1}' HEAD@{1} HEAD^",
            "git diff --stat main...HEAD",
            "git log --format='%h %s' --since=\"2 weeks ago\"",
            "git status --short",
            "git blame -L 10,20 a.rs",
            "git ls-files '*.rs'",
            "ls -la ~/src",
            "cat a.txt b.txt | head -n 5",
            "tail -20 log.txt && wc -l log.txt",
            "grep -rn 'TODO|FIXME' . || ls",
            "rg --json -g '*.rs' \"fn main\"",
            "rg -n -- --pre",
            "find . -name '*.rs' -not -path './target/*' -mtime -7",
            "find . ! -type d '(' -name a -o -name b ')'",
        ] {
            assert!(line_only_reads(line), "{line}");
        }
    }

    #[test]
    fn a_command_that_could_write_or_start_a_program_is_refused() {
        for line in [
            "",
            "git",
            "git push",
            "git -C /tmp/x status",
            "git -c core.pager=x log",
            "git -p log",
            "git --paginate log",
            "git --exec-path=/tmp/x log",
            "git log --output=x",
            "git log --outp=x",
            "git diff --ext-diff",
            "git log --ext-d",
            "git show --textconv",
            "git log --show-signature",
            "git log --format=%G?",
            "git grep -O x",
            "rg --pre cat x",
            "rg --pre=cat x",
            "rg --hostname-bin x y",
            "rg -z x",
            "find . -delete",
            "find . -exec rm {} +",
            "find . -execdir rm x",
            "find . -ok rm x",
            "find . -fprint x",
            "find . -fprintf x y",
            "find . -fls x",
            "find . -{delete,print}",
            "find *",
            "ls > x",
            "ls >x",
            "cat < x",
            "ls & rm x",
            "ls |& rm x",
            "ls; rm x",
            "ls;",
            "ls && ",
            "ls | sh",
            "ls $(rm x)",
            "ls `rm x`",
            "ls \"$(rm x)\"",
            "ls \"`rm x`\"",
            "ls $HOME",
            "ls\nrm x",
            "ls\rrm x",
            "ls 'a",
            "ls \\",
            "PAGER=x git log",
            "cd x && git status",
            "/tmp/git log",
            "./ls",
            "env ls",
            "sudo ls",
            "! ls",
            "=ls x",
            "ls #x",
            "(ls)",
            "{ ls; }",
            "cat <(rm x)",
        ] {
            assert!(!line_only_reads(line), "{line}");
        }
    }

    #[test]
    fn words_of_a_vector_are_not_read_again() {
        let reads = |words: &[&str]| {
            argv_only_reads(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert!(reads(&["git", "log", "--oneline"]));
        for words in [&["git", "log; rm x"][..], &["ls", "$(rm x)"], &["git log"], &["sh", "-c", "ls"], &[]] {
            assert!(!reads(words), "{words:?}");
        }
    }

    const WORDS: [&str; 13] = ["ls", "cat", "find", "wc", "rm", "sh", "!", "a", "|", "||", "&&", ";", "&"];

    fn arguments() -> impl Strategy<Value = Vec<String>> {
        let argument = prop_oneof!["[a-z./]{1,8}", "--[a-z-]{2,12}", "-[a-z]{1,3}", "'[ -&(-~]{0,8}'"];
        prop::collection::vec(argument, 0..4)
    }

    /// A line of a program that has harmful options, and one of these.
    fn line_and_harmful_word() -> impl Strategy<Value = (String, String)> {
        let programs = prop_oneof![
            (
                prop_oneof![Just("git log"), Just("git show HEAD"), Just("git diff"), Just("git blame")],
                prop_oneof![
                    "--outp?u?t?(=[a-z]{1,4})?",
                    "--ext-d?i?f?f?",
                    "--textco?n?v?",
                    "--show-si?g?n?a?t?u?r?e?",
                    "--(paginate|no-index|exec-path=x|git-dir=x|work-tree=x)",
                    "--format=[a-z]{0,3}%G[A-Z?]",
                ],
            ),
            (
                Just("rg x"),
                prop_oneof![
                    "--pre(=[a-z]{1,4})?",
                    "--hostname-bin",
                    "--search-zip",
                    "-[a-y]{0,2}z[a-z]{0,2}"
                ]
            ),
            (
                Just("find ."),
                prop_oneof!["-(exec|ok)(dir)?", "-delete", "-fprint0?", "-fprintf", "-fls", "--[a-z]{1,5}"]
            ),
        ];
        (programs, arguments()).prop_map(|((program, harmful), arguments)| {
            let words: Vec<String> = std::iter::once(program.to_owned()).chain(arguments).collect();
            (words.join(" "), harmful)
        })
    }

    proptest! {
        #[test]
        fn no_line_has_a_harmful_option((line, harmful) in line_and_harmful_word()) {
            let whole = format!("{line} {harmful}");
            prop_assert!(!line_only_reads(&whole), "{}", whole);
        }

        #[test]
        fn no_line_has_an_active_character_outside_of_quotes(
            active in "[$`\\\\<>(){}*?\\[\\]#&\n\r\x00\"']",
            head in "[a-z ]{0,6}",
            tail in "[a-z ]{0,6}",
        ) {
            let line = format!("ls {head}{active}{tail}");
            prop_assert!(!line_only_reads(&line), "{}", line);
        }

        #[test]
        fn every_command_of_an_accepted_line_is_in_the_list(
            words in prop::collection::vec(prop::sample::select(&WORDS[..]), 1..8),
        ) {
            let line = words.join(" ");
            if line_only_reads(&line) {
                for command in words.split(|word| ["|", "||", "&&", ";"].contains(word)) {
                    prop_assert!(["ls", "cat", "find", "wc"].contains(&command[0]), "{}", line);
                }
            }
        }

        #[test]
        fn any_text_is_judged(line in any::<String>()) {
            line_only_reads(&line);
        }
    }
}
