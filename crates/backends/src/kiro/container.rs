//! Kiro's program in a container, as budgie runs it: the directory, the login and the user's agents are mounted, and a volume of the
//! session stores its conversations.

use std::path::Path;

use domain::launch::Container;
use domain::run::RunSpec;

use crate::contract::LaunchContext;

/// The directory of the run in the container.
pub(super) const WORKSPACE: &str = "/workspace";
/// The folder for the agent's answer in the container, and the same folder below the run's work folder.
const ANSWER: &str = "/answer";
pub(super) const ANSWER_FOLDER: &str = "answer";
/// The home in the container, and Kiro's folders in it.
const HOME: &str = "/root";
const STATE: &str = ".local/share/kiro-cli";
const LOGIN: &str = "/auth";
const SETTINGS: &str = ".kiro";

/// Returns the arguments of the container command, up to the program in the container.
pub(super) fn container_args(
    container: &Container,
    spec: &RunSpec,
    context: &LaunchContext<'_>,
    piped: bool,
) -> Result<Vec<String>, String> {
    let conversation = super::conversation(spec);
    let mut args: Vec<String> = ["run", "--rm", "--name"].map(ToOwned::to_owned).to_vec();
    args.push(crate::container::container_name(spec));
    args.extend(piped.then(|| "-i".to_owned()));
    let mut mounts = vec![
        format!("budgie-session-{conversation}:{HOME}/{STATE}:rw"),
        mount(&container.login, LOGIN, "ro")?,
        mount(&container.settings, &format!("{HOME}/{SETTINGS}"), "ro")?,
    ];
    if !super::is_kiro_agent(spec) {
        // The folder of an agent's file that Kiro does not find by itself.
        let folder = Path::new(&spec.source).parent().unwrap_or(Path::new("/")).display().to_string();
        mounts.push(mount(&folder, &format!("{HOME}/{SETTINGS}/agents"), "ro")?);
    }
    mounts.push(mount(&spec.directory, WORKSPACE, "rw")?);
    if spec.setup.response_file.is_some() {
        mounts.push(mount(&context.work_file_path(ANSWER_FOLDER), ANSWER, "rw")?);
    }
    for mount in mounts {
        args.extend(["-v".to_owned(), mount]);
    }
    args.push(container.image.clone());
    Ok(args)
}

/// Returns the path of the response file in the container.
pub(super) fn response_file() -> String {
    format!("{ANSWER}/{}", super::RESPONSE_FILE)
}

fn mount(from: &str, to: &str, mode: &str) -> Result<String, String> {
    if from.contains(':') {
        return Err(format!("{from:?} cannot be mounted in a container: its path has a colon"));
    }
    Ok(format!("{from}:{to}:{mode}"))
}
