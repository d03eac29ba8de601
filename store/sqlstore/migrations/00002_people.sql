-- Rows of users, written by servers, never by the operator. Every row is keyed by its deployment ("namespace/name"), so
-- that a statement for one tenant can neither reach nor erase rows of another. Times are int64 microseconds UTC, 0 if
-- absent; ids are 63 bits, 0 if absent.

-- +goose Up
CREATE TABLE users (
    deployment      TEXT     NOT NULL,
    id              BIGINT   NOT NULL,
    first_name      TEXT     NOT NULL,
    last_name       TEXT     NOT NULL,
    disabled        SMALLINT NOT NULL,
    -- The last active organization, in which the next sign-in starts.
    organization_id BIGINT   NOT NULL,
    created_at      BIGINT   NOT NULL,
    updated_at      BIGINT   NOT NULL,
    PRIMARY KEY (deployment, id)
);

CREATE INDEX users_newest ON users (deployment, created_at, id);

CREATE TABLE emails (
    deployment  TEXT     NOT NULL,
    id          BIGINT   NOT NULL,
    user_id     BIGINT   NOT NULL,
    address     TEXT     NOT NULL,
    -- The address in the form for comparison.
    folded      TEXT     NOT NULL,
    is_primary  SMALLINT NOT NULL,
    verified_at BIGINT   NOT NULL,
    created_at  BIGINT   NOT NULL,
    PRIMARY KEY (deployment, id)
);

CREATE UNIQUE INDEX emails_folded ON emails (deployment, folded);
CREATE INDEX emails_user ON emails (deployment, user_id);

CREATE TABLE phones (
    deployment  TEXT     NOT NULL,
    id          BIGINT   NOT NULL,
    user_id     BIGINT   NOT NULL,
    number      TEXT     NOT NULL,
    region      TEXT     NOT NULL,
    is_primary  SMALLINT NOT NULL,
    verified_at BIGINT   NOT NULL,
    created_at  BIGINT   NOT NULL,
    PRIMARY KEY (deployment, id)
);

CREATE UNIQUE INDEX phones_of_user ON phones (deployment, user_id, number);
-- A number has one verified owner.
CREATE UNIQUE INDEX phones_verified ON phones (deployment, number) WHERE verified_at > 0;

CREATE TABLE credentials (
    deployment TEXT   NOT NULL,
    user_id    BIGINT NOT NULL,
    kind       TEXT   NOT NULL,
    secret     TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (deployment, user_id, kind)
);

CREATE TABLE sessions (
    deployment    TEXT     NOT NULL,
    id            BIGINT   NOT NULL,
    -- An anonymous session only owns attempts.
    anonymous     SMALLINT NOT NULL,
    active_signin BIGINT   NOT NULL,
    -- Whether the session may own attempts that are not completed.
    attempting    SMALLINT NOT NULL,
    address       TEXT     NOT NULL,
    user_agent    TEXT     NOT NULL,
    created_at    BIGINT   NOT NULL,
    used_at       BIGINT   NOT NULL,
    expires_at    BIGINT   NOT NULL,
    PRIMARY KEY (deployment, id)
);

CREATE INDEX sessions_pending ON sessions (deployment, address, expires_at) WHERE anonymous = 1;
CREATE INDEX sessions_expiry ON sessions (expires_at);

CREATE TABLE session_tokens (
    deployment TEXT   NOT NULL,
    -- SHA-256 of the token.
    hash       BYTEA  NOT NULL,
    session_id BIGINT NOT NULL,
    -- The token that this one replaced; empty for the first.
    parent     BYTEA  NOT NULL,
    created_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL,
    dies_at    BIGINT NOT NULL,
    -- Whether a sign-in ended the token: its later use is refused, and is no sign of theft.
    replaced   SMALLINT NOT NULL,
    PRIMARY KEY (deployment, hash)
);

CREATE INDEX session_tokens_session ON session_tokens (deployment, session_id);

CREATE TABLE signins (
    deployment      TEXT   NOT NULL,
    id              BIGINT NOT NULL,
    session_id      BIGINT NOT NULL,
    user_id         BIGINT NOT NULL,
    method          TEXT   NOT NULL,
    organization_id BIGINT NOT NULL,
    workspace_id    BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    PRIMARY KEY (deployment, id)
);

CREATE UNIQUE INDEX signins_session ON signins (deployment, session_id, user_id);
CREATE INDEX signins_user ON signins (deployment, user_id);

CREATE TABLE attempts (
    deployment        TEXT     NOT NULL,
    id                BIGINT   NOT NULL,
    session_id        BIGINT   NOT NULL,
    kind              TEXT     NOT NULL,
    method            TEXT     NOT NULL,
    email             TEXT     NOT NULL,
    folded            TEXT     NOT NULL,
    -- The account of the attempt; 0: unknown, or not created yet.
    user_id           BIGINT   NOT NULL,
    first_name        TEXT     NOT NULL,
    last_name         TEXT     NOT NULL,
    password_hash     TEXT     NOT NULL,
    organization_name TEXT     NOT NULL,
    invitation_id     BIGINT   NOT NULL,
    completed         SMALLINT NOT NULL,
    created_at        BIGINT   NOT NULL,
    expires_at        BIGINT   NOT NULL,
    PRIMARY KEY (deployment, id)
);

CREATE INDEX attempts_session ON attempts (deployment, session_id);
CREATE INDEX attempts_expiry ON attempts (expires_at);

CREATE TABLE challenges (
    deployment  TEXT     NOT NULL,
    id          BIGINT   NOT NULL,
    purpose     TEXT     NOT NULL,
    channel     TEXT     NOT NULL,
    -- What the challenge verifies: a phone, or an attempt.
    subject_id  BIGINT   NOT NULL,
    session_id  BIGINT   NOT NULL,
    user_id     BIGINT   NOT NULL,
    recipient   TEXT     NOT NULL,
    region      TEXT     NOT NULL,
    address     TEXT     NOT NULL,
    -- Whether a message was sent; the challenge of an unknown account sends none.
    sent        SMALLINT NOT NULL,
    salt        BYTEA    NOT NULL,
    mac         BYTEA    NOT NULL,
    key_id      TEXT     NOT NULL,
    tries       BIGINT   NOT NULL,
    superseded  SMALLINT NOT NULL,
    consumed_at BIGINT   NOT NULL,
    created_at  BIGINT   NOT NULL,
    expires_at  BIGINT   NOT NULL,
    PRIMARY KEY (deployment, id)
);

CREATE INDEX challenges_recipient ON challenges (deployment, purpose, recipient, created_at);
CREATE INDEX challenges_subject ON challenges (deployment, purpose, subject_id, created_at);
CREATE INDEX challenges_address ON challenges (deployment, channel, address, created_at);
CREATE INDEX challenges_age ON challenges (deployment, channel, created_at);

CREATE TABLE failures (
    deployment TEXT   NOT NULL,
    scope      TEXT   NOT NULL,
    subject    TEXT   NOT NULL,
    failed     BIGINT NOT NULL,
    until      BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (deployment, scope, subject)
);

CREATE INDEX failures_age ON failures (updated_at);

CREATE TABLE outbox (
    deployment   TEXT   NOT NULL,
    id           BIGINT NOT NULL,
    challenge_id BIGINT NOT NULL,
    channel      TEXT   NOT NULL,
    recipient    TEXT   NOT NULL,
    -- Sealed; empty once the message has its final state.
    sealed       TEXT   NOT NULL,
    state        TEXT   NOT NULL,
    tries        BIGINT NOT NULL,
    next_at      BIGINT NOT NULL,
    lease        TEXT   NOT NULL,
    provider_id  TEXT   NOT NULL,
    reason       TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    PRIMARY KEY (deployment, id)
);

CREATE INDEX outbox_due ON outbox (next_at) WHERE state = 'pending';
CREATE INDEX outbox_age ON outbox (created_at);
CREATE INDEX outbox_challenge ON outbox (deployment, challenge_id);

CREATE TABLE organizations (
    deployment   TEXT   NOT NULL,
    id           BIGINT NOT NULL,
    name         TEXT   NOT NULL,
    slug         TEXT   NOT NULL,
    description  TEXT   NOT NULL,
    image_url    TEXT   NOT NULL,
    -- The workspace in which members start; 0: none.
    workspace_id BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (deployment, id)
);

CREATE UNIQUE INDEX organizations_slug ON organizations (deployment, slug);

CREATE TABLE workspaces (
    deployment      TEXT   NOT NULL,
    id              BIGINT NOT NULL,
    organization_id BIGINT NOT NULL,
    name            TEXT   NOT NULL,
    slug            TEXT   NOT NULL,
    created_at      BIGINT NOT NULL,
    PRIMARY KEY (deployment, id)
);

CREATE UNIQUE INDEX workspaces_slug ON workspaces (deployment, organization_id, slug);

CREATE TABLE organization_memberships (
    deployment      TEXT     NOT NULL,
    id              BIGINT   NOT NULL,
    organization_id BIGINT   NOT NULL,
    user_id         BIGINT   NOT NULL,
    -- The id of a MembershipRole; 0: none.
    role_id         BIGINT   NOT NULL,
    owner           SMALLINT NOT NULL,
    -- The member's last active workspace there; 0: none yet.
    workspace_id    BIGINT   NOT NULL,
    created_at      BIGINT   NOT NULL,
    PRIMARY KEY (deployment, id)
);

CREATE UNIQUE INDEX organization_members ON organization_memberships (deployment, organization_id, user_id);
CREATE INDEX organization_memberships_user ON organization_memberships (deployment, user_id);

CREATE TABLE workspace_memberships (
    deployment      TEXT     NOT NULL,
    id              BIGINT   NOT NULL,
    workspace_id    BIGINT   NOT NULL,
    organization_id BIGINT   NOT NULL,
    user_id         BIGINT   NOT NULL,
    role_id         BIGINT   NOT NULL,
    owner           SMALLINT NOT NULL,
    created_at      BIGINT   NOT NULL,
    PRIMARY KEY (deployment, id)
);

CREATE UNIQUE INDEX workspace_members ON workspace_memberships (deployment, workspace_id, user_id);
CREATE INDEX workspace_memberships_user ON workspace_memberships (deployment, user_id, organization_id);

CREATE TABLE invitations (
    deployment      TEXT   NOT NULL,
    id              BIGINT NOT NULL,
    organization_id BIGINT NOT NULL,
    email           TEXT   NOT NULL,
    folded          TEXT   NOT NULL,
    role_id         BIGINT NOT NULL,
    -- SHA-256 of the token.
    hash            BYTEA  NOT NULL,
    invited_by      BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    expires_at      BIGINT NOT NULL,
    accepted_at     BIGINT NOT NULL,
    PRIMARY KEY (deployment, id)
);

CREATE UNIQUE INDEX invitations_hash ON invitations (deployment, hash);
CREATE INDEX invitations_organization ON invitations (deployment, organization_id);
CREATE INDEX invitations_expiry ON invitations (expires_at);

-- The events that analytics counts: completed sign-ins, and created accounts, organizations and workspaces.
CREATE TABLE events (
    deployment TEXT   NOT NULL,
    kind       TEXT   NOT NULL,
    at         BIGINT NOT NULL,
    id         BIGINT NOT NULL,
    user_id    BIGINT NOT NULL,
    method     TEXT   NOT NULL,
    address    TEXT   NOT NULL,
    user_agent TEXT   NOT NULL,
    PRIMARY KEY (deployment, kind, at, id)
);

CREATE INDEX events_user ON events (deployment, user_id);

CREATE TABLE audit (
    deployment TEXT   NOT NULL,
    at         BIGINT NOT NULL,
    id         BIGINT NOT NULL,
    -- The actor: user:<id>, anonymous, key:<public id>, token:<subject> or system.
    actor      TEXT   NOT NULL,
    action     TEXT   NOT NULL,
    object     TEXT   NOT NULL,
    session_id BIGINT NOT NULL,
    address    TEXT   NOT NULL,
    PRIMARY KEY (deployment, at, id)
);
