-- Whose a run is that was asked for over HTTP: who shows the token sees its runs and no others.
ALTER TABLE run ADD COLUMN token TEXT;
CREATE INDEX run_by_token ON run (token, id) WHERE token IS NOT NULL;
