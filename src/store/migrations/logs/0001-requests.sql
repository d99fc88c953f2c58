-- Request log records. Ids are the clients' own, so they may repeat: the newest is the one meant.
CREATE TABLE requests (
    number   INTEGER PRIMARY KEY,
    id       TEXT NOT NULL,
    at       TEXT NOT NULL, -- RFC 3339, UTC, milliseconds: sorts as time
    provider TEXT NOT NULL,
    model    TEXT NOT NULL,
    status   TEXT NOT NULL,
    object   TEXT NOT NULL,
    key_id   TEXT,
    latency  INTEGER NOT NULL,
    tokens   INTEGER NOT NULL,
    record   TEXT NOT NULL
) STRICT;
CREATE INDEX requests_by_id ON requests (id);
