//! The one integration binary: the real program, real processes, a real file system. One file per awkward
//! behaviour, named for it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests start processes and read the environment by themselves"
)]

mod test_env;

mod a_task_outlives_its_server;
mod a_wait_is_not_a_run;
mod accepts_only_what_is_confirmed;
mod answers_at_the_terminal;
mod answers_by_a_tool;
mod answers_into_a_file;
mod applies_imports;
mod asks_a_model;
mod asks_for_a_certain_file;
mod asks_for_trust;
mod asks_people;
mod bounds_what_an_agent_writes;
mod checks_the_shape_of_answers;
mod clients_we_did_not_write;
mod completes_command_lines;
mod conforms;
mod continues_conversations;
mod denies_what_nobody_can_answer;
mod dialects;
mod does_not_slow_down;
mod ends_in_time;
mod enforces_limits;
mod fits_80_columns;
mod found_in_review;
mod grants_more_or_less;
mod hides_secrets_while_it_runs;
mod hostile_agents;
mod hostile_projects;
mod imports_other_systems;
mod keeps_the_queue_in_order;
mod kills;
mod leaves_no_control_group_behind;
mod leaves_no_process_behind;
mod leaves_while_it_starts_runs;
mod lets_old_runs_go;
mod nested_runs;
mod passes_variables_by_rule;
mod reads_broken_definitions;
mod reads_damaged_journals;
mod reads_every_format;
mod reads_old_states;
mod reads_only_what_it_needs;
mod refuses_a_bad_home;
mod refuses_a_relative_home;
mod refuses_bad_requests;
mod rehearses_a_huge_prompt;
mod repeats_no_request;
mod reports_denials;
mod reports_what_a_program_says;
mod resumes_after_kill;
mod runs_an_agent;
mod runs_directives;
mod runs_without_a_file;

mod serves_over_http;
mod sets_up_clients;
mod shares_a_session;
mod shares_one_state;
mod short_lived_grandchildren;
mod shows_a_first_day;
mod shows_and_writes_agents;
mod shows_prices;
mod shows_questions_of_children;
mod shows_settings;
mod shows_the_work;
mod stopped_worker;
mod survives_malformed_requests;
mod tells_how_an_agent_ended;
mod tells_what_cannot_run;
mod tells_what_changed;
mod tries_again;
mod tries_programs;
mod uses_the_last_run;
mod vendors;
mod waits_for_no_pipe;
mod works_in_a_worktree;
