-- What nodes saw of troubles: this one, and what others told it.
CREATE TABLE sightings (
    node     TEXT NOT NULL,
    id       TEXT NOT NULL,
    is_open  INTEGER NOT NULL,
    last_at  INTEGER,          -- wall clock, ms: retention counts from it; null while it goes on
    told_at  INTEGER NOT NULL, -- when it was written here
    sighting TEXT NOT NULL,
    PRIMARY KEY (node, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX sightings_by_end ON sightings (last_at);

-- One row: when this node was last known to live.
CREATE TABLE alive (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    at  INTEGER NOT NULL
) STRICT;

-- What scores are of.
CREATE TABLE series (
    number INTEGER PRIMARY KEY,
    entity TEXT NOT NULL UNIQUE
) STRICT;

-- Scores and weights in steps of three lengths; the longer the step, the longer it is kept.
CREATE TABLE scores (
    step   INTEGER NOT NULL, -- s
    series INTEGER NOT NULL REFERENCES series (number) ON DELETE CASCADE,
    at     INTEGER NOT NULL, -- s since the epoch, when the step begins
    count  INTEGER NOT NULL,
    total  REAL NOT NULL,
    state  INTEGER NOT NULL, -- the worst
    PRIMARY KEY (step, series, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX scores_by_age ON scores (step, at);
