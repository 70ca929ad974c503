//! Kiro's program in a container, as budgie runs it: the directory, the login and the user's agents are mounted, and its
//! conversations are kept in a volume of the session's own.

use std::path::Path;

use domain::launch::Container;
use domain::run::RunSpec;

use crate::contract::Place;

/// Where the directory of a run is, inside.
pub(super) const WORKSPACE: &str = "/workspace";
/// Where the agent writes its answer, inside; and the same folder below the run's work folder.
const ANSWER: &str = "/answer";
pub(super) const ANSWER_FOLDER: &str = "answer";
/// The home of whoever works inside, and what Kiro has there.
const HOME: &str = "/root";
const STATE: &str = ".local/share/kiro-cli";
const LOGIN: &str = "/auth";
const SETTINGS: &str = ".kiro";

/// Returns the words before the program's own, without the command itself.
pub(super) fn words(
    container: &Container,
    spec: &RunSpec,
    place: &Place<'_>,
    piped: bool,
) -> Result<Vec<String>, String> {
    let conversation = super::conversation(spec);
    let mut words: Vec<String> = ["run", "--rm", "--name"].map(ToOwned::to_owned).to_vec();
    words.push(crate::container::name(spec));
    words.extend(piped.then(|| "-i".to_owned()));
    let mut mounts = vec![
        format!("budgie-session-{conversation}:{HOME}/{STATE}:rw"),
        mount(&container.login, LOGIN, "ro")?,
        mount(&container.settings, &format!("{HOME}/{SETTINGS}"), "ro")?,
    ];
    if !super::own_agent(spec) {
        // The file of an agent that Kiro does not find by itself.
        let folder = Path::new(&spec.source).parent().unwrap_or(Path::new("/")).display().to_string();
        mounts.push(mount(&folder, &format!("{HOME}/{SETTINGS}/agents"), "ro")?);
    }
    mounts.push(mount(&spec.directory, WORKSPACE, "rw")?);
    if spec.setup.response_file.is_some() {
        mounts.push(mount(&place.file(ANSWER_FOLDER), ANSWER, "rw")?);
    }
    for mount in mounts {
        words.extend(["-v".to_owned(), mount]);
    }
    words.push(container.image.clone());
    Ok(words)
}

/// Returns where the agent writes its answer, as it is told.
pub(super) fn response_file() -> String {
    format!("{ANSWER}/{}", super::RESPONSE_FILE)
}

fn mount(from: &str, to: &str, how: &str) -> Result<String, String> {
    if from.contains(':') {
        return Err(format!("{from:?} cannot be mounted in a container: its path has a colon"));
    }
    Ok(format!("{from}:{to}:{how}"))
}
