//! How the session of a run is begun or continued, and what is then set in it.

use agent_client_protocol_schema::v1::{
    AgentCapabilities, ContentBlock, EnvVariable, ForkSessionRequest, HttpHeader, LoadSessionRequest,
    McpServer, McpServerHttp, McpServerSse, McpServerStdio, NewSessionRequest, ResumeSessionRequest,
    SetSessionModeRequest, SystemPrompt, SystemPromptMode,
};
use domain::agent::Delegates;
use domain::mcp_server::{McpServer as ServerConfig, Transport};
use domain::run::{Failure, RunSpec};
use serde::Serialize;
use serde_json::{Value, json};

use super::profile::AgentProfile;
use crate::contract::{AgentReport, LaunchContext};
use crate::mcp_config::{self, OWN_SERVER};

/// What the run requests.
#[derive(Debug, Clone)]
pub(super) struct SessionRequest {
    /// The agent's name in messages.
    pub(super) name: String,
    pub(super) profile: AgentProfile,
    pub(super) directory: String,
    pub(super) directories: Vec<String>,
    /// The conversation to be continued.
    pub(super) session: Option<String>,
    /// Continue in a copy of that conversation.
    pub(super) fork: bool,
    pub(super) servers: Vec<McpServer>,
    /// The variables that the servers refer to.
    pub(super) variables: Vec<String>,
    pub(super) system: Option<SystemPrompt>,
    /// The prompt alone, and with the system prompt before it.
    pub(super) prompt: String,
    pub(super) combined: String,
    pub(super) mode: Option<&'static str>,
    pub(super) model: Option<String>,
    pub(super) effort: Option<String>,
    /// Metadata of the session request, beyond the protocol.
    pub(super) meta: Option<Value>,
    pub(super) structured: bool,
}

/// Returns the servers of a run: the agent's own, and Volery's if it may delegate.
pub(super) fn servers(spec: &RunSpec, context: &LaunchContext<'_>) -> Vec<McpServer> {
    let own = (spec.delegates != Delegates::Nobody).then(|| {
        let program = McpServerStdio::new(OWN_SERVER, context.current_exe).args(vec!["serve".to_owned()]);
        McpServer::Stdio(program)
    });
    spec.setup.mcp_servers.iter().map(server).chain(own).collect()
}

/// Returns the variables that the servers of a run refer to.
pub(super) fn variables(spec: &RunSpec) -> Vec<String> {
    mcp_config::referenced_variables(spec)
}

fn server(config: &ServerConfig) -> McpServer {
    let name = config.name.as_str();
    let all = |headers: &std::collections::BTreeMap<String, domain::mcp_server::VariableText>| {
        headers.iter().map(|(name, text)| HttpHeader::new(name.as_str(), text.as_str())).collect::<Vec<_>>()
    };
    match &config.transport {
        Transport::Stdio { command, args, env } => {
            let args = args.iter().map(|text| text.as_str().to_owned()).collect();
            let env = env.iter().map(|(name, text)| EnvVariable::new(name.as_str(), text.as_str())).collect();
            McpServer::Stdio(McpServerStdio::new(name, command.as_str()).args(args).env(env))
        }
        Transport::Http { url, headers } => {
            McpServer::Http(McpServerHttp::new(name, url.as_str()).headers(all(headers)))
        }
        Transport::Sse { url, headers } => {
            McpServer::Sse(McpServerSse::new(name, url.as_str()).headers(all(headers)))
        }
    }
}

/// Returns the system prompt in the form of a session request.
pub(super) fn system(text: &str, replaces: bool) -> Option<SystemPrompt> {
    let mode = if replaces { SystemPromptMode::Override } else { SystemPromptMode::Append };
    let text = text.trim();
    (!text.is_empty()).then(|| SystemPrompt::new(vec![ContentBlock::from(text)]).mode(mode))
}

/// The request that begins a session.
pub(super) struct SessionOpening {
    pub(super) method: &'static str,
    pub(super) params: Value,
    /// It contains the system prompt.
    pub(super) instructed: bool,
    pub(super) warnings: Vec<String>,
}

impl SessionRequest {
    /// Returns how to begin the session, according to the agent's capabilities.
    pub(super) fn opening(&self, can: &AgentCapabilities) -> Result<SessionOpening, Failure> {
        self.check_servers(can)?;
        let sessions = &can.session_capabilities;
        let mut warnings = Vec::new();
        let mut directories = Vec::new();
        if sessions.additional_directories.is_some() {
            directories.extend(self.directories.iter().map(Into::into));
        } else if !self.directories.is_empty() {
            warnings.push(format!("extra_directories is not honoured by {}", self.name));
        }
        let system = self.system.clone().filter(|system| {
            let support = sessions.system_prompt.as_ref();
            let replaces = || {
                support.and_then(|support| support.mode.as_ref()).is_some_and(|mode| mode.override_.is_some())
            };
            support.is_some() && (system.mode != SystemPromptMode::Override || replaces())
        });
        let instructed = system.is_some();
        let Some(session) = self.session.clone() else {
            let new = NewSessionRequest::new(&self.directory)
                .additional_directories(directories)
                .system_prompt(system);
            return Ok(SessionOpening {
                method: "session/new",
                params: self.params(&new),
                instructed,
                warnings,
            });
        };
        if self.fork {
            if sessions.fork.is_none() {
                return Err(Failure::Session { reason: format!("{} cannot copy a session", self.name) });
            }
            let fork = ForkSessionRequest::new(session, &self.directory)
                .additional_directories(directories)
                .system_prompt(system);
            return Ok(SessionOpening {
                method: "session/fork",
                params: self.params(&fork),
                instructed,
                warnings,
            });
        }
        if sessions.resume.is_some() {
            let resume = ResumeSessionRequest::new(session, &self.directory)
                .additional_directories(directories)
                .system_prompt(system);
            return Ok(SessionOpening {
                method: "session/resume",
                params: self.params(&resume),
                instructed,
                warnings,
            });
        }
        if !can.load_session {
            return Err(Failure::Session { reason: format!("{} cannot continue a session", self.name) });
        }
        let load = LoadSessionRequest::new(session, &self.directory)
            .additional_directories(directories)
            .system_prompt(system);
        Ok(SessionOpening { method: "session/load", params: self.params(&load), instructed, warnings })
    }

    fn params(&self, request: &impl Serialize) -> Value {
        let mut params = json!(request);
        if let Some(meta) = &self.meta {
            params["_meta"] = meta.clone();
        }
        params
    }

    fn check_servers(&self, can: &AgentCapabilities) -> Result<(), Failure> {
        let (http, sse) = (can.mcp_capabilities.http, can.mcp_capabilities.sse);
        let foreign = self.servers.iter().find_map(|server| match server {
            McpServer::Http(server) if !http => Some((&server.name, "http")),
            McpServer::Sse(server) if !sse => Some((&server.name, "sse")),
            _ => None,
        });
        match foreign {
            Some((server, transport)) => {
                let message =
                    format!("{} does not speak {transport}, as the MCP server {server} does", self.name);
                Err(Failure::Agent { message })
            }
            None => Ok(()),
        }
    }

    /// Returns the request with the servers in it. Other dollar signs are escaped, so that they are not taken for
    /// variables.
    pub(super) fn open(&self, id: u64, opening: &SessionOpening) -> AgentReport {
        let mut params = opening.params.clone();
        if let Some(object) = params.as_object_mut() {
            object.remove("mcpServers");
        }
        let head =
            json!({"jsonrpc": "2.0", "id": id, "method": opening.method, "params": params}).to_string();
        let head = head.replace('$', "\\u0024");
        // The members of the parameters end where both objects do.
        let head = head.strip_suffix("}}").unwrap_or(&head);
        let servers = json!(self.servers);
        let content = format!("{head},\"mcpServers\":{servers}}}}}\n").into_bytes();
        AgentReport::WriteWithVariables { content, variables: self.variables.clone() }
    }
}

/// The purpose of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SettingPurpose {
    Mode,
    Model,
    Effort,
}

/// Something to set in a session before its turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SessionSetting {
    pub(super) purpose: SettingPurpose,
    pub(super) method: &'static str,
    pub(super) params: Value,
}

/// What a session offers, according to the response that began it.
pub(super) struct SessionOffer<'a> {
    pub(super) session: &'a str,
    pub(super) result: &'a Value,
}

impl SessionOffer<'_> {
    /// Returns the model that the session begins with.
    pub(super) fn model(&self) -> Option<&str> {
        let option = self.option("model").and_then(|option| option["currentValue"].as_str());
        option.or_else(|| self.result["models"]["currentModelId"].as_str())
    }

    /// Returns how to switch the session to a mode; an error if it has no such mode.
    pub(super) fn mode(&self, mode: &str) -> Result<Option<SessionSetting>, ()> {
        let modes = &self.result["modes"];
        let is_available = |mode: &str| {
            modes["availableModes"].as_array().into_iter().flatten().any(|available| available["id"] == mode)
        };
        if modes["currentModeId"] == mode {
            return Ok(None);
        }
        if is_available(mode) {
            let params = json!(SetSessionModeRequest::new(self.session.to_owned(), mode.to_owned()));
            return Ok(Some(SessionSetting {
                purpose: SettingPurpose::Mode,
                method: "session/set_mode",
                params,
            }));
        }
        match self.option("mode") {
            Some(option) if option["currentValue"] == mode => Ok(None),
            Some(option) if has_value(option, mode) => Ok(Some(self.set(SettingPurpose::Mode, option, mode))),
            _ => Err(()),
        }
    }

    /// Returns how to set the model, if the session allows it; also one that its list lacks.
    pub(super) fn choose_model(&self, model: &str) -> Option<SessionSetting> {
        if let Some(option) = self.option("model") {
            return Some(self.set(SettingPurpose::Model, option, model));
        }
        let params = json!({"sessionId": self.session, "modelId": model});
        let has_models = self.result["models"].is_object();
        has_models.then_some(SessionSetting {
            purpose: SettingPurpose::Model,
            method: "session/set_model",
            params,
        })
    }

    pub(super) fn choose_effort(&self, effort: &str) -> Option<SessionSetting> {
        let option = self.option("thought_level").filter(|option| has_value(option, effort))?;
        Some(self.set(SettingPurpose::Effort, option, effort))
    }

    /// Returns the option of a category.
    fn option(&self, category: &str) -> Option<&Value> {
        let options = self.result["configOptions"].as_array()?;
        let by_key = |key: &str| options.iter().find(|option| option[key] == category);
        by_key("category").or_else(|| by_key("id"))
    }

    fn set(&self, purpose: SettingPurpose, option: &Value, value: &str) -> SessionSetting {
        let params = json!({"sessionId": self.session, "configId": option["id"], "value": value});
        SessionSetting { purpose, method: "session/set_config_option", params }
    }
}

fn has_value(option: &Value, expected: &str) -> bool {
    let values = option["options"].as_array().into_iter().flatten();
    // Options may be grouped.
    values
        .flat_map(|value| value["options"].as_array().map_or(std::slice::from_ref(value), Vec::as_slice))
        .any(|value| value["value"] == expected)
}
