//! One tool call: its client, the client's capabilities, and how long it waits.

use std::time::Duration;

use domain::id::RunId;
use domain::run::Unattended;
use rmcp::model::{CustomNotification, RequestId};
use rmcp::service::{RequestContext, RoleServer};
use tokio::time::Instant;

use super::client_profiles::ClientProfile;
use super::handler::Handler;
use super::in_flight::Ticket;
use engine::unattended;

/// Builds a dialect's own notification about the request with this id.
pub(super) type EventFormatter = fn(&RequestId, &str) -> CustomNotification;

/// Everything a tool needs in addition to its input.
pub(super) struct ToolCall<'a> {
    pub(super) handler: &'a Handler,
    pub(super) context: RequestContext<RoleServer>,
    pub(super) client: ClientProfile,
    pub(super) ticket: Option<Ticket>,
    /// The run that an earlier attempt of this call started, and whose question is answered now.
    pub(super) resumed: Option<RunId>,
    /// How its dialect reports events, in addition to progress.
    pub(super) events: Option<EventFormatter>,
    /// The client's user did not answer, and this call does not ask again.
    pub(super) elicitation_declined: bool,
    begun_at: Instant,
}

impl<'a> ToolCall<'a> {
    pub(super) fn new(handler: &'a Handler, context: RequestContext<RoleServer>) -> Self {
        let client = handler.client_for(&context);
        let over_http = context.extensions.get::<::http::request::Parts>().is_some();
        let client = if over_http { client.over_http() } else { client };
        let ticket = context.extensions.get::<Ticket>().cloned();
        Self {
            handler,
            client,
            ticket,
            context,
            resumed: None,
            events: None,
            elicitation_declined: false,
            begun_at: Instant::now(),
        }
    }

    /// Returns the time since the client sent the request.
    pub(super) fn age(&self) -> Duration {
        self.ticket.as_ref().map_or_else(|| self.begun_at.elapsed(), Ticket::age)
    }

    /// Returns how long this call may still wait, if its caller asks for `wait_s`.
    pub(super) fn remaining_wait(&self, wait_s: Option<u64>) -> Duration {
        let has_progress = self.context.meta.get_progress_token().is_some();
        let most = if has_progress { self.client.wait_with_progress } else { self.client.wait };
        let requested = wait_s.map_or(most, Duration::from_secs).min(most);
        requested.saturating_sub(self.age())
    }

    /// Returns whether this request can be answered with a task.
    pub(super) fn supports_tasks(&self) -> bool {
        self.context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks())
    }

    /// Returns why no user of the client can answer the questions of a run.
    pub(super) fn unattended(&self) -> Option<Unattended> {
        unattended::unattended_client(&self.client.name, self.supports_elicitation())
    }

    /// Returns whether the client can ask its user.
    pub(super) fn supports_elicitation(&self) -> bool {
        self.context.client_capabilities().is_some_and(|capabilities| capabilities.elicitation.is_some())
    }
}
