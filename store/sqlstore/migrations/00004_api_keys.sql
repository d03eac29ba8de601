-- The keys that applications issue to their customers: tens of millions of rows, so there is an index only if a read
-- needs it. And the feed of changed keys, after which servers drop their cached copy of a key.

-- +goose Up
CREATE TABLE api_keys (
    deployment      TEXT   NOT NULL,
    id              BIGINT NOT NULL,
    -- NULL for a key that was imported by its hash.
    public_id       TEXT,
    -- SHA-256 of the whole key.
    digest          BYTEA  NOT NULL,
    prefix          TEXT   NOT NULL,
    suffix          TEXT   NOT NULL,
    -- The slug of an APIAuthApp.
    app             TEXT   NOT NULL,
    name            TEXT   NOT NULL,
    -- A list in JSON.
    permissions     TEXT   NOT NULL,
    -- An object in JSON; empty: none.
    metadata        TEXT   NOT NULL,
    owner_user_id   BIGINT NOT NULL,
    organization_id BIGINT NOT NULL,
    workspace_id    BIGINT NOT NULL,
    -- The slug of a RateLimitScheme; empty: the app's.
    scheme          TEXT   NOT NULL,
    expires_at      BIGINT NOT NULL,
    -- When a key that another key replaced ends.
    retires_at      BIGINT NOT NULL,
    -- To the minute: the column is written at most once a minute.
    last_used_at    BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    revoked_at      BIGINT NOT NULL,
    revoked_reason  TEXT   NOT NULL,
    -- The id of the key that this one replaced.
    rotated_from    BIGINT NOT NULL,
    PRIMARY KEY (deployment, id)
);

CREATE UNIQUE INDEX api_keys_public_id ON api_keys (public_id);
CREATE UNIQUE INDEX api_keys_digest ON api_keys (digest);
CREATE INDEX api_keys_app ON api_keys (deployment, app, id);
CREATE INDEX api_keys_owner ON api_keys (deployment, owner_user_id, id) WHERE owner_user_id > 0;
CREATE INDEX api_keys_organization ON api_keys (deployment, organization_id, id) WHERE organization_id > 0;

-- One row. A transaction that changes keys updates it last, so that revisions are in the order of the commits.
CREATE TABLE api_key_feed (
    id       SMALLINT NOT NULL PRIMARY KEY CHECK (id = 1),
    revision BIGINT   NOT NULL,
    tag      TEXT     NOT NULL,
    -- Whether a key without a public id was ever imported. Until then, a string that does not have the form of a key
    -- needs no look-up.
    imported SMALLINT NOT NULL
);

CREATE TABLE api_key_log (
    revision   BIGINT NOT NULL,
    ordinal    BIGINT NOT NULL,
    tag        TEXT   NOT NULL,
    -- The digest of the key that changed; empty: any key may have changed.
    digest     BYTEA  NOT NULL,
    written_at BIGINT NOT NULL,
    PRIMARY KEY (revision, ordinal)
);

INSERT INTO api_key_feed (id, revision, tag, imported) VALUES (1, 0, '', 0);
-- Revision 0 is in the log, so that a reader of the empty store can continue from there.
INSERT INTO api_key_log (revision, ordinal, tag, digest, written_at) VALUES (0, 0, '', '', 0);
