//! Bounds for the files of a project: a repository may lower the user's limits and request more containment, never
//! the opposite.

use domain::agent::{Agent, Layer};
use domain::budget::RequestedLimits;
use domain::diagnostic::Diagnostic;
use domain::duration::display_ms;
use domain::run::ContainmentDemand;
use domain::size::display_bytes;

use super::effective::{Config, ConfigSetting, containment_name};
use super::layer::ConfigLayer;
use super::limits::LimitSettings;

/// The longest total time-out or answer time-out that a project may set if only a compiled-in default is shorter.
/// Many projects need more than ten minutes, and none needs weeks.
const TIMEOUT_MS_MAX: u64 = 24 * 3_600_000;
/// The longest time between terminating and killing an agent that a project may set.
const GRACE_MS_MAX: u64 = 5 * 60_000;

/// The limits and the containment without any file of a project.
#[derive(Debug, Clone)]
pub struct ProjectBounds {
    limits: LimitSettings,
    containment: ConfigSetting<ContainmentDemand>,
}

/// The settings that bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Binding {
    /// Those of user and machine, and the defaults, of which only times may be raised.
    All,
    /// Those of user and machine.
    SetByUser,
}

impl ProjectBounds {
    /// `without_project` is the sum of all layers but that of the project.
    pub fn new(without_project: &Config) -> Self {
        Self { limits: without_project.limits.clone(), containment: without_project.containment.clone() }
    }

    /// Removes settings from a project's configuration that would loosen those of the user. Returns a warning for
    /// each.
    pub fn restrict_config(&self, layer: &mut ConfigLayer, file: &str) -> Vec<Diagnostic> {
        let mut warnings = self.restrict_limits(&mut layer.limits, Binding::All);
        let users = &self.containment;
        if let Some(requested) = layer
            .run
            .containment
            .filter(|requested| containment_strength(*requested) < containment_strength(users.value))
        {
            layer.run.containment = None;
            warnings.push(ignored_message(
                "run.containment",
                containment_name(requested),
                containment_name(users.value),
                &users.file,
            ));
        }
        let warn = |message| Diagnostic::warning(file, message).hint("put it into your own configuration");
        warnings.into_iter().map(warn).collect()
    }

    /// Does the same for an agent's file. Only settings of the user bind it: a default is for files without a
    /// setting, and the agent's file has one.
    pub fn restrict_agent(&self, agent: &mut Agent) -> Vec<String> {
        let mut warnings = self.restrict_limits(&mut agent.limits, Binding::SetByUser);
        let users = &self.containment;
        // An agent without this setting has `auto`, which uses the configured containment.
        let says = agent.containment != ContainmentDemand::Auto;
        if says
            && users.layer != Layer::Default
            && containment_strength(agent.containment) < containment_strength(users.value)
        {
            let requested = std::mem::replace(&mut agent.containment, ContainmentDemand::Auto);
            warnings.push(ignored_message(
                "containment",
                containment_name(requested),
                containment_name(users.value),
                &users.file,
            ));
        }
        let file = &agent.source.file;
        warnings.into_iter().map(|message| format!("{file}: {message}")).collect()
    }

    fn restrict_limits(&self, requested_limits: &mut RequestedLimits, binding: Binding) -> Vec<String> {
        let (mut warnings, users) = (Vec::new(), &self.limits);
        // Destructured, so that a new limit cannot be forgotten here.
        let RequestedLimits {
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
            steps,
            tool_calls,
            tokens,
            answer_tokens,
            cost_microusd,
        } = requested_limits;
        let size = |bytes: &u64| display_bytes(*bytes);
        let time = |ms: &u64| display_ms(*ms);
        let mut times = LimitBound { binding, warnings: &mut warnings, show: time };
        times.restrict("timeout", timeout_ms, &users.timeout_ms, Some(TIMEOUT_MS_MAX));
        times.restrict("idle_timeout", idle_timeout_ms, &users.idle_timeout_ms, Some(TIMEOUT_MS_MAX));
        times.restrict("grace", grace_ms, &users.grace_ms, Some(GRACE_MS_MAX));
        times.restrict("answer_timeout", answer_timeout_ms, &users.answer_timeout_ms, Some(TIMEOUT_MS_MAX));
        times.restrict("cpu", cpu_ms, &users.cpu_ms, None);
        let mut sizes = LimitBound { binding, warnings: &mut warnings, show: size };
        sizes.restrict("memory", memory_bytes, &users.memory_bytes, None);
        sizes.restrict("file_size", file_bytes, &users.file_bytes, None);
        sizes.restrict("output", output_bytes, &users.output_bytes, None);
        let mut amounts = LimitBound { binding, warnings: &mut warnings, show: u64::to_string };
        amounts.restrict("processes", processes, &users.processes, None);
        amounts.restrict("open_files", open_files, &users.open_files, None);
        amounts.restrict("steps", steps, &users.steps, None);
        amounts.restrict("tool_calls", tool_calls, &users.tool_calls, None);
        amounts.restrict("tokens", tokens, &users.tokens, None);
        amounts.restrict("answer_tokens", answer_tokens, &users.answer_tokens, None);
        amounts.restrict("cost", cost_microusd, &users.cost_microusd, None);
        let mut counts = LimitBound { binding, warnings: &mut warnings, show: u32::to_string };
        counts.restrict("depth", depth, &users.depth, None);
        counts.restrict("children", children, &users.children, None);
        counts.restrict("tree_runs", tree_runs, &users.tree_runs, None);
        warnings
    }
}

/// Removes values that are greater than those of the user.
struct LimitBound<'a, F> {
    binding: Binding,
    warnings: &'a mut Vec<String>,
    show: F,
}

impl<F> LimitBound<'_, F> {
    /// `raised_to` is how far a default may be raised; a limit that is not set at all can only be lowered.
    fn restrict<T: Copy + Ord>(
        &mut self,
        key: &str,
        limit: &mut Option<T>,
        users: &Option<ConfigSetting<T>>,
        raised_to: Option<T>,
    ) where
        F: Fn(&T) -> String,
    {
        let (Some(requested), Some(users)) = (*limit, users) else { return };
        let most = match (users.layer, self.binding, raised_to) {
            (Layer::Default, Binding::SetByUser, _) => return,
            (Layer::Default, Binding::All, Some(most)) => most,
            (Layer::Default, Binding::All, None) | (_, _, _) => users.value,
        };
        if requested > most {
            *limit = None;
            let (requested, most, value) =
                ((self.show)(&requested), (self.show)(&most), (self.show)(&users.value));
            self.warnings.push(match most == value {
                true => ignored_message(&format!("limits.{key}"), &requested, &value, &users.file),
                false => format!(
                    "limits.{key} = {requested} is ignored, and {value} holds: a project's file sets at most {most}"
                ),
            });
        }
    }
}

fn ignored_message(key: &str, requested: &str, users: &str, file: &str) -> String {
    format!("{key} = {requested} is ignored: a project's file may not loosen {users} of {file}")
}

/// Orders containment levels by strength.
fn containment_strength(demand: ContainmentDemand) -> u8 {
    match demand {
        ContainmentDemand::Plain => 0,
        ContainmentDemand::Auto => 1,
        ContainmentDemand::Strict => 2,
    }
}
