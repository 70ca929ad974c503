//! Tokens of the HTTP door: a token identifies its caller. A record holds the digest of the secret and never the
//! secret, which is shown once, when the token is created.

use std::sync::Arc;

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use domain::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::api::EngineError;
use crate::ask::{Ask, OnProgress};
use crate::clock;
use crate::engine::Engine;
use crate::handle::{EngineAccess, EngineHandle};

/// The prefix of every token, so that people and scanners recognise one.
const PREFIX: &str = "volery_";
const NAME_CHARS_MAX: usize = 32;
/// The most tokens at a time: each can have its own sessions and metrics in a server.
const TOKENS_MAX: usize = 100;
const RECORD_BYTES_MAX: u64 = 4 << 10;
/// The name of the token that a server creates if there is none.
const FIRST: &str = "default";
/// A name that stands for every caller from outside.
const EVERYBODY: &str = "main";

/// A token to be created.
#[derive(Debug, Clone)]
pub struct NewToken {
    pub name: String,
    /// Whether its `/metrics` sum up the runs of all callers.
    pub all_metrics: bool,
}

/// A created token.
#[derive(Debug, Serialize)]
pub struct CreatedToken {
    pub name: String,
    /// The only time that the secret is shown.
    pub token: String,
}

/// A token in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenView {
    pub name: String,
    #[serde(rename = "made_by")]
    pub created_by: TokenCreator,
    pub all_metrics: bool,
    pub created_at: String,
}

#[derive(Debug, Serialize)]
pub struct TokenList {
    pub tokens: Vec<TokenView>,
}

/// Who created a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenCreator {
    User,
    /// The first start of a server without tokens.
    Server,
}

/// The holder of a token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TokenHolder {
    pub name: String,
    pub all_metrics: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    version: u32,
    name: String,
    /// The digest of the secret in hexadecimal digits. The secret has 256 random bits, so a slower hash is not
    /// needed.
    sha256: String,
    made_by: TokenCreator,
    #[serde(default)]
    all_metrics: bool,
    created_at: Timestamp,
}

/// Creates a token for a caller.
impl Ask for NewToken {
    type Answer = CreatedToken;

    async fn answer(
        self,
        engine: &Arc<Engine>,
        _progress: OnProgress<'_>,
    ) -> Result<CreatedToken, EngineError> {
        engine.run_blocking(move |engine| engine.make_token(&self, TokenCreator::User)).await
    }
}

/// Creates the first token, if there is none at all.
#[derive(Debug, Clone)]
pub struct CreateFirstToken;

impl Ask for CreateFirstToken {
    type Answer = Option<CreatedToken>;

    async fn answer(
        self,
        engine: &Arc<Engine>,
        _progress: OnProgress<'_>,
    ) -> Result<Option<CreatedToken>, EngineError> {
        let make = |engine: &Engine| {
            if !engine.tokens()?.is_empty() {
                return Ok(None);
            }
            let ask = NewToken { name: FIRST.to_owned(), all_metrics: true };
            engine.make_token(&ask, TokenCreator::Server).map(Some)
        };
        engine.run_blocking(make).await
    }
}

/// Lists the tokens.
#[derive(Debug, Clone)]
pub struct ListTokens;

impl Ask for ListTokens {
    type Answer = TokenList;

    async fn answer(self, engine: &Arc<Engine>, _progress: OnProgress<'_>) -> Result<TokenList, EngineError> {
        engine.run_blocking(|engine| Ok(TokenList { tokens: engine.tokens()? })).await
    }
}

/// Revokes a token: from here on it grants no access.
#[derive(Debug, Clone)]
pub struct RevokeToken {
    pub name: String,
}

impl Ask for RevokeToken {
    type Answer = ();

    async fn answer(self, engine: &Arc<Engine>, _progress: OnProgress<'_>) -> Result<(), EngineError> {
        engine.run_blocking(move |engine| engine.remove_token(&self.name)).await
    }
}

impl EngineHandle {
    /// Returns the holder of a token. Reads the record each time, so that a revoked token is rejected at once.
    pub fn find_token_holder(&self, token: &str) -> Option<TokenHolder> {
        let EngineAccess::Direct(engine) = &self.access else { return None };
        let (name, secret) = token.strip_prefix(PREFIX)?.rsplit_once('_')?;
        check_name(name).ok()?;
        let record = read(&engine.token_path(name))?;
        let fits = record.name == name && is_equal(digest(secret).as_bytes(), record.sha256.as_bytes());
        fits.then_some(TokenHolder { name: record.name, all_metrics: record.all_metrics })
    }

    /// Returns the app with the visibility of a token's holder.
    pub fn for_token_holder(&self, holder: &TokenHolder) -> Result<Self, EngineError> {
        let access = EngineAccess::Direct(self.owner_engine()?.for_token(&holder.name));
        Ok(Self { access, config: self.config.clone() })
    }
}

impl Engine {
    fn make_token(&self, ask: &NewToken, made_by: TokenCreator) -> Result<CreatedToken, EngineError> {
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
            return Err(EngineError::usage(message).hint("volery token revoke NAME takes one back"));
        }
        let secret = domain::hex::hex(&clock::new_secret());
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
            Ok(()) => Ok(CreatedToken { token: format!("{PREFIX}{}_{secret}", ask.name), name: record.name }),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let hint = "choose another name, or take it back first: volery token revoke NAME";
                Err(EngineError::usage(format!("there is a token {} already", ask.name)).hint(hint))
            }
            Err(error) => Err(failed("write", &path, &error)),
        }
    }

    /// Returns the tokens by name. Skips records that cannot be read.
    fn tokens(&self) -> Result<Vec<TokenView>, EngineError> {
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

    fn remove_token(&self, name: &str) -> Result<(), EngineError> {
        check_name(name)?;
        let path = self.token_path(name);
        match fs::remove_file(&path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let hint = "volery token list shows those there are";
                Err(EngineError::not_found(format!("there is no token {name}")).hint(hint))
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
    TokenView { name, created_by: made_by, all_metrics, created_at: created_at.to_string() }
}

/// A name is part of a path, of a header and of records.
fn check_name(name: &str) -> Result<(), EngineError> {
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    let begins_well = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    if !begins_well || !name.chars().all(letters) || name.len() > NAME_CHARS_MAX {
        let message = format!("{name:?} cannot be the name of a token");
        let rule = format!("lower-case letters, digits, - and _, at most {NAME_CHARS_MAX}");
        return Err(EngineError::usage(message).hint(rule));
    }
    if name == EVERYBODY {
        let message = format!("{EVERYBODY} is what every caller is called, so it is no name for one of them");
        return Err(
            EngineError::usage(message).hint("choose the name of the program or person that shall use it")
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

/// Writes a record atomically, and never over another.
fn write_new(path: &Path, record: &Record) -> io::Result<()> {
    let temporary = path.with_extension(format!("{:x}.new", clock::new_tag()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let text = serde_json::to_vec_pretty(record).expect("a plain value");
    let written =
        file.write_all(&text).and_then(|()| file.sync_all()).and_then(|()| fs::hard_link(&temporary, path));
    // If this file stays, it is not taken for a record.
    let _ = fs::remove_file(&temporary);
    written
}

fn digest(secret: &str) -> String {
    domain::hex::hex(&Sha256::digest(secret.as_bytes()))
}

/// Compares all bytes in constant time.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let differs = |sum: u8, (a, b): (&u8, &u8)| std::hint::black_box(sum | (a ^ b));
    one.len() == other.len() && one.iter().zip(other).fold(0, differs) == 0
}

fn failed(action: &str, path: &Path, error: &io::Error) -> EngineError {
    EngineError::usage(format!("could not {action} {}: {error}", path.display()))
}
