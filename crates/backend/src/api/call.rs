//! The process that asks a model: reads a job, posts the question, and passes the answer on as it comes. It is started by
//! a worker like any agent, so that whatever goes wrong with a connection or with TLS goes wrong in here alone. Its key
//! comes by its environment and leaves it in a header, nowhere else.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use domain::run::ModelError;
use serde_json::Value;

use super::address::{self, Address};
use super::failure::{self, Trouble};
use super::job::Job;
use super::sse::{Body, Part};
use super::wire::Heard;
use super::word::{Stop, Tokens, Word};

/// How the program is told to be this process.
pub const COMMAND: &str = "__api";
/// The longest job: a prompt and a system prompt, escaped.
const JOB_BYTES_MAX: u64 = 16 << 20;
/// The most of an answer that is taken in.
const BODY_BYTES_MAX: u64 = 64 << 20;
/// The most of a refusal that is looked at.
const REFUSAL_BYTES_MAX: u64 = 64 << 10;
const CONNECT_MAX: Duration = Duration::from_secs(30);
const USER_AGENT: &str = concat!("volery/", env!("CARGO_PKG_VERSION"));

/// Carries out the job on standard input. `value` returns what a variable of the environment holds.
pub fn main(value: &dyn Fn(&str) -> Option<OsString>) -> ExitCode {
    let mut told = Vec::new();
    let job =
        io::stdin().lock().take(JOB_BYTES_MAX).read_to_end(&mut told).map_err(|error| error.to_string());
    let job = job.and_then(|_| serde_json::from_slice::<Job>(&told).map_err(|error| error.to_string()));
    let text = |name: &str| value(name).and_then(|value| value.into_string().ok());
    let mut out = io::stdout().lock();
    let said = match job {
        Ok(job) => carry_out(&job, &text, &mut out),
        Err(error) => {
            let message = format!("what to ask could not be read: {error}");
            say(&mut out, &Word::Failed { error: ModelError::Other, message })
        }
    };
    // Nobody listens any more: the worker is gone, and so is this process in a moment.
    if said.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn say(out: &mut dyn Write, word: &Word) -> io::Result<()> {
    let mut line = serde_json::to_vec(word)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// What came of asking once.
enum Asked {
    Ended(Stop),
    /// With what was wrong, and whether anything was said before.
    Failed(Trouble, Begun),
    /// What was said could not be passed on.
    Unheard(io::Error),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Begun {
    Yes,
    No,
}

pub(super) fn carry_out(
    job: &Job,
    value: &dyn Fn(&str) -> Option<String>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let begun = Instant::now();
    let time = Duration::from_millis(job.timeout_ms);
    let key = job.keys.iter().find_map(|name| value(name)).map(|key| key.trim().to_owned());
    let failed = |trouble: Trouble| {
        let message = key
            .as_deref()
            .filter(|key| key.len() >= 8)
            .map_or(trouble.message.clone(), |key| trouble.message.replace(key, "[redacted]"));
        Word::Failed { error: trouble.error, message }
    };
    if key.is_none() && !job.keys.is_empty() {
        let message = format!("there is no key for {}: set {}", job.service, job.keys.join(" or "));
        return say(out, &failed(Trouble::new(ModelError::Denied, message)));
    }
    let written = job.address_variable.as_ref().and_then(|name| value(name));
    let written = written.as_deref().unwrap_or(&job.address);
    let address = match address::parse(written, key.is_some()) {
        Ok(address) => address,
        Err(message) => return say(out, &failed(Trouble::new(ModelError::Unreachable, message))),
    };
    let agent = match agent(&address, value) {
        Ok(agent) => agent,
        Err(message) => return say(out, &failed(Trouble::new(ModelError::Unreachable, message))),
    };
    let mut retry = 0;
    loop {
        let trouble = match ask(job, &agent, &address, key.as_deref(), out) {
            Asked::Ended(stop) => return say(out, &Word::Ended { stop }),
            Asked::Unheard(error) => return Err(error),
            Asked::Failed(trouble, Begun::Yes) => return say(out, &failed(trouble)),
            Asked::Failed(trouble, Begun::No) => trouble,
        };
        let wait = Duration::from_secs(trouble.retry_after_s.unwrap_or(1 << retry));
        let again = trouble.error.is_shortage() && !trouble.lasting && retry < job.retries;
        if !again || begun.elapsed() + wait >= time {
            return say(out, &failed(trouble));
        }
        let message =
            format!("{} has no room ({}); asked again in {} s", job.service, trouble.message, wait.as_secs());
        say(out, &Word::Warned { message })?;
        std::thread::sleep(wait);
        retry += 1;
    }
}

/// Makes the client: no redirect is followed, since the key is for one host only.
fn agent(address: &Address, value: &dyn Fn(&str) -> Option<String>) -> Result<ureq::Agent, String> {
    let mut config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_connect(Some(CONNECT_MAX))
        .user_agent(USER_AGENT);
    if address.is_local {
        config = config.proxy(None);
    }
    if address.is_encrypted {
        config = config.tls_config(address::tls(value)?);
    }
    Ok(config.build().new_agent())
}

/// Asks once, and passes on what is said.
fn ask(job: &Job, agent: &ureq::Agent, address: &Address, key: Option<&str>, out: &mut dyn Write) -> Asked {
    let posted = job.wire.post(&job.question, job.habits);
    let mut request = agent.post(address.with(&posted.path)).header("content-type", "application/json");
    for (name, value) in posted.headers {
        request = request.header(name, value);
    }
    if let Some(key) = key {
        let (name, value) = job.wire.key_header(key);
        request = request.header(name, value);
    }
    let mut response = match request.send(posted.body.to_string()) {
        Ok(response) => response,
        Err(error) => return Asked::Failed(unreachable(&error), Begun::No),
    };
    let status = response.status().as_u16();
    if response.status().is_redirection() {
        let message =
            format!("status {status}: the service is elsewhere, and the key goes to no other address");
        return Asked::Failed(Trouble::new(ModelError::Unreachable, message), Begun::No);
    }
    if !response.status().is_success() {
        let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let retry_after = retry_after.map(ToOwned::to_owned);
        let mut body = Vec::new();
        // What came before an error says enough.
        let _ = response.body_mut().as_reader().take(REFUSAL_BYTES_MAX).read_to_end(&mut body);
        return Asked::Failed(failure::refused(status, retry_after.as_deref(), &body), Begun::No);
    }
    let reader = response.body_mut().with_config().limit(BODY_BYTES_MAX).reader();
    let mut listener = Listener {
        job,
        out,
        heard: Heard::default(),
        told: Tokens::default(),
        model: None,
        begun: Begun::No,
    };
    match listener.listen(reader) {
        Ok(stop) => Asked::Ended(stop),
        Err(Broken::Unheard(error)) => Asked::Unheard(error),
        Err(Broken::Trouble(trouble)) => Asked::Failed(trouble, listener.begun),
    }
}

enum Broken {
    Trouble(Trouble),
    Unheard(io::Error),
}

impl From<Trouble> for Broken {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

/// Follows one answer.
struct Listener<'a> {
    job: &'a Job,
    out: &'a mut dyn Write,
    heard: Heard,
    told: Tokens,
    model: Option<String>,
    begun: Begun,
}

impl Listener<'_> {
    fn listen(&mut self, mut reader: impl Read) -> Result<Stop, Broken> {
        let mut body = Body::default();
        let mut piece = vec![0; 16 << 10];
        let mut lost = None;
        while !self.heard.over {
            match reader.read(&mut piece) {
                Ok(0) => break,
                Ok(bytes) => {
                    for part in body.feed(&piece[..bytes]) {
                        self.take(part)?;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    lost = Some(error.to_string());
                    break;
                }
            }
        }
        let (last, document) = body.finish();
        // Half an event from a connection that broke is none.
        if let (Some(part), None) = (last, &lost) {
            self.take(part)?;
        }
        if let Some(document) = document {
            self.take_document(&document)?;
        }
        match (self.heard.stop.take(), self.heard.over, lost) {
            (Some(stop), _, _) => Ok(stop),
            (None, true, _) => Ok(Stop::Whole),
            (None, false, lost) => {
                let why = lost.map(|error| format!(": {error}")).unwrap_or_default();
                let message = format!("the stream ended before the answer did{why}");
                Err(Trouble::new(ModelError::Other, message).into())
            }
        }
    }

    fn take(&mut self, part: Part) -> Result<(), Broken> {
        let event = match part {
            Part::Event(event) => event,
            Part::TooLong => {
                return Err(Trouble::new(ModelError::Other, "an event of the stream is too long").into());
            }
        };
        if event == b"[DONE]" {
            self.heard.over = true;
            return Ok(());
        }
        let Ok(event) = serde_json::from_slice::<Value>(&event) else {
            return Err(Trouble::new(ModelError::Other, "an event of the stream is no JSON").into());
        };
        let text = self.job.wire.hear(&event, &mut self.heard);
        self.pass_on(text)
    }

    fn take_document(&mut self, document: &[u8]) -> Result<(), Broken> {
        let Ok(document) = serde_json::from_slice::<Value>(document) else {
            let begins = String::from_utf8_lossy(document);
            let begins = domain::size::head(begins.trim(), 200);
            let message = format!("the service answered with no stream and no JSON: {begins}");
            return Err(Trouble::new(ModelError::Other, message).into());
        };
        let text = match failure::is_told(&document) {
            true => Err(failure::told(&document)),
            false => self.job.wire.hear_whole(&document, &mut self.heard),
        };
        self.pass_on(text)
    }

    /// Says what is new, also if it ends with a failure.
    fn pass_on(&mut self, text: Result<String, Trouble>) -> Result<(), Broken> {
        if self.heard.model != self.model {
            self.model.clone_from(&self.heard.model);
            if let Some(model) = self.model.clone() {
                self.say(&Word::Model { model })?;
            }
        }
        if self.heard.tokens != self.told {
            self.told = self.heard.tokens;
            self.say(&Word::Used(self.told))?;
        }
        let text = text?;
        if !text.is_empty() {
            self.begun = Begun::Yes;
            self.say(&Word::Text { text })?;
        }
        Ok(())
    }

    fn say(&mut self, word: &Word) -> Result<(), Broken> {
        say(self.out, word).map_err(Broken::Unheard)
    }
}

fn unreachable(error: &ureq::Error) -> Trouble {
    let kind = match error {
        ureq::Error::Protocol(_) | ureq::Error::Http(_) | ureq::Error::LargeResponseHeader(..) => {
            ModelError::Other
        }
        _ => ModelError::Unreachable,
    };
    Trouble::new(kind, error.to_string())
}
