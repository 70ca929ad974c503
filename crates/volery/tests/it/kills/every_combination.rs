//! SIGKILL of server, keeper and worker in every combination, at each named point of a run. With a keeper left, the
//! run has its outcome within a second and nobody needs to look; without, whoever looks next finds it out. Nothing
//! is ever left behind, with a pid namespace or without.

use super::play::{COMBINATIONS, Case, RUNNING, Victim, WITHOUT_WORKER, play};

fn play_all(point: &'static str, combinations: &[&'static [Victim]]) {
    for victims in combinations {
        for containment in ["auto", "plain"] {
            play(Case { point, victims, containment });
        }
    }
}

#[test]
fn while_the_door_makes_the_record_durable() {
    play_all("door_started_keeper", &WITHOUT_WORKER);
}

#[test]
fn when_the_door_has_said_go() {
    play_all("door_said_go", &COMBINATIONS);
}

#[test]
fn when_the_keeper_has_started() {
    play_all("keeper_started", &WITHOUT_WORKER);
}

#[test]
fn when_the_worker_has_claimed_the_run() {
    play_all("worker_claimed", &COMBINATIONS);
}

#[test]
fn when_the_agent_was_started() {
    play_all("worker_spawned_agent", &COMBINATIONS);
}

#[test]
fn while_the_agent_works() {
    play_all(RUNNING, &COMBINATIONS);
}

#[test]
fn when_the_agent_has_ended() {
    play_all("worker_saw_exit", &COMBINATIONS);
}

#[test]
fn when_nothing_is_left_of_the_agent() {
    play_all("worker_swept", &COMBINATIONS);
}

#[test]
fn when_the_outcome_was_written() {
    play_all("worker_wrote_outcome", &COMBINATIONS);
}
