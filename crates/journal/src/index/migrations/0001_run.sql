-- One row per ended run. Rows are inserted and deleted, never updated.
CREATE TABLE run (
    id            BLOB NOT NULL CHECK (length(id) = 16),
    ending        TEXT NOT NULL, -- The id's hexadecimal digits in reverse: an ending of the id is a prefix here.
    agent         TEXT NOT NULL,
    backend       TEXT NOT NULL,
    project       TEXT NOT NULL,
    caller        TEXT NOT NULL,
    session       TEXT,
    parent        BLOB,
    root          BLOB NOT NULL,
    outcome       TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    ended_at_ms   INTEGER NOT NULL,
    duration_ms   INTEGER NOT NULL,
    cost_microusd INTEGER,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    prompt_head   TEXT NOT NULL,
    error         TEXT
) STRICT;

CREATE UNIQUE INDEX run_by_id ON run (id);
CREATE INDEX run_by_ending ON run (ending, id);

-- Lists: each ends in the id, which sorts by time. The outcome comes before it, so that a filter by a rare outcome
-- reads no other rows; without that filter the lists of all outcomes are merged.
CREATE INDEX run_by_outcome ON run (outcome, id);
CREATE INDEX run_by_project ON run (project, outcome, id);
CREATE INDEX run_by_agent ON run (agent, outcome, id);
CREATE INDEX run_by_project_agent ON run (project, agent, outcome, id);
CREATE INDEX run_by_session ON run (session, id) WHERE session IS NOT NULL;
CREATE INDEX run_by_parent ON run (parent, id) WHERE parent IS NOT NULL;
CREATE INDEX run_by_root ON run (root, id);

-- What remains the greatest when a row of a roll-up goes.
CREATE INDEX run_by_duration ON run (project, agent, backend, duration_ms);
CREATE INDEX run_by_end ON run (project, agent, backend, ended_at_ms);
CREATE INDEX run_by_error ON run (project, agent, backend, ended_at_ms, id) WHERE error IS NOT NULL;

-- Whether every run directory has been read since this file was made.
CREATE TABLE completeness (complete INTEGER NOT NULL) STRICT;
INSERT INTO completeness VALUES (0);
