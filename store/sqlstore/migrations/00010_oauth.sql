-- Authorization servers: what clients asked for, what people granted, and the tokens that live on it. Lists are separated by spaces, as in
-- the protocol. The tokens themselves are nowhere: what is kept are their hashes (SHA-256).

-- +goose Up
-- What a client asks a person for, until the person decided.
CREATE TABLE oauth_requests (
    deployment TEXT     NOT NULL,
    hash       BYTEA    NOT NULL,
    app_id     BIGINT   NOT NULL,
    client     TEXT     NOT NULL,
    parameters TEXT     NOT NULL,
    pushed     SMALLINT NOT NULL,
    network    TEXT     NOT NULL,
    created_at BIGINT   NOT NULL,
    expires_at BIGINT   NOT NULL,
    PRIMARY KEY (deployment, hash)
);

CREATE INDEX oauth_requests_network ON oauth_requests (deployment, network, created_at);
CREATE INDEX oauth_requests_expiry ON oauth_requests (expires_at);

CREATE TABLE oauth_grants (
    deployment      TEXT   NOT NULL,
    id              BIGINT NOT NULL,
    app_id          BIGINT NOT NULL,
    client          TEXT   NOT NULL,
    user_id         BIGINT NOT NULL,
    organization_id BIGINT NOT NULL,
    workspace_id    BIGINT NOT NULL,
    scopes          TEXT   NOT NULL,
    resources       TEXT   NOT NULL,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    PRIMARY KEY (deployment, id)
);

CREATE UNIQUE INDEX oauth_grants_user ON oauth_grants (deployment, user_id, app_id, client, organization_id, workspace_id);

CREATE INDEX oauth_grants_client ON oauth_grants (deployment, app_id, client);

-- All tokens that came of one code.
CREATE TABLE oauth_families (
    deployment       TEXT     NOT NULL,
    id               BIGINT   NOT NULL,
    grant_id         BIGINT   NOT NULL,
    app_id           BIGINT   NOT NULL,
    client           TEXT     NOT NULL,
    user_id          BIGINT   NOT NULL,
    organization_id  BIGINT   NOT NULL,
    workspace_id     BIGINT   NOT NULL,
    session_id       BIGINT   NOT NULL,
    signin_id        BIGINT   NOT NULL,
    scopes           TEXT     NOT NULL,
    resources        TEXT     NOT NULL,
    nonce            TEXT     NOT NULL,
    method           TEXT     NOT NULL,
    authenticated_at BIGINT   NOT NULL,
    -- Whether it outlives the sign-in, and whether the client wants to be told of the sign-in's end.
    offline          SMALLINT NOT NULL,
    backchannel      SMALLINT NOT NULL,
    created_at       BIGINT   NOT NULL,
    used_at          BIGINT   NOT NULL,
    expires_at       BIGINT   NOT NULL,
    PRIMARY KEY (deployment, id)
);

CREATE INDEX oauth_families_grant ON oauth_families (deployment, grant_id);
CREATE INDEX oauth_families_user ON oauth_families (deployment, user_id);
CREATE INDEX oauth_families_told ON oauth_families (deployment, signin_id) WHERE backchannel = 1;
CREATE INDEX oauth_families_expiry ON oauth_families (expires_at);

CREATE TABLE oauth_codes (
    deployment   TEXT   NOT NULL,
    hash         BYTEA  NOT NULL,
    family_id    BIGINT NOT NULL,
    redirect_uri TEXT   NOT NULL,
    -- What the verifier of the redemption hashes to (PKCE S256).
    challenge    TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    redeemed_at  BIGINT NOT NULL,
    PRIMARY KEY (deployment, hash)
);

CREATE INDEX oauth_codes_expiry ON oauth_codes (expires_at);
CREATE INDEX oauth_codes_family ON oauth_codes (deployment, family_id);

CREATE TABLE oauth_refresh_tokens (
    deployment TEXT   NOT NULL,
    hash       BYTEA  NOT NULL,
    family_id  BIGINT NOT NULL,
    -- The token in whose place this one was given out; empty for a first one.
    parent     BYTEA  NOT NULL,
    -- Where it was first used from.
    network    TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL,
    dies_at    BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (deployment, hash)
);

CREATE INDEX oauth_refresh_tokens_family ON oauth_refresh_tokens (deployment, family_id, created_at);
CREATE INDEX oauth_refresh_tokens_expiry ON oauth_refresh_tokens (expires_at);

-- Devices without a browser that wait for a person who has one (RFC 8628).
CREATE TABLE oauth_devices (
    deployment TEXT   NOT NULL,
    hash       BYTEA  NOT NULL,
    -- What the person types.
    user_code  TEXT   NOT NULL,
    app_id     BIGINT NOT NULL,
    client     TEXT   NOT NULL,
    parameters TEXT   NOT NULL,
    network    TEXT   NOT NULL,
    -- pending, denied or granted; then the family that came of it.
    state      TEXT   NOT NULL,
    family_id  BIGINT NOT NULL,
    -- When the device asked last, and how long it has to wait in between.
    polled_at  BIGINT NOT NULL,
    interval_s BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (deployment, hash)
);

CREATE UNIQUE INDEX oauth_devices_user_code ON oauth_devices (deployment, user_code);
CREATE INDEX oauth_devices_network ON oauth_devices (deployment, network, created_at);
CREATE INDEX oauth_devices_expiry ON oauth_devices (expires_at);

-- Clients that registered themselves, or whose metadata was fetched from where their name leads. Declared ones are no rows.
CREATE TABLE oauth_clients (
    deployment   TEXT   NOT NULL,
    app_id       BIGINT NOT NULL,
    -- What it is called in the protocol: an id, or the URL of its metadata.
    client       TEXT   NOT NULL,
    -- What it is, as a declared one is kept.
    content      TEXT   NOT NULL,
    -- Of whom shares its name with all of the same metadata, their hash; of others empty.
    fingerprint  BYTEA  NOT NULL,
    -- The hash of what manages it, empty where nobody does.
    manager      BYTEA  NOT NULL,
    created_at   BIGINT NOT NULL,
    -- When it was first used, and until when fetched metadata is good.
    used_at      BIGINT NOT NULL,
    fresh_until  BIGINT NOT NULL,
    PRIMARY KEY (deployment, app_id, client)
);

CREATE UNIQUE INDEX oauth_clients_same ON oauth_clients (deployment, app_id, fingerprint) WHERE length(fingerprint) > 0;
CREATE INDEX oauth_clients_unused ON oauth_clients (deployment, app_id, created_at) WHERE used_at = 0;
CREATE INDEX oauth_clients_age ON oauth_clients (created_at) WHERE used_at = 0;

-- Sign-ins that ended, of which clients are still to be told.
CREATE TABLE oauth_logouts (
    deployment TEXT   NOT NULL,
    app_id     BIGINT NOT NULL,
    client     TEXT   NOT NULL,
    user_id    BIGINT NOT NULL,
    session_id BIGINT NOT NULL,
    PRIMARY KEY (deployment, app_id, client, user_id, session_id)
);
