//! Options of a run that the protocol cannot express: how each agent receives them in another way, as a part of the
//! table of agents. An option that an agent cannot receive is not among its capabilities, so a warning names it.

use domain::run::RunSpec;
use domain::setup::Context;
use serde_json::{Value, json};

use crate::contract::{EnvValue, LaunchContext, ProcessLaunch, WorkFile};

/// How an agent receives each option; `None` if it cannot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OptionEncodings {
    /// To disable what would ignore rules or a level; applied unless everything is allowed.
    pub(crate) restricted: Option<OptionEncoding>,
    /// To leave the directory's own instructions out.
    pub(crate) no_context: Option<OptionEncoding>,
    /// Which of its own tools it has.
    pub(crate) tools: Option<OptionEncoding>,
    pub(crate) max_turns: Option<OptionEncoding>,
    /// The reasoning effort, if a session has no option for it.
    pub(crate) effort: Option<OptionEncoding>,
}

/// A way to pass an option, called only if the run has it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OptionEncoding {
    Arguments(fn(&RunSpec) -> Vec<String>),
    /// Variables of its process, which replace those that it has anyway.
    Variables(fn(&RunSpec) -> Vec<(&'static str, String)>),
    /// A file, and the argument that ends with its name.
    File {
        argument: &'static str,
        file: fn(&RunSpec) -> WorkFile,
    },
    /// Options of Claude Code in the session request.
    Session(fn(&RunSpec) -> Value),
    /// The step that adapts the process to its user applies it.
    UserEnvironment,
}

pub(crate) const NO_OPTIONS: OptionEncodings =
    OptionEncodings { restricted: None, no_context: None, tools: None, max_turns: None, effort: None };

impl OptionEncodings {
    /// Returns the encodings of the options that this run has.
    fn encodings_for(self, spec: &RunSpec) -> impl Iterator<Item = OptionEncoding> {
        let setup = &spec.setup;
        let requested = [
            self.restricted.filter(|_| !setup.permission.is_unrestricted()),
            self.no_context.filter(|_| setup.context == Context::None),
            self.tools.filter(|_| setup.tools.is_some()),
            self.max_turns.filter(|_| setup.max_turns.is_some()),
            self.effort.filter(|_| setup.effort.is_some()),
        ];
        requested.into_iter().flatten()
    }

    /// Applies the options of the run to a prepared process.
    pub(crate) fn apply(self, spec: &RunSpec, context: &LaunchContext<'_>, launch: &mut ProcessLaunch) {
        for encoding in self.encodings_for(spec) {
            match encoding {
                OptionEncoding::Arguments(arguments) => launch.argv.extend(arguments(spec)),
                OptionEncoding::Variables(variables) => {
                    for (name, value) in variables(spec) {
                        launch.env_overrides.retain(|(existing, _)| existing != name);
                        launch.env_overrides.push((name.to_owned(), EnvValue::Plain(value)));
                    }
                }
                OptionEncoding::File { argument, file } => {
                    let file = file(spec);
                    launch.argv.push(format!("{argument}{}", context.work_file_path(&file.name)));
                    launch.files.push(file);
                }
                OptionEncoding::Session(_) | OptionEncoding::UserEnvironment => {}
            }
        }
    }

    /// Returns the metadata of the session request: its constant part, and the options of this run.
    pub(crate) fn session_meta(self, spec: &RunSpec, always: Option<&str>) -> Option<Value> {
        let mut meta: Option<Value> = always.and_then(|meta| serde_json::from_str(meta).ok());
        for encoding in self.encodings_for(spec) {
            let OptionEncoding::Session(options) = encoding else { continue };
            let meta = meta.get_or_insert_with(|| json!({}));
            for (name, value) in options(spec).as_object().into_iter().flatten() {
                meta["claudeCode"]["options"][name] = value.clone();
            }
        }
        meta
    }
}
