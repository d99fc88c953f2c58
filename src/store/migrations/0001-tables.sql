-- One row: who this data folder belongs to.
CREATE TABLE identity (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    raft_id    INTEGER NOT NULL,
    generation INTEGER NOT NULL
) STRICT;

-- The newest register of every subject this node has seen, by its own writer.
CREATE TABLE holds (
    subject  TEXT PRIMARY KEY,
    record   TEXT NOT NULL,
    age_ms   INTEGER NOT NULL, -- when saved, in the node's own (scaled) time
    saved_at INTEGER NOT NULL  -- wall clock, ms
) STRICT, WITHOUT ROWID;

-- The same, as the regional leader's snapshots brought it.
CREATE TABLE snapshot (
    subject  TEXT PRIMARY KEY,
    record   TEXT NOT NULL,
    age_ms   INTEGER NOT NULL,
    saved_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row: who saved it, when.
CREATE TABLE snapshot_info (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    info TEXT NOT NULL
) STRICT;

CREATE TABLE raft_log (
    log_index INTEGER PRIMARY KEY,
    entry     BLOB NOT NULL
) STRICT;

CREATE TABLE raft_values (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Settings and admin edits. A row without a body is a tombstone.
CREATE TABLE documents (
    name    TEXT PRIMARY KEY,
    ms      INTEGER NOT NULL, -- the stamp: it orders writes
    counter INTEGER NOT NULL,
    node    INTEGER NOT NULL,
    body    BLOB              -- sealed
) STRICT, WITHOUT ROWID;

-- One row: how the key of the bodies is recognised.
CREATE TABLE seal (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    salt  BLOB NOT NULL,
    proof BLOB NOT NULL
) STRICT;
