//! What the files of a project may not change: a repository lowers the limits of the machine's user and asks for more
//! containment, and never the other way round.

use domain::agent::{Agent, Layer};
use domain::budget::AskedLimits;
use domain::diagnostic::Diagnostic;
use domain::duration::display_ms;
use domain::run::ContainmentDemand;
use domain::size::display_bytes;

use super::effective::{Config, Setting, containment_word};
use super::layer::ConfigLayer;
use super::limits::LimitSettings;

/// The longest total time, or time for an answer, that a project may set where only a compiled-in default says something
/// shorter. Many projects need more than ten minutes, and none needs weeks.
const TIMEOUT_MS_MAX: u64 = 24 * 3_600_000;
/// The same for the time between asking an agent to stop and killing it.
const GRACE_MS_MAX: u64 = 5 * 60_000;

/// The limits and the containment that hold without any file of a project.
#[derive(Debug, Clone)]
pub struct ProjectBounds {
    limits: LimitSettings,
    containment: Setting<ContainmentDemand>,
}

/// Which of the settings bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Binding {
    /// Those of user and machine, and the defaults, of which only times may be raised.
    All,
    /// Those of user and machine.
    SetByPeople,
}

impl ProjectBounds {
    /// `without_project` is the sum of all layers but that of the project.
    pub fn new(without_project: &Config) -> Self {
        Self { limits: without_project.limits.clone(), containment: without_project.containment.clone() }
    }

    /// Removes from a project's configuration what would loosen a setting of the user. Returns a warning for each.
    pub fn hold_config(&self, layer: &mut ConfigLayer, file: &str) -> Vec<Diagnostic> {
        let mut held = self.hold_limits(&mut layer.limits, Binding::All);
        let users = &self.containment;
        if let Some(wanted) = layer.run.containment.filter(|wanted| strength(*wanted) < strength(users.value))
        {
            layer.run.containment = None;
            held.push(ignored(
                "run.containment",
                containment_word(wanted),
                containment_word(users.value),
                &users.file,
            ));
        }
        let warn = |message| Diagnostic::warning(file, message).hint("put it into your own configuration");
        held.into_iter().map(warn).collect()
    }

    /// Does the same with an agent's file. Only what people have set binds it: a default says what holds where a file is
    /// silent, and the agent's file is not.
    pub fn hold_agent(&self, agent: &mut Agent) -> Vec<String> {
        let mut held = self.hold_limits(&mut agent.limits, Binding::SetByPeople);
        let users = &self.containment;
        // `auto` is what an agent has that does not say it, and takes what is configured.
        let says = agent.containment != ContainmentDemand::Auto;
        if says && users.layer != Layer::Default && strength(agent.containment) < strength(users.value) {
            let wanted = std::mem::replace(&mut agent.containment, ContainmentDemand::Auto);
            held.push(ignored(
                "containment",
                containment_word(wanted),
                containment_word(users.value),
                &users.file,
            ));
        }
        let file = &agent.source.file;
        held.into_iter().map(|message| format!("{file}: {message}")).collect()
    }

    fn hold_limits(&self, asked: &mut AskedLimits, binding: Binding) -> Vec<String> {
        let (mut held, users) = (Vec::new(), &self.limits);
        // Destructured, so that a new limit cannot be forgotten here.
        let AskedLimits {
            timeout_ms,
            idle_timeout_ms,
            grace_ms,
            answer_timeout_ms,
            memory_bytes,
            cpu_ms,
            processes,
            open_files,
            file_bytes,
            output_bytes,
            depth,
            children,
            tree_runs,
        } = asked;
        let size = |bytes: &u64| display_bytes(*bytes);
        let time = |ms: &u64| display_ms(*ms);
        let mut times = Hold { binding, held: &mut held, show: time };
        times.hold("timeout", timeout_ms, &users.timeout_ms, Some(TIMEOUT_MS_MAX));
        times.hold("idle_timeout", idle_timeout_ms, &users.idle_timeout_ms, Some(TIMEOUT_MS_MAX));
        times.hold("grace", grace_ms, &users.grace_ms, Some(GRACE_MS_MAX));
        times.hold("answer_timeout", answer_timeout_ms, &users.answer_timeout_ms, Some(TIMEOUT_MS_MAX));
        times.hold("cpu", cpu_ms, &users.cpu_ms, None);
        let mut sizes = Hold { binding, held: &mut held, show: size };
        sizes.hold("memory", memory_bytes, &users.memory_bytes, None);
        sizes.hold("file_size", file_bytes, &users.file_bytes, None);
        sizes.hold("output", output_bytes, &users.output_bytes, None);
        let mut amounts = Hold { binding, held: &mut held, show: u64::to_string };
        amounts.hold("processes", processes, &users.processes, None);
        amounts.hold("open_files", open_files, &users.open_files, None);
        let mut counts = Hold { binding, held: &mut held, show: u32::to_string };
        counts.hold("depth", depth, &users.depth, None);
        counts.hold("children", children, &users.children, None);
        counts.hold("tree_runs", tree_runs, &users.tree_runs, None);
        held
    }
}

/// Removes values that are greater than those of the user.
struct Hold<'a, F> {
    binding: Binding,
    held: &'a mut Vec<String>,
    show: F,
}

impl<F> Hold<'_, F> {
    /// `raised_to` is how far a default may be raised; a limit that is not set at all can only be lowered.
    fn hold<T: Copy + Ord>(
        &mut self,
        key: &str,
        asked: &mut Option<T>,
        users: &Option<Setting<T>>,
        raised_to: Option<T>,
    ) where
        F: Fn(&T) -> String,
    {
        let (Some(wanted), Some(users)) = (*asked, users) else { return };
        let most = match (users.layer, self.binding, raised_to) {
            (Layer::Default, Binding::SetByPeople, _) => return,
            (Layer::Default, Binding::All, Some(most)) => most,
            (Layer::Default, Binding::All, None) | (_, _, _) => users.value,
        };
        if wanted > most {
            *asked = None;
            let (wanted, most, value) = ((self.show)(&wanted), (self.show)(&most), (self.show)(&users.value));
            self.held.push(match most == value {
                true => ignored(&format!("limits.{key}"), &wanted, &value, &users.file),
                false => format!(
                    "limits.{key} = {wanted} is ignored, and {value} holds: a project's file sets at most {most}"
                ),
            });
        }
    }
}

fn ignored(key: &str, wanted: &str, users: &str, file: &str) -> String {
    format!("{key} = {wanted} is ignored: a project's file may not loosen {users} of {file}")
}

/// Orders demands by how much they ask for.
fn strength(demand: ContainmentDemand) -> u8 {
    match demand {
        ContainmentDemand::Plain => 0,
        ContainmentDemand::Auto => 1,
        ContainmentDemand::Strict => 2,
    }
}
