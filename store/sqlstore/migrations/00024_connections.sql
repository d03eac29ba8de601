-- Connections to the identity providers of users and organizations, the identities by which users sign in, and the
-- domains of organizations. The table connections has those of organization admins and backends. The other tables refer to
-- declared connections too, by the id of the resource.

-- +goose Up
CREATE TABLE connections (
    deployment      TEXT     NOT NULL,
    id              BIGINT   NOT NULL,
    organization_id BIGINT   NOT NULL,
    slug            TEXT     NOT NULL,
    -- JSON.
    settings        TEXT     NOT NULL,
    -- Sealed; empty: none.
    secrets         TEXT     NOT NULL,
    active          SMALLINT NOT NULL,
    created_at      BIGINT   NOT NULL,
    updated_at      BIGINT   NOT NULL,
    PRIMARY KEY (deployment, id)
);
CREATE UNIQUE INDEX connections_slug ON connections (deployment, slug);
CREATE INDEX connections_organization ON connections (deployment, organization_id, id);

CREATE TABLE identities (
    deployment    TEXT   NOT NULL,
    id            BIGINT NOT NULL,
    connection_id BIGINT NOT NULL,
    issuer        TEXT   NOT NULL,
    subject       TEXT   NOT NULL,
    user_id       BIGINT NOT NULL,
    -- The address that the provider stated last; it proves nothing.
    email         TEXT   NOT NULL,
    created_at    BIGINT NOT NULL,
    used_at       BIGINT NOT NULL,
    PRIMARY KEY (deployment, id)
);
CREATE UNIQUE INDEX identities_subject ON identities (deployment, connection_id, issuer, subject);
CREATE INDEX identities_user ON identities (deployment, user_id, id);
CREATE INDEX identities_connection ON identities (deployment, connection_id, id);

CREATE TABLE sso_attempts (
    deployment        TEXT   NOT NULL,
    -- The row in attempts; its session owns the attempt.
    attempt_id        BIGINT NOT NULL,
    connection_id     BIGINT NOT NULL,
    -- SHA-256 of the parameter state.
    state             BYTEA  NOT NULL,
    -- The id in a request that the answer must repeat; empty: none.
    request_id        TEXT   NOT NULL,
    host              TEXT   NOT NULL,
    -- sign_in, link or reauthenticate.
    intent            TEXT   NOT NULL,
    -- The path to which the browser goes afterwards.
    continue_path     TEXT   NOT NULL,
    -- The account and the sign-in that began a link or a reauthentication; 0: none.
    user_id           BIGINT NOT NULL,
    signin_id         BIGINT NOT NULL,
    invitation_id     BIGINT NOT NULL,
    organization_name TEXT   NOT NULL,
    -- How many answers were evaluated.
    tries             BIGINT NOT NULL,
    -- The evaluated answer that waits for the browser's session, and after the completion what is known of the user until
    -- a code proves an address. Both are sealed; empty: none.
    outcome           TEXT   NOT NULL,
    claims            TEXT   NOT NULL,
    completed_at      BIGINT NOT NULL,
    created_at        BIGINT NOT NULL,
    expires_at        BIGINT NOT NULL,
    PRIMARY KEY (deployment, attempt_id)
);
CREATE UNIQUE INDEX sso_attempts_state ON sso_attempts (deployment, state);
CREATE INDEX sso_attempts_user ON sso_attempts (deployment, user_id) WHERE user_id <> 0;
CREATE INDEX sso_attempts_expiry ON sso_attempts (expires_at);

-- The connection and the identity of a sign-in; 0: none.
ALTER TABLE signins ADD COLUMN connection_id BIGINT NOT NULL DEFAULT 0;
ALTER TABLE signins ADD COLUMN identity_id BIGINT NOT NULL DEFAULT 0;
-- The provider's id of its session; empty: unknown.
ALTER TABLE signins ADD COLUMN upstream_sid TEXT NOT NULL DEFAULT '';
-- The only organization in which the sign-in counts; 0: it is not confined.
ALTER TABLE signins ADD COLUMN confined_organization BIGINT NOT NULL DEFAULT 0;
-- When the sign-in ends, if its session does not end earlier; 0: with its session.
ALTER TABLE signins ADD COLUMN ends_at BIGINT NOT NULL DEFAULT 0;
-- The provider's ID token, sealed; empty: not kept.
ALTER TABLE signins ADD COLUMN id_token TEXT NOT NULL DEFAULT '';
CREATE INDEX signins_connection ON signins (deployment, connection_id, id) WHERE connection_id <> 0;
CREATE INDEX signins_identity ON signins (deployment, identity_id, id) WHERE identity_id <> 0;
CREATE INDEX signins_upstream ON signins (deployment, connection_id, upstream_sid) WHERE upstream_sid <> '';
CREATE INDEX signins_end ON signins (ends_at) WHERE ends_at > 0;

-- The connection of the sign-in that authorized a token family; 0: none. A family may outlive the sign-in.
ALTER TABLE oauth_families ADD COLUMN connection_id BIGINT NOT NULL DEFAULT 0;

-- What servers fetch from the provider of a connection. The last good body is kept when a fetch fails.
CREATE TABLE upstream_documents (
    deployment    TEXT   NOT NULL,
    connection_id BIGINT NOT NULL,
    -- discovery or jwks.
    kind          TEXT   NOT NULL,
    body          TEXT   NOT NULL,
    -- Of the body, in hexadecimal digits; empty: no fetch has succeeded yet.
    sha256        TEXT   NOT NULL,
    fetched_at    BIGINT NOT NULL,
    -- When another body replaced the body; 0: never.
    changed_at    BIGINT NOT NULL,
    valid_until   BIGINT NOT NULL,
    -- The failure of the last fetch, and how many failed in a row; empty and 0: it succeeded.
    error         TEXT   NOT NULL,
    failures      BIGINT NOT NULL,
    -- When the last fetch began.
    tried_at      BIGINT NOT NULL,
    -- The fetch in progress, and when another one may begin; empty and 0: none.
    lease         TEXT   NOT NULL,
    leased_until  BIGINT NOT NULL,
    PRIMARY KEY (deployment, connection_id, kind)
);
CREATE INDEX upstream_documents_age ON upstream_documents (tried_at);

-- Declared connections that were deleted while they had identities or sign-ins. The identities are kept for a while,
-- because a connection that is declared again has the same id.
CREATE TABLE ended_connections (
    deployment    TEXT   NOT NULL,
    connection_id BIGINT NOT NULL,
    ended_at      BIGINT NOT NULL,
    PRIMARY KEY (deployment, connection_id)
);

-- Failed sign-ins by a connection, for its admins.
CREATE TABLE connection_failures (
    deployment    TEXT   NOT NULL,
    connection_id BIGINT NOT NULL,
    at            BIGINT NOT NULL,
    id            BIGINT NOT NULL,
    request_id    TEXT   NOT NULL,
    step          TEXT   NOT NULL,
    reason        TEXT   NOT NULL,
    expected      TEXT   NOT NULL,
    got           TEXT   NOT NULL,
    subject       TEXT   NOT NULL,
    email         TEXT   NOT NULL,
    PRIMARY KEY (deployment, connection_id, at, id)
);
CREATE INDEX connection_failures_age ON connection_failures (at);

CREATE TABLE domains (
    deployment      TEXT   NOT NULL,
    id              BIGINT NOT NULL,
    organization_id BIGINT NOT NULL,
    name            TEXT   NOT NULL,
    -- What the TXT record must contain.
    value           TEXT   NOT NULL,
    -- pending, verified, failing, lapsed or expired. A domain has its effect while it is verified or failing.
    state           TEXT   NOT NULL,
    -- dns or backend; empty: not verified yet.
    verified_by     TEXT   NOT NULL,
    created_at      BIGINT NOT NULL,
    verified_at     BIGINT NOT NULL,
    looked_up_at    BIGINT NOT NULL,
    -- When a worker looks the record up next; 0: never.
    next_lookup_at  BIGINT NOT NULL,
    -- What the last lookup returned.
    seen            TEXT   NOT NULL,
    -- Since when lookups find no such value, and how many did not; 0: the last one found it.
    failing_since   BIGINT NOT NULL,
    failures        BIGINT NOT NULL,
    PRIMARY KEY (deployment, id)
);
CREATE UNIQUE INDEX domains_organization ON domains (deployment, organization_id, name);
CREATE INDEX domains_name ON domains (deployment, name);
-- A domain has its effect for one organization.
CREATE UNIQUE INDEX domains_effective ON domains (deployment, name) WHERE state IN ('verified', 'failing');
CREATE INDEX domains_due ON domains (next_lookup_at) WHERE next_lookup_at > 0;
