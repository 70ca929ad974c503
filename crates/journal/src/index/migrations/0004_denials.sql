-- How often the agent of a run was denied something.
ALTER TABLE run ADD COLUMN denials INTEGER NOT NULL DEFAULT 0;
