//! Tokens of the HTTP door: who shows one is its caller. A record holds the digest of the secret and never the secret,
//! which is told once, when it is made.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use domain::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::engine::Engine;
use super::{App, AppError, Way};
use crate::clock;

/// What every token begins with, so that people and scanners know it when they see one.
const PREFIX: &str = "volery_";
const NAME_CHARS_MAX: usize = 32;
/// The most tokens at a time: each can have a server's sessions and metrics of its own.
const TOKENS_MAX: usize = 100;
const RECORD_BYTES_MAX: u64 = 4 << 10;
/// The name of the token that a server makes where there is none.
const FIRST: &str = "default";
/// What every caller from outside is called as well.
const EVERYBODY: &str = "main";

/// A token to be made.
#[derive(Debug, Clone)]
pub struct NewToken {
    pub name: String,
    /// Whether its `/metrics` sum up the runs of all callers.
    pub all_metrics: bool,
}

/// A token that was made.
#[derive(Debug, Serialize)]
pub struct TokenMade {
    pub name: String,
    /// The only time that it is told.
    pub token: String,
}

/// A token as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenView {
    pub name: String,
    pub made_by: MadeBy,
    pub all_metrics: bool,
    pub created_at: String,
}

#[derive(Debug, Serialize)]
pub struct TokenList {
    pub tokens: Vec<TokenView>,
}

/// Who wanted a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MadeBy {
    User,
    /// The first start of a server that had none.
    Server,
}

/// Whose a token is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TokenHolder {
    pub name: String,
    pub all_metrics: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    version: u32,
    name: String,
    /// Of the secret, in hexadecimal digits. It has 256 random bits, so nothing slower is needed.
    sha256: String,
    made_by: MadeBy,
    #[serde(default)]
    all_metrics: bool,
    created_at: Timestamp,
}

impl App {
    /// Makes a token for a caller.
    pub async fn new_token(&self, ask: NewToken) -> Result<TokenMade, AppError> {
        self.owned()?.off_loop(move |engine| engine.make_token(&ask, MadeBy::User)).await
    }

    /// Makes the first token, if there is none at all.
    pub async fn first_token(&self) -> Result<Option<TokenMade>, AppError> {
        let make = |engine: &Engine| {
            if !engine.tokens()?.is_empty() {
                return Ok(None);
            }
            let ask = NewToken { name: FIRST.to_owned(), all_metrics: true };
            engine.make_token(&ask, MadeBy::Server).map(Some)
        };
        self.owned()?.off_loop(make).await
    }

    pub async fn list_tokens(&self) -> Result<TokenList, AppError> {
        self.owned()?.off_loop(|engine| Ok(TokenList { tokens: engine.tokens()? })).await
    }

    /// Takes a token back: from here on nobody is let in with it.
    pub async fn revoke_token(&self, name: String) -> Result<(), AppError> {
        self.owned()?.off_loop(move |engine| engine.remove_token(&name)).await
    }

    /// Returns whose a token is. Reads the record each time, so that one that was taken back is no good at once.
    pub fn holder_of(&self, token: &str) -> Option<TokenHolder> {
        let Way::Own(engine) = &self.way else { return None };
        let (name, secret) = token.strip_prefix(PREFIX)?.rsplit_once('_')?;
        check_name(name).ok()?;
        let record = read(&engine.token_path(name))?;
        let fits = record.name == name && is_equal(digest(secret).as_bytes(), record.sha256.as_bytes());
        fits.then_some(TokenHolder { name: record.name, all_metrics: record.all_metrics })
    }

    /// Returns the app as the holder of a token sees it.
    pub fn seen_by(&self, holder: &TokenHolder) -> Result<Self, AppError> {
        let way = Way::Own(self.owned()?.for_token(&holder.name));
        Ok(Self { way, config: self.config.clone() })
    }
}

impl Engine {
    fn make_token(&self, ask: &NewToken, made_by: MadeBy) -> Result<TokenMade, AppError> {
        check_name(&ask.name)?;
        let folder = self.home.tokens_dir();
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(failed("make", &folder, &error));
            }
            Ok(()) | Err(_) => {}
        }
        if self.tokens()?.len() >= TOKENS_MAX {
            let message = format!("there are {TOKENS_MAX} tokens already, and more are not kept");
            return Err(AppError::usage(message).hint("volery token revoke NAME takes one back"));
        }
        let secret = hex(&clock::new_secret());
        let record = Record {
            version: 1,
            name: ask.name.clone(),
            sha256: digest(&secret),
            made_by,
            all_metrics: ask.all_metrics,
            created_at: clock::now(),
        };
        let path = self.token_path(&ask.name);
        match write_new(&path, &record) {
            Ok(()) => Ok(TokenMade { token: format!("{PREFIX}{}_{secret}", ask.name), name: record.name }),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let hint = "choose another name, or take it back first: volery token revoke NAME";
                Err(AppError::usage(format!("there is a token {} already", ask.name)).hint(hint))
            }
            Err(error) => Err(failed("write", &path, &error)),
        }
    }

    /// Returns the tokens by name. What cannot be read is no token.
    fn tokens(&self) -> Result<Vec<TokenView>, AppError> {
        let folder = self.home.tokens_dir();
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed("read", &folder, &error)),
        };
        let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
        let records = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
        let mut tokens: Vec<TokenView> = records.filter_map(|path| read(&path)).map(view).collect();
        tokens.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(tokens)
    }

    fn remove_token(&self, name: &str) -> Result<(), AppError> {
        check_name(name)?;
        let path = self.token_path(name);
        match fs::remove_file(&path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let hint = "volery token list shows those there are";
                Err(AppError::not_found(format!("there is no token {name}")).hint(hint))
            }
            Err(error) => Err(failed("remove", &path, &error)),
        }
    }

    fn token_path(&self, name: &str) -> PathBuf {
        self.home.tokens_dir().join(format!("{name}.json"))
    }
}

fn view(record: Record) -> TokenView {
    let Record { name, made_by, all_metrics, created_at, .. } = record;
    TokenView { name, made_by, all_metrics, created_at: created_at.to_string() }
}

/// A name is part of a path, of a header and of records.
fn check_name(name: &str) -> Result<(), AppError> {
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    let begins_well = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    if !begins_well || !name.chars().all(letters) || name.len() > NAME_CHARS_MAX {
        let message = format!("{name:?} cannot be the name of a token");
        let rule = format!("lower-case letters, digits, - and _, at most {NAME_CHARS_MAX}");
        return Err(AppError::usage(message).hint(rule));
    }
    if name == EVERYBODY {
        let message = format!("{EVERYBODY} is what every caller is called, so it is no name for one of them");
        return Err(
            AppError::usage(message).hint("choose the name of the program or person that shall use it")
        );
    }
    Ok(())
}

fn read(path: &Path) -> Option<Record> {
    if fs::symlink_metadata(path).ok()?.len() > RECORD_BYTES_MAX {
        return None;
    }
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Writes a record whole, or not at all, and never over another.
fn write_new(path: &Path, record: &Record) -> io::Result<()> {
    let unborn = path.with_extension(format!("{:x}.new", clock::new_tag()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unborn)?;
    let text = serde_json::to_vec_pretty(record).expect("a plain value");
    let written =
        file.write_all(&text).and_then(|()| file.sync_all()).and_then(|()| fs::hard_link(&unborn, path));
    // What stays is a file that nobody takes for a record.
    let _ = fs::remove_file(&unborn);
    written
}

fn digest(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares all bytes, whichever of them differ, so that the time it takes tells nothing.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let differs = |sum: u8, (a, b): (&u8, &u8)| std::hint::black_box(sum | (a ^ b));
    one.len() == other.len() && one.iter().zip(other).fold(0, differs) == 0
}

fn failed(action: &str, path: &Path, error: &io::Error) -> AppError {
    AppError::usage(format!("could not {action} {}: {error}", path.display()))
}
