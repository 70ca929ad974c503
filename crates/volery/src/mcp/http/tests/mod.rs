//! The HTTP server with a scripted engine, byte by byte as a client sees it. Each file is named for the behaviour it tests.

mod test_server;

mod checks_host_origin_and_token;
mod conformance;
mod enforces_limits;
mod isolates_callers;
mod long_answers_start_early;
mod reports_metrics;
mod serves_both_protocol_generations;
mod shuts_down_gracefully;
