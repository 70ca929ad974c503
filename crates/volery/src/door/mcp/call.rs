//! One call of a tool: who asks, what they can be given, and how long they wait.

use std::time::Duration;

use domain::id::RunId;
use domain::run::Unattended;
use rmcp::model::{CustomNotification, RequestId};
use rmcp::service::{RequestContext, RoleServer};
use tokio::time::Instant;

use super::clients::Client;
use super::handler::Handler;
use super::in_flight::Ticket;
use crate::attendance;

/// Puts into a notification of its own what a dialect has to tell about the request of this id.
pub(super) type EventForm = fn(&RequestId, &str) -> CustomNotification;

/// Everything a tool needs beside its input.
pub(super) struct Call<'a> {
    pub(super) door: &'a Handler,
    pub(super) context: RequestContext<RoleServer>,
    pub(super) client: Client,
    pub(super) ticket: Option<Ticket>,
    /// The run that an earlier try of this call has started, whose question is answered now.
    pub(super) resumed: Option<RunId>,
    /// How its dialect tells what goes on, beside progress.
    pub(super) events: Option<EventForm>,
    /// Its user would not answer, and is not asked again by this call.
    pub(super) unasked: bool,
    begun_at: Instant,
}

impl<'a> Call<'a> {
    pub(super) fn new(door: &'a Handler, context: RequestContext<RoleServer>) -> Self {
        let client = door.client_of(&context);
        let over_http = context.extensions.get::<::http::request::Parts>().is_some();
        let client = if over_http { client.over_http() } else { client };
        let ticket = context.extensions.get::<Ticket>().cloned();
        Self {
            door,
            client,
            ticket,
            context,
            resumed: None,
            events: None,
            unasked: false,
            begun_at: Instant::now(),
        }
    }

    /// Returns how long ago the client asked.
    pub(super) fn age(&self) -> Duration {
        self.ticket.as_ref().map_or_else(|| self.begun_at.elapsed(), Ticket::age)
    }

    /// Returns how long this call may still wait, when its caller wants `wait_s`.
    pub(super) fn patience(&self, wait_s: Option<u64>) -> Duration {
        let has_progress = self.context.meta.get_progress_token().is_some();
        let most = if has_progress { self.client.wait_with_progress } else { self.client.wait };
        let wanted = wait_s.map_or(most, Duration::from_secs).min(most);
        wanted.saturating_sub(self.age())
    }

    /// Tells whether this request can be answered with a task.
    pub(super) fn takes_tasks(&self) -> bool {
        self.context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks())
    }

    /// Says why no person behind the client can answer the questions of a run.
    pub(super) fn unattended(&self) -> Option<Unattended> {
        attendance::of_client(&self.client.name, self.takes_questions())
    }

    /// Tells whether the client can put a question to its user.
    pub(super) fn takes_questions(&self) -> bool {
        self.context.client_capabilities().is_some_and(|capabilities| capabilities.elicitation.is_some())
    }
}
