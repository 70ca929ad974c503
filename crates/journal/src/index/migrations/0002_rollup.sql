-- Sums per project, agent and backend. Kept by the triggers alone, so they equal what a rebuild gives.
CREATE TABLE rollup (
    project           TEXT NOT NULL,
    agent             TEXT NOT NULL,
    backend           TEXT NOT NULL,
    runs              INTEGER NOT NULL,
    succeeded         INTEGER NOT NULL,
    partial           INTEGER NOT NULL,
    failed            INTEGER NOT NULL,
    timed_out         INTEGER NOT NULL,
    cancelled         INTEGER NOT NULL,
    over_budget       INTEGER NOT NULL,
    refused           INTEGER NOT NULL,
    interrupted       INTEGER NOT NULL,
    duration_sum_ms   INTEGER NOT NULL,
    duration_max_ms   INTEGER NOT NULL,
    cost_runs         INTEGER NOT NULL, -- How many runs have a known cost.
    cost_sum_microusd INTEGER NOT NULL,
    input_tokens_sum  INTEGER NOT NULL,
    output_tokens_sum INTEGER NOT NULL,
    last_ended_at_ms  INTEGER NOT NULL,
    last_error        TEXT,
    last_error_at_ms  INTEGER,
    last_error_run    BLOB,
    PRIMARY KEY (project, agent, backend)
) STRICT, WITHOUT ROWID;

-- Who was at work last.
CREATE INDEX rollup_by_end ON rollup (last_ended_at_ms);

-- How many rows the two tables have: counting them would read them all.
CREATE TABLE total (runs INTEGER NOT NULL, rollups INTEGER NOT NULL) STRICT;
INSERT INTO total VALUES (0, 0);

CREATE TRIGGER rollup_added AFTER INSERT ON rollup BEGIN
    UPDATE total SET rollups = rollups + 1;
END;

CREATE TRIGGER rollup_removed AFTER DELETE ON rollup BEGIN
    UPDATE total SET rollups = rollups - 1;
END;

CREATE TRIGGER run_added AFTER INSERT ON run BEGIN
    UPDATE total SET runs = runs + 1;
    INSERT INTO rollup VALUES (
        new.project, new.agent, new.backend, 1,
        new.outcome = 'succeeded', new.outcome = 'partial', new.outcome = 'failed', new.outcome = 'timed_out',
        new.outcome = 'cancelled', new.outcome = 'over_budget', new.outcome = 'refused', new.outcome = 'interrupted',
        new.duration_ms, new.duration_ms,
        new.cost_microusd IS NOT NULL, coalesce(new.cost_microusd, 0), new.input_tokens, new.output_tokens,
        new.ended_at_ms,
        new.error, iif(new.error IS NULL, NULL, new.ended_at_ms), iif(new.error IS NULL, NULL, new.id)
    )
    ON CONFLICT (project, agent, backend) DO UPDATE SET
        runs              = runs + 1,
        succeeded         = succeeded + excluded.succeeded,
        partial           = partial + excluded.partial,
        failed            = failed + excluded.failed,
        timed_out         = timed_out + excluded.timed_out,
        cancelled         = cancelled + excluded.cancelled,
        over_budget       = over_budget + excluded.over_budget,
        refused           = refused + excluded.refused,
        interrupted       = interrupted + excluded.interrupted,
        duration_sum_ms   = duration_sum_ms + excluded.duration_sum_ms,
        duration_max_ms   = max(duration_max_ms, excluded.duration_max_ms),
        cost_runs         = cost_runs + excluded.cost_runs,
        cost_sum_microusd = cost_sum_microusd + excluded.cost_sum_microusd,
        input_tokens_sum  = input_tokens_sum + excluded.input_tokens_sum,
        output_tokens_sum = output_tokens_sum + excluded.output_tokens_sum,
        last_ended_at_ms  = max(last_ended_at_ms, excluded.last_ended_at_ms);
    UPDATE rollup SET last_error = new.error, last_error_at_ms = new.ended_at_ms, last_error_run = new.id
        WHERE project = new.project AND agent = new.agent AND backend = new.backend
          AND new.error IS NOT NULL
          AND (last_error_run IS NULL OR (last_error_at_ms, last_error_run) < (new.ended_at_ms, new.id));
END;

CREATE TRIGGER run_removed AFTER DELETE ON run BEGIN
    UPDATE total SET runs = runs - 1;
    UPDATE rollup SET
        runs              = runs - 1,
        succeeded         = succeeded - (old.outcome = 'succeeded'),
        partial           = partial - (old.outcome = 'partial'),
        failed            = failed - (old.outcome = 'failed'),
        timed_out         = timed_out - (old.outcome = 'timed_out'),
        cancelled         = cancelled - (old.outcome = 'cancelled'),
        over_budget       = over_budget - (old.outcome = 'over_budget'),
        refused           = refused - (old.outcome = 'refused'),
        interrupted       = interrupted - (old.outcome = 'interrupted'),
        duration_sum_ms   = duration_sum_ms - old.duration_ms,
        cost_runs         = cost_runs - (old.cost_microusd IS NOT NULL),
        cost_sum_microusd = cost_sum_microusd - coalesce(old.cost_microusd, 0),
        input_tokens_sum  = input_tokens_sum - old.input_tokens,
        output_tokens_sum = output_tokens_sum - old.output_tokens
        WHERE project = old.project AND agent = old.agent AND backend = old.backend;
    DELETE FROM rollup
        WHERE project = old.project AND agent = old.agent AND backend = old.backend AND runs = 0;
    UPDATE rollup SET duration_max_ms = (
            SELECT duration_ms FROM run INDEXED BY run_by_duration
            WHERE project = old.project AND agent = old.agent AND backend = old.backend
            ORDER BY duration_ms DESC LIMIT 1)
        WHERE project = old.project AND agent = old.agent AND backend = old.backend
          AND duration_max_ms = old.duration_ms;
    UPDATE rollup SET last_ended_at_ms = (
            SELECT ended_at_ms FROM run INDEXED BY run_by_end
            WHERE project = old.project AND agent = old.agent AND backend = old.backend
            ORDER BY ended_at_ms DESC LIMIT 1)
        WHERE project = old.project AND agent = old.agent AND backend = old.backend
          AND last_ended_at_ms = old.ended_at_ms;
    UPDATE rollup SET (last_error, last_error_at_ms, last_error_run) = (
            SELECT error, ended_at_ms, id FROM run INDEXED BY run_by_error
            WHERE project = old.project AND agent = old.agent AND backend = old.backend AND error IS NOT NULL
            ORDER BY ended_at_ms DESC, id DESC LIMIT 1)
        WHERE project = old.project AND agent = old.agent AND backend = old.backend
          AND last_error_run = old.id;
END;
