//! Starts an admitted run: writes the record, starts the keeper, makes the record durable, and sends the go.

use std::ffi::OsString;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;

use domain::id::RunId;
use domain::run::{Idempotency, OnDisconnect, RunSpec};
use journal::NewRun;
use journal::idempotency_keys::{self, Claim, KeyScope};
use process::{self, KeeperRequest, ProcessHandle};

use super::launch_plan::mask_secrets;
use crate::api::{Attachment, EngineError, StartedRun};
use crate::engine::{Engine, store_error};
use crate::ipc::run_channels;
use crate::ipc::wire::{self, DoorMessage};
use crate::registry::Catalog;
use crate::wait_readable::wait_readable;
use crate::{current_exe, failpoint, iac};

/// The descriptors of the run's channel and lock, which the keeper inherits.
pub(crate) const CHANNEL_FD: i32 = 3;
pub(crate) const LOCK_FD: i32 = 4;

/// Called with a run that is recorded and not started yet; an error discards the run.
pub(crate) type OnRecorded<'a> = &'a mut dyn FnMut(&RunSpec) -> Result<(), EngineError>;

impl Engine {
    pub(crate) fn launch(
        &self,
        mut spec: RunSpec,
        catalog: &Catalog,
        attachment: Attachment,
        on_recorded: OnRecorded<'_>,
    ) -> Result<StartedRun, EngineError> {
        self.mask_shown_task(&mut spec);
        let new_run = self.home.create_run(&spec).map_err(not_recorded)?;
        failpoint::reach("door_wrote_spec");
        let mut warnings = spec.warnings.clone();
        if let (Some(idempotency), Some(scope)) = (&spec.idempotency, KeyScope::from_spec(&spec)) {
            // The key points to a record that must be there after a crash.
            new_run.make_durable().map_err(store_error)?;
            let claim = idempotency_keys::claim(&self.home, &scope, spec.id, &idempotency.fingerprint);
            match claim.map_err(store_error)? {
                Claim::New => {}
                Claim::Owned { run, fingerprint } => {
                    let NewRun { dir, lock, .. } = new_run;
                    dir.discard(lock).map_err(store_error)?;
                    return reuse_run(idempotency, run, &fingerprint);
                }
            }
        }
        if spec.iac.is_some() {
            // Before the keeper starts, so that the run itself sees the file with its own line.
            warnings.extend(iac::record_start(&self.home, &spec));
        }
        let create_channel = || run_channels::create_pair().map_err(os_error("make a leash"));
        let launched =
            on_recorded(&spec).and_then(|()| create_channel()).and_then(|(channel, keeper_end)| {
                self.start_keeper(&new_run, &keeper_end, catalog)?;
                Ok(channel)
            });
        let channel = match launched {
            Ok(channel) => channel,
            Err(error) => {
                self.discard_run(new_run, &spec);
                return Err(error);
            }
        };
        failpoint::reach("door_started_keeper");
        let durable = new_run.make_durable();
        let message = if durable.is_ok() { DoorMessage::Go } else { DoorMessage::Abort };
        // If the keeper has already died, the next command that reconciles the run finds it.
        let _ = (&channel).write_all(&wire::encode_line(&message));
        if let Err(error) = durable {
            self.discard_run(new_run, &spec);
            return Err(not_recorded(error));
        }
        failpoint::reach("door_said_go");
        let policy = match attachment {
            Attachment::Attached => spec.on_disconnect,
            Attachment::Detached => OnDisconnect::Continue,
        };
        let run_id = spec.id;
        self.channels.add(spec, channel, policy).map_err(os_error("hold the leash"))?;
        failpoint::reach("door_holds_leash");
        Ok(StartedRun { run_id, reused: false, warnings })
    }

    /// Discards a run that was not accepted, and its key. A record that cannot be removed now counts as a run that
    /// never started.
    fn discard_run(&self, new_run: NewRun, spec: &RunSpec) {
        if let Some(scope) = KeyScope::from_spec(spec) {
            let _ = idempotency_keys::release(&self.home, &scope, spec.id);
        }
        let NewRun { dir, lock, .. } = new_run;
        let _ = dir.discard(lock);
        iac::record_end(&self.home, spec);
    }

    /// Masks the run's keys in its shown task, which everybody can read.
    fn mask_shown_task(&self, spec: &mut RunSpec) {
        if spec.iac.is_none() {
            return;
        }
        let masked = mask_secrets(&self.home.run_dir(spec.id), spec, spec.task());
        let shown = Some(masked).filter(|masked| masked != spec.task());
        if let Some(iac) = &mut spec.iac {
            iac.redacted_task = shown;
        }
    }

    fn start_keeper(
        &self,
        new_run: &NewRun,
        channel: &impl AsFd,
        catalog: &Catalog,
    ) -> Result<(), EngineError> {
        let program = current_exe::path().map_err(os_error("find this program"))?;
        let slots = crate::slot_count::slot_count(&catalog.config);
        let args: [OsString; 4] = [
            "__keeper".into(),
            new_run.dir.path().into(),
            slots.to_string().into(),
            catalog.config.slots_queue.value.to_string().into(),
        ];
        let worker_log = new_run.dir.worker_log_path();
        let request = KeeperRequest {
            program: &program,
            args: &args,
            fds: &[(channel.as_fd(), CHANNEL_FD), (new_run.lock.as_fd(), LOCK_FD)],
            stderr: Some(&worker_log),
            directory: Path::new("/"),
        };
        let keeper = process::spawn_keeper(&request).map_err(os_error("start a keeper"))?;
        self.reap_later(keeper);
        Ok(())
    }

    /// Reaps the process that was started as a keeper when it has ended, without waiting here. It ends at once if the
    /// keeper could leave its starter.
    fn reap_later(&self, keeper: ProcessHandle) {
        let Ok(ended) = keeper.as_fd().try_clone_to_owned() else { return };
        tokio::spawn(async move {
            // If it cannot be awaited or reaped, its entry stays until this door ends.
            if wait_readable(ended).await.is_ok() {
                let _ = keeper.try_reap();
            }
        });
    }
}

pub(crate) fn reuse_run(
    idempotency: &Idempotency,
    run: RunId,
    fingerprint: &str,
) -> Result<StartedRun, EngineError> {
    if idempotency.fingerprint == fingerprint {
        return Ok(StartedRun { run_id: run, reused: true, warnings: Vec::new() });
    }
    let message = format!(
        "the idempotency key {} was used for another request, which made the run {}",
        idempotency.key,
        run.short()
    );
    Err(EngineError::usage(message).hint("use a new key for a new request"))
}

/// Turns an error into one that says that nothing was started: a run without a record does not exist.
fn not_recorded(error: journal::StoreError) -> EngineError {
    let mut app_error = store_error(error);
    app_error.message =
        format!("the run could not be recorded, so nothing was started: {}", app_error.message);
    app_error
}

fn os_error(what: &'static str) -> impl Fn(std::io::Error) -> EngineError {
    move |error| EngineError::internal(format!("could not {what}: {error}"))
}
