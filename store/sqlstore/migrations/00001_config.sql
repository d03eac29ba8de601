-- One text serves both engines: BIGINT, SMALLINT and TEXT mean the same in each, and SQLite stores a blob in a BYTEA
-- column unchanged. Times are int64 microseconds UTC, flags are 0 or 1, and the program supplies every value.

-- +goose Up
CREATE TABLE store (
    id               SMALLINT NOT NULL PRIMARY KEY CHECK (id = 1),
    store_id         TEXT     NOT NULL,
    epoch            BIGINT   NOT NULL,
    install          TEXT     NOT NULL,
    install_beat     BIGINT   NOT NULL,
    install_released SMALLINT NOT NULL,
    revision         BIGINT   NOT NULL,
    tag              TEXT     NOT NULL
);

CREATE TABLE documents (
    kind       TEXT     NOT NULL,
    namespace  TEXT     NOT NULL,
    name       TEXT     NOT NULL,
    uid        TEXT     NOT NULL,
    generation BIGINT   NOT NULL,
    deployment TEXT     NOT NULL,
    id         BIGINT   NOT NULL,
    key        TEXT     NOT NULL,
    hash       TEXT     NOT NULL,
    payload    BYTEA    NOT NULL,
    retained   SMALLINT NOT NULL,
    revision   BIGINT   NOT NULL,
    PRIMARY KEY (kind, namespace, name)
);

-- The feed reads the changes after a revision.
CREATE INDEX documents_revision ON documents (revision);

CREATE TABLE claims (
    claim     TEXT NOT NULL PRIMARY KEY,
    kind      TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name      TEXT NOT NULL,
    uid       TEXT NOT NULL
);

CREATE INDEX claims_owner ON claims (kind, namespace, name);

CREATE TABLE feed (
    revision   BIGINT   NOT NULL PRIMARY KEY,
    tag        TEXT     NOT NULL,
    kind       TEXT     NOT NULL,
    namespace  TEXT     NOT NULL,
    name       TEXT     NOT NULL,
    deleted    SMALLINT NOT NULL,
    written_at BIGINT   NOT NULL
);
