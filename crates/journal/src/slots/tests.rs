//! The public API of slots and their queue: within one process, and with processes that are killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use domain::Timestamp;
use domain::id::RunId;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::*;

const DEADLINE: Duration = Duration::from_secs(20);
const CHILD: &str = "VOLERY_TEST_SLOT_CHILD";

fn run(number: u64) -> RunId {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&number.to_be_bytes());
    RunId::from_parts(Timestamp::UNIX_EPOCH, random)
}

fn expect_slot(acquire: Acquisition) -> Slot {
    match acquire {
        Acquisition::Taken(slot) => slot,
        Acquisition::Queued(ticket) => panic!("queued as {}", ticket.number()),
    }
}

fn expect_ticket(acquire: Acquisition) -> Ticket {
    match acquire {
        Acquisition::Queued(ticket) => ticket,
        Acquisition::Taken(slot) => panic!("got slot {}", slot.number()),
    }
}

/// Waits like a keeper, but relies on the descriptor alone if there is one.
fn wait(ticket: &mut Ticket) -> Slot {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(slot) = ticket.try_advance().unwrap() {
            return slot;
        }
        assert!(Instant::now() < deadline, "ticket {} never got a slot", ticket.number());
        if ticket.recheck_after() < RECHECK {
            std::thread::sleep(ticket.recheck_after());
        } else if cfg!(target_os = "linux") {
            assert!(is_ready(ticket, DEADLINE), "ticket {} was never woken", ticket.number());
        } else {
            std::thread::sleep(RECHECK);
        }
    }
}

/// Waits until a condition holds.
///
/// A process that another test starts has copies of all descriptors until it executes its program, so within a test
/// binary a release may take effect a moment later.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn wait_for_slots_in_use(home: &Path, count: u32) {
    wait_until(&format!("{count} slots in use"), || slots_in_use(home).unwrap() == count);
}

fn is_ready(ticket: &Ticket, timeout: Duration) -> bool {
    let fd = ticket.as_fd().expect("this machine has FIFOs and epoll");
    let timeout = Timespec::try_from(timeout).unwrap();
    rustix::event::poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&timeout)).unwrap() > 0
}

#[test]
fn slots_are_given_out_up_to_their_number_and_come_back() {
    let home = tempfile::tempdir().unwrap();
    let slots = Slots::open(home.path(), 2, 10).unwrap();
    let first = expect_slot(slots.acquire(run(1)).unwrap());
    let second = expect_slot(slots.acquire(run(2)).unwrap());
    let (one, other) = (first.number(), second.number());
    assert_eq!((one.min(other), one.max(other)), (0, 1));
    assert_eq!(slots_in_use(home.path()).unwrap(), 2);
    let mut third = expect_ticket(slots.acquire(run(3)).unwrap());
    assert!(third.try_advance().unwrap().is_none());
    drop(first);
    assert_eq!(wait(&mut third).number(), one);
    wait_for_slots_in_use(home.path(), 1);
    drop(second);
    wait_for_slots_in_use(home.path(), 0);
}

#[test]
fn a_slot_stays_taken_while_either_copy_of_its_descriptor_lives() {
    let home = tempfile::tempdir().unwrap();
    let slots = Slots::open(home.path(), 1, 10).unwrap();
    let keeper = expect_slot(slots.acquire(run(1)).unwrap());
    let worker = keeper.as_fd().try_clone_to_owned().unwrap();
    let mut ticket = expect_ticket(slots.acquire(run(2)).unwrap());
    drop(keeper);
    assert!(ticket.try_advance().unwrap().is_none());
    assert_eq!(slots_in_use(home.path()).unwrap(), 1);
    drop(worker);
    wait(&mut ticket);
}

#[test]
fn a_full_queue_refuses_and_says_how_long_it_is() {
    let home = tempfile::tempdir().unwrap();
    let slots = Slots::open(home.path(), 1, 2).unwrap();
    let _slot = expect_slot(slots.acquire(run(1)).unwrap());
    let first = expect_ticket(slots.acquire(run(2)).unwrap());
    let _second = expect_ticket(slots.acquire(run(3)).unwrap());
    let refused = slots.acquire(run(4)).unwrap_err();
    assert!(matches!(refused, SlotError::QueueFull { len: 2, max: 2 }), "{refused}");
    // A waiter that leaves frees its position, also from the middle.
    drop(first);
    let _third = expect_ticket(slots.acquire(run(5)).unwrap());
}

#[test]
fn dead_tickets_do_not_fill_the_queue() {
    let home = tempfile::tempdir().unwrap();
    let slots = Slots::open(home.path(), 1, 2).unwrap();
    let _slot = expect_slot(slots.acquire(run(1)).unwrap());
    let _first = expect_ticket(slots.acquire(run(2)).unwrap());
    // What a killed waiter leaves behind: a ticket without a holder, before one with a holder.
    let dead = home.path().join(format!("slots/queue/{:020}.{}", 0, run(9)));
    std::fs::write(&dead, "").unwrap();
    let second = expect_ticket(slots.acquire(run(3)).unwrap());
    assert_eq!(queue_position(home.path(), run(3)), Some(2));
    assert!(!dead.exists());
    assert!(slots.acquire(run(4)).is_err());
    drop(second);
}

#[test]
fn no_queue_at_all_refuses_when_no_slot_is_free() {
    let home = tempfile::tempdir().unwrap();
    let slots = Slots::open(home.path(), 1, 0).unwrap();
    let slot = expect_slot(slots.acquire(run(1)).unwrap());
    assert!(matches!(slots.acquire(run(2)), Err(SlotError::QueueFull { len: 0, max: 0 })));
    drop(slot);
    wait_until("a slot", || slots.acquire(run(3)).is_ok());
}

#[test]
fn a_newcomer_does_not_overtake_those_who_wait() {
    let home = tempfile::tempdir().unwrap();
    let slots = Slots::open(home.path(), 1, 10).unwrap();
    let slot = expect_slot(slots.acquire(run(1)).unwrap());
    let mut first = expect_ticket(slots.acquire(run(2)).unwrap());
    drop(slot);
    let mut newcomer = expect_ticket(slots.acquire(run(3)).unwrap());
    assert!(newcomer.try_advance().unwrap().is_none());
    drop(wait(&mut first));
    wait(&mut newcomer);
}

#[test]
fn the_order_stays_when_waiters_leave_in_the_middle() {
    let home = tempfile::tempdir().unwrap();
    let slots = Slots::open(home.path(), 1, 64).unwrap();
    let mut slot = expect_slot(slots.acquire(run(0)).unwrap());
    let mut tickets: Vec<Option<Ticket>> =
        (1..=40).map(|n| Some(expect_ticket(slots.acquire(run(n)).unwrap()))).collect();
    for gone in [0, 3, 4, 5, 11, 12, 38, 39] {
        tickets[gone] = None;
    }
    let numbers: Vec<u64> = tickets.iter().flatten().map(Ticket::number).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    let mut waiting: Vec<Ticket> = tickets.into_iter().flatten().collect();
    while !waiting.is_empty() {
        // The waiters behind it try as well, before and after: they must not get the slot.
        for ticket in &mut waiting {
            assert!(ticket.try_advance().unwrap().is_none());
        }
        drop(slot);
        for ticket in waiting.iter_mut().skip(1).rev() {
            assert!(ticket.try_advance().unwrap().is_none());
        }
        slot = wait(&mut waiting.remove(0));
    }
}

#[test]
fn numbers_are_not_used_again() {
    let home = tempfile::tempdir().unwrap();
    let slots = Slots::open(home.path(), 1, 64).unwrap();
    let _slot = expect_slot(slots.acquire(run(0)).unwrap());
    let first = expect_ticket(slots.acquire(run(1)).unwrap()).number();
    let second = expect_ticket(slots.acquire(run(1)).unwrap()).number();
    assert_eq!((first, second), (1, 2));
    // A damaged counter neither blocks anyone nor puts a new waiter first.
    let third = expect_ticket(slots.acquire(run(1)).unwrap());
    std::fs::write(home.path().join("slots/queue.lock"), [0xff; 40]).unwrap();
    let fourth = expect_ticket(slots.acquire(run(2)).unwrap());
    assert_eq!((third.number(), fourth.number()), (3, 4));
}

#[test]
fn the_queue_position_of_a_run_can_be_read() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(queue_position(home.path(), run(1)), None);
    assert_eq!(slots_in_use(home.path()).unwrap(), 0);
    let slots = Slots::open(home.path(), 1, 10).unwrap();
    let _slot = expect_slot(slots.acquire(run(1)).unwrap());
    let first = expect_ticket(slots.acquire(run(2)).unwrap());
    let _second = expect_ticket(slots.acquire(run(3)).unwrap());
    let positions = || [1, 2, 3].map(|n| queue_position(home.path(), run(n)));
    assert_eq!(positions(), [None, Some(1), Some(2)]);
    drop(first);
    wait_until("the second is next", || positions() == [None, None, Some(1)]);
}

#[test]
fn a_release_wakes_two_of_256_waiters() {
    let home = tempfile::tempdir().unwrap();
    let slots = Slots::open(home.path(), 1, 256).unwrap();
    let mut slot = expect_slot(slots.acquire(run(0)).unwrap());
    let started = Instant::now();
    let mut waiting: Vec<Ticket> = (1..=256).map(|n| expect_ticket(slots.acquire(run(n)).unwrap())).collect();
    assert!(started.elapsed() < Duration::from_secs(5), "queueing took {:?}", started.elapsed());
    let ready = |waiting: &[Ticket]| -> Vec<usize> {
        let now = Duration::ZERO;
        waiting.iter().enumerate().filter(|(_, ticket)| is_ready(ticket, now)).map(|(at, _)| at).collect()
    };
    for _ in 0..8 {
        assert_eq!(ready(&waiting), Vec::<usize>::new());
        drop(slot);
        assert!(is_ready(&waiting[0], DEADLINE));
        assert_eq!(ready(&waiting), [0], "only the first is woken by a release");
        slot = wait(&mut waiting.remove(0));
        assert!(is_ready(&waiting[0], DEADLINE));
        assert_eq!(ready(&waiting), [0], "only the second is woken by the first's leaving");
        assert!(waiting[0].try_advance().unwrap().is_none());
    }
}

/// A separate process that waits for a slot, reports that, and holds the slot until its input ends.
struct OtherProcess {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl OtherProcess {
    #[expect(clippy::disallowed_methods, reason = "a test of what a kill does needs a process to kill")]
    fn start(home: &Path, number: u64) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "slots::tests::as_another_process", "--nocapture", "--test-threads=1"])
            .env(CHILD, format!("{number}:{}", home.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    fn expect(&mut self, expected: &str) {
        for line in self.output.by_ref().lines() {
            if line.unwrap().ends_with(expected) {
                return;
            }
        }
        panic!("the other process ended without saying {expected:?}");
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn finish(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

/// Not a test by itself: [`OtherProcess`] runs it.
#[test]
#[expect(clippy::disallowed_methods, reason = "the only way to tell a test binary what to do in a child")]
fn as_another_process() {
    let Ok(task) = std::env::var(CHILD) else { return };
    let (number, home) = task.split_once(':').unwrap();
    let slots = Slots::open(&PathBuf::from(home), 1, 64).unwrap();
    let slot = match slots.acquire(run(number.parse().unwrap())).unwrap() {
        Acquisition::Taken(slot) => slot,
        Acquisition::Queued(mut ticket) => {
            println!("\nqueued");
            wait(&mut ticket)
        }
    };
    println!("\ntaken");
    std::io::stdout().flush().unwrap();
    let end = std::io::stdin().lock().lines().count();
    assert_eq!(end, 0);
    drop(slot);
}

#[test]
fn killed_holders_and_waiters_leak_nothing_and_keep_the_order() {
    let home = tempfile::tempdir().unwrap();
    let mut holder = OtherProcess::start(home.path(), 0);
    holder.expect("taken");
    let mut waiting = Vec::new();
    for number in 1..=8 {
        let mut other = OtherProcess::start(home.path(), number);
        other.expect("queued");
        waiting.push((number, other));
    }
    assert_eq!(queue_position(home.path(), run(8)), Some(8));
    // The first, two neighbours in the middle, and the last.
    for gone in [7, 4, 3, 0] {
        waiting.remove(gone).1.kill();
    }
    wait_until("the seventh is fourth", || queue_position(home.path(), run(7)) == Some(4));
    holder.kill();
    for (kill, (number, mut other)) in [true, false, true, false].into_iter().zip(waiting) {
        other.expect("taken");
        assert_eq!(slots_in_use(home.path()).unwrap(), 1, "while {number} works");
        if kill { other.kill() } else { other.finish() }
    }
    wait_for_slots_in_use(home.path(), 0);
    let slots = Slots::open(home.path(), 1, 64).unwrap();
    expect_slot(slots.acquire(run(9)).unwrap());
    let tickets = std::fs::read_dir(home.path().join("slots/queue")).unwrap().count();
    assert_eq!(tickets, 0, "the dead are removed by those who come after");
}

#[test]
fn never_more_hold_than_there_are_slots() {
    let home = tempfile::tempdir().unwrap();
    let working = std::sync::atomic::AtomicU32::new(0);
    let most = std::sync::atomic::AtomicU32::new(0);
    let order = std::sync::atomic::Ordering::SeqCst;
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let (home, working, most) = (home.path(), &working, &most);
            scope.spawn(move || {
                let slots = Slots::open(home, 3, 64).unwrap();
                for round in 0..20 {
                    let slot = match slots.acquire(run(thread * 100 + round)).unwrap() {
                        Acquisition::Taken(slot) => slot,
                        Acquisition::Queued(mut ticket) => wait(&mut ticket),
                    };
                    most.fetch_max(working.fetch_add(1, order) + 1, order);
                    std::thread::yield_now();
                    working.fetch_sub(1, order);
                    drop(slot);
                }
            });
        }
    });
    assert!((1..=3).contains(&most.load(order)), "{} at once", most.load(order));
    wait_for_slots_in_use(home.path(), 0);
}

#[test]
fn ordinary_files_serve_where_there_are_no_fifos() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join("slots/queue")).unwrap();
    std::fs::write(home.path().join("slots/slot-0"), "").unwrap();
    let slots = Slots::open(home.path(), 1, 10).unwrap();
    let slot = expect_slot(slots.acquire(run(1)).unwrap());
    let mut ticket = expect_ticket(slots.acquire(run(2)).unwrap());
    assert!(ticket.try_advance().unwrap().is_none());
    drop(slot);
    wait_until("a slot", || ticket.try_advance().unwrap().is_some());
}

#[test]
fn a_stopped_holder_of_the_lock_does_not_block_a_waiter() {
    let home = tempfile::tempdir().unwrap();
    let slots = Slots::open(home.path(), 1, 10).unwrap();
    let slot = expect_slot(slots.acquire(run(1)).unwrap());
    let mut ticket = expect_ticket(slots.acquire(run(2)).unwrap());
    let stopped = super::directory::SlotsDir::in_home(home.path()).lock(DEADLINE).unwrap().unwrap();
    drop(slot);
    let started = Instant::now();
    assert!(ticket.try_advance().unwrap().is_none());
    assert!(started.elapsed() < Duration::from_secs(2));
    assert!(ticket.recheck_after() < RECHECK, "nothing tells when the lock is free");
    drop(stopped);
    wait(&mut ticket);
}
