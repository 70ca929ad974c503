//! Renders the metrics in Prometheus's text format. Pure. Every set of labels is bounded: agents by `engine::RunMetrics`,
//! outcomes and statuses by fixed lists.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use super::counters::Counters;
use engine::{AgentMetrics, RunMetrics};

pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Renders the metrics of active and ended runs, and of the server itself.
pub(super) fn text(sums: &RunMetrics, counters: &Counters, requests: usize) -> String {
    let mut page = MetricsPage::default();
    page.metric("volery_info", "gauge", "The version of this server.");
    page.value("volery_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    let now = [
        ("volery_runs_running", "Runs at work.", sums.running),
        ("volery_runs_waiting", "Runs that wait for an answer, a slot or a session.", sums.waiting),
        ("volery_slots", "Root runs that may work at once on this machine.", sums.slots),
        ("volery_slots_taken", "Root runs that do.", sums.slots_taken),
        ("volery_queued", "Root runs in the queue of this machine.", sums.queued),
    ];
    for (name, help, value) in now {
        page.metric(name, "gauge", help);
        page.value(name, &[], value);
    }
    page.agents(&sums.agents);
    page.http_server(counters, requests);
    page.0
}

type MetricValue = fn(&AgentMetrics) -> String;

#[derive(Default)]
struct MetricsPage(String);

impl MetricsPage {
    fn metric(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{label}=\"{}\"", escape_label(text));
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// Gauges, because runs leave the journal when their retention ends.
    fn agents(&mut self, agents: &[AgentMetrics]) {
        let name = "volery_runs_ended";
        self.metric(name, "gauge", "Ended runs in the journal, by how they ended.");
        for sums in agents {
            for (outcome, count) in sums.outcomes.iter().filter(|(_, count)| *count > 0) {
                let labels = [("agent", &*sums.agent), ("backend", &*sums.backend), ("outcome", outcome)];
                self.value(name, &labels, count);
            }
        }
        let per_agent: [(&str, &str, MetricValue); 2] = [
            ("volery_runs_ended_seconds", "The time that these runs took.", |sums| {
                to_decimal(sums.duration_ms, 1_000)
            }),
            ("volery_runs_ended_dollars", "What those of these runs cost whose cost is known.", |sums| {
                to_decimal(sums.cost_microusd, 1_000_000)
            }),
        ];
        for (name, help, value) in per_agent {
            self.metric(name, "gauge", help);
            for sums in agents {
                self.value(name, &[("agent", &*sums.agent), ("backend", &*sums.backend)], value(sums));
            }
        }
        let name = "volery_runs_ended_tokens";
        self.metric(name, "gauge", "The tokens of models that these runs used.");
        for sums in agents {
            for (direction, count) in [("input", sums.input_tokens), ("output", sums.output_tokens)] {
                let labels = [("agent", &*sums.agent), ("backend", &*sums.backend), ("direction", direction)];
                self.value(name, &labels, count);
            }
        }
    }

    fn http_server(&mut self, counters: &Counters, requests: usize) {
        let gauges = [
            ("volery_http_connections", "Open connections.", counters.connections.load(Ordering::Relaxed)),
            ("volery_http_requests_in_flight", "Requests that are worked on.", requests),
            (
                "volery_http_sessions",
                "Open sessions of the older generation.",
                counters.sessions.load(Ordering::Relaxed),
            ),
        ];
        for (name, help, value) in gauges {
            self.metric(name, "gauge", help);
            self.value(name, &[], value);
        }
        let name = "volery_http_connections_total";
        self.metric(name, "counter", "Connections, by what became of them.");
        self.value(name, &[("result", "accepted")], counters.connections_accepted.load(Ordering::Relaxed));
        self.value(name, &[("result", "refused")], counters.connections_refused.load(Ordering::Relaxed));
        let name = "volery_http_answers_total";
        self.metric(name, "counter", "Answered requests, by status.");
        for (status, count) in counters.answers().into_iter().filter(|(_, count)| *count > 0) {
            self.value(name, &[("status", &status)], count);
        }
    }
}

/// Formats an amount in small units as a decimal number of large ones.
fn to_decimal(amount: u64, unit: u64) -> String {
    let digits = unit.ilog10() as usize;
    format!("{}.{:0digits$}", amount / unit, amount % unit)
}

fn escape_label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
