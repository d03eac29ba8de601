-- Authorization servers: the requests of clients, the grants of users, and their tokens. Lists are separated by spaces,
-- as in the protocol. Tokens are stored only as hashes (SHA-256).

-- +goose Up
-- An authorization request of a client, until the user decides.
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

-- All tokens that were issued from one code.
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
    -- Whether the family outlives the sign-in, and whether the client is notified when the sign-in ends.
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
    -- The hash of the redemption's code verifier (PKCE S256).
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
    -- The token that this one replaced; empty for the first.
    parent     BYTEA  NOT NULL,
    -- The address of its first use.
    network    TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL,
    dies_at    BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (deployment, hash)
);

CREATE INDEX oauth_refresh_tokens_family ON oauth_refresh_tokens (deployment, family_id, created_at);
CREATE INDEX oauth_refresh_tokens_expiry ON oauth_refresh_tokens (expires_at);

-- Devices without a browser that wait for a user who has one (RFC 8628).
CREATE TABLE oauth_devices (
    deployment TEXT   NOT NULL,
    hash       BYTEA  NOT NULL,
    -- The code that the user types.
    user_code  TEXT   NOT NULL,
    app_id     BIGINT NOT NULL,
    client     TEXT   NOT NULL,
    parameters TEXT   NOT NULL,
    network    TEXT   NOT NULL,
    -- pending, denied or granted; then the family that was issued.
    state      TEXT   NOT NULL,
    family_id  BIGINT NOT NULL,
    -- When the device polled last, and the interval that it must keep.
    polled_at  BIGINT NOT NULL,
    interval_s BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (deployment, hash)
);

CREATE UNIQUE INDEX oauth_devices_user_code ON oauth_devices (deployment, user_code);
CREATE INDEX oauth_devices_network ON oauth_devices (deployment, network, created_at);
CREATE INDEX oauth_devices_expiry ON oauth_devices (expires_at);

-- Clients that registered themselves, or whose metadata was fetched from the URL that is their id. Declared clients
-- have no rows.
CREATE TABLE oauth_clients (
    deployment   TEXT   NOT NULL,
    app_id       BIGINT NOT NULL,
    -- The client_id of the protocol: an id, or the URL of the client's metadata.
    client       TEXT   NOT NULL,
    -- The client, in the form of a declared one's document.
    content      TEXT   NOT NULL,
    -- The hash of the metadata, for a client that shares its row with all clients of the same metadata; otherwise
    -- empty.
    fingerprint  BYTEA  NOT NULL,
    -- The hash of the token that manages the client; empty if there is none.
    manager      BYTEA  NOT NULL,
    created_at   BIGINT NOT NULL,
    -- When it was first used, and until when fetched metadata is fresh.
    used_at      BIGINT NOT NULL,
    fresh_until  BIGINT NOT NULL,
    PRIMARY KEY (deployment, app_id, client)
);

CREATE UNIQUE INDEX oauth_clients_same ON oauth_clients (deployment, app_id, fingerprint) WHERE length(fingerprint) > 0;
CREATE INDEX oauth_clients_unused ON oauth_clients (deployment, app_id, created_at) WHERE used_at = 0;
CREATE INDEX oauth_clients_age ON oauth_clients (created_at) WHERE used_at = 0;

-- Ended sign-ins that clients must still be notified of.
CREATE TABLE oauth_logouts (
    deployment TEXT   NOT NULL,
    app_id     BIGINT NOT NULL,
    client     TEXT   NOT NULL,
    user_id    BIGINT NOT NULL,
    session_id BIGINT NOT NULL,
    PRIMARY KEY (deployment, app_id, client, user_id, session_id)
);
