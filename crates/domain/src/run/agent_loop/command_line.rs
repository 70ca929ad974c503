//! Splits a command that a model wrote as a text into words, if a shell would do no more than that. A text in which a
//! shell would interpret anything is refused: the words would mean something else than their author expects.

/// The longest command, in bytes. Linux accepts 128 KiB for one argument.
const COMMAND_BYTES_MAX: usize = 128 * 1024;
const WORDS_MAX: usize = 4096;

/// Why a command is not accepted. The texts are for the model that wrote it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandLineError {
    #[error("the command is empty; {HOW_TO_WRITE}")]
    Empty,
    #[error("the command is longer than {COMMAND_BYTES_MAX} bytes or {WORDS_MAX} words")]
    TooLong,
    #[error("the command contains a NUL character")]
    Nul,
    #[error("a quote has no end, or the command ends with a backslash; {HOW_TO_WRITE}")]
    Unbalanced,
    #[error("{0:?} outside of quotes has a meaning only for a shell; {HOW_TO_WRITE}")]
    ShellSyntax(char),
    #[error("'#' begins a comment of a shell; {HOW_TO_WRITE}")]
    Comment,
    #[error("an assignment before the program has a meaning only for a shell; {HOW_TO_WRITE}")]
    Assignment,
    #[error("the program {0:?} contains blanks; {HOW_TO_WRITE}")]
    ProgramWithBlanks(String),
}

const HOW_TO_WRITE: &str = "this tool starts one program without a shell: write the program and each argument as a \
                            word of a list, such as [\"git\", \"log\", \"-1\"]; make one call for each program";

/// Stands for the character before the first one. A line contains none outside of quotes.
const LINE_START: char = '\n';

/// Where a character of a line is.
enum Quoting {
    None,
    Single,
    Double,
}

/// Splits a command line into words. Refuses everything that a shell would interpret.
pub fn split_command_line(line: &str) -> Result<Vec<String>, CommandLineError> {
    // A line break at the end is no second command.
    let line = line.trim_end_matches(['\n', '\r']).trim_start_matches([' ', '\t']);
    if line.len() > COMMAND_BYTES_MAX {
        return Err(CommandLineError::TooLong);
    }
    if begins_with_assignment(line) {
        return Err(CommandLineError::Assignment);
    }
    refuse_shell_syntax(line)?;
    check_words(shlex::split(line).ok_or(CommandLineError::Unbalanced)?)
}

/// Checks a command that is already a list of words.
pub(super) fn check_words(words: Vec<String>) -> Result<Vec<String>, CommandLineError> {
    let bytes: usize = words.iter().map(|word| word.len() + 1).sum();
    if words.len() > WORDS_MAX || bytes > COMMAND_BYTES_MAX {
        return Err(CommandLineError::TooLong);
    }
    if words.iter().any(|word| word.contains('\0')) {
        return Err(CommandLineError::Nul);
    }
    match words.first() {
        None => Err(CommandLineError::Empty),
        Some(program) if program.trim().is_empty() => Err(CommandLineError::Empty),
        // Models that think of a shell put a whole line into the first word.
        Some(program) if program.contains(char::is_whitespace) => {
            Err(CommandLineError::ProgramWithBlanks(program.chars().take(100).collect()))
        }
        Some(_) => Ok(words),
    }
}

/// Reads the quotes of a line as `shlex` does, and refuses what a shell would interpret.
fn refuse_shell_syntax(line: &str) -> Result<(), CommandLineError> {
    let mut quoting = Quoting::None;
    let mut previous = LINE_START;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        if letter == '\0' {
            return Err(CommandLineError::Nul);
        }
        match (&quoting, letter) {
            (Quoting::Single, '\'') | (Quoting::Double, '"') => quoting = Quoting::None,
            (Quoting::Single, _) => {}
            (Quoting::Double, '$' | '`') => return Err(CommandLineError::ShellSyntax(letter)),
            (Quoting::Double | Quoting::None, '\\') => match letters.next() {
                None => return Err(CommandLineError::Unbalanced),
                Some('\n') => return Err(CommandLineError::ShellSyntax('\n')),
                Some(_) => {}
            },
            (Quoting::Double, _) => {}
            (Quoting::None, '\'') => quoting = Quoting::Single,
            (Quoting::None, '"') => quoting = Quoting::Double,
            (Quoting::None, '#') if is_word_start(previous) => return Err(CommandLineError::Comment),
            (Quoting::None, letter) if is_shell_syntax(letter, previous) => {
                return Err(CommandLineError::ShellSyntax(letter));
            }
            (Quoting::None, _) => {}
        }
        previous = letter;
    }
    match quoting {
        Quoting::None => Ok(()),
        Quoting::Single | Quoting::Double => Err(CommandLineError::Unbalanced),
    }
}

fn is_word_start(previous: char) -> bool {
    matches!(previous, LINE_START | ' ' | '\t')
}

fn is_shell_syntax(letter: char, previous: char) -> bool {
    match letter {
        ';' | '|' | '&' | '<' | '>' | '$' | '`' | '(' | ')' | '{' | '}' | '*' | '?' | '[' => true,
        // `HEAD~1` and `a!b` are plain words.
        '~' => is_word_start(previous) || matches!(previous, '=' | ':'),
        '!' => previous == LINE_START,
        '\t' => false,
        letter => letter.is_control(),
    }
}

/// Returns whether the first word is `NAME=value` or `NAME+=value`.
fn begins_with_assignment(line: &str) -> bool {
    let is_in_name = |letter: char| letter == '_' || letter.is_ascii_alphanumeric();
    let rest = line.trim_start_matches(is_in_name);
    let begins_like_name = line.starts_with(|letter: char| is_in_name(letter) && !letter.is_ascii_digit());
    begins_like_name && (rest.starts_with('=') || rest.starts_with("+="))
}
