-- Second factors and passkeys of accounts, and the proofs of sign-ins. Proofs are "<method>:<microseconds>", separated by
-- blanks; where they are empty, the method of the row and its time of proof say what was shown.

-- +goose Up
ALTER TABLE users ADD COLUMN two_step SMALLINT NOT NULL DEFAULT 0;
ALTER TABLE signins ADD COLUMN proofs TEXT NOT NULL DEFAULT '';
ALTER TABLE ended_signins ADD COLUMN proofs TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN proofs TEXT NOT NULL DEFAULT '';
-- When a verified number became a second factor, 0: it is none.
ALTER TABLE phones ADD COLUMN second_factor_at BIGINT NOT NULL DEFAULT 0;
-- The level that an organization requires of its members (0: none), and since when (0: since it was set).
ALTER TABLE organizations ADD COLUMN required_level SMALLINT NOT NULL DEFAULT 0;
ALTER TABLE organizations ADD COLUMN enforce_from BIGINT NOT NULL DEFAULT 0;
-- What the sign-in of a token family proved; empty: one factor, by the method of the sign-in.
ALTER TABLE oauth_families ADD COLUMN acr TEXT NOT NULL DEFAULT '';
ALTER TABLE oauth_families ADD COLUMN amr TEXT NOT NULL DEFAULT '';

CREATE TABLE totp_authenticators (
    deployment   TEXT NOT NULL,
    id           BIGINT NOT NULL,
    user_id      BIGINT NOT NULL,
    signin_id    BIGINT NOT NULL,
    name         TEXT NOT NULL,
    sealed       TEXT NOT NULL,
    algorithm    TEXT NOT NULL,
    digits       SMALLINT NOT NULL,
    period_s     SMALLINT NOT NULL,
    -- The highest time step whose code was accepted.
    last_step    BIGINT NOT NULL,
    confirmed_at BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    used_at      BIGINT NOT NULL,
    PRIMARY KEY (deployment, id)
);
CREATE INDEX totp_authenticators_user ON totp_authenticators (deployment, user_id);
CREATE INDEX totp_authenticators_unconfirmed ON totp_authenticators (created_at) WHERE confirmed_at = 0;

CREATE TABLE passkeys (
    deployment         TEXT NOT NULL,
    id                 BIGINT NOT NULL,
    user_id            BIGINT NOT NULL,
    rp_id              TEXT NOT NULL,
    credential_id      BYTEA NOT NULL,
    user_handle        BYTEA NOT NULL,
    public_key         BYTEA NOT NULL,
    sign_count         BIGINT NOT NULL,
    -- 1: the credential can be synced, 0: it stays on one device, -1: not known.
    backup_eligible    SMALLINT NOT NULL,
    backed_up          SMALLINT NOT NULL,
    verified           SMALLINT NOT NULL,
    second_factor_only SMALLINT NOT NULL,
    transports         TEXT NOT NULL,
    aaguid             BYTEA NOT NULL,
    name               TEXT NOT NULL,
    created_at         BIGINT NOT NULL,
    used_at            BIGINT NOT NULL,
    PRIMARY KEY (deployment, id)
);
CREATE UNIQUE INDEX passkeys_credential ON passkeys (deployment, rp_id, credential_id);
CREATE INDEX passkeys_user ON passkeys (deployment, user_id);

CREATE TABLE recovery_codes (
    deployment TEXT NOT NULL,
    user_id    BIGINT NOT NULL,
    hash       BYTEA NOT NULL,
    used_at    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (deployment, user_id, hash)
);
CREATE INDEX recovery_codes_used ON recovery_codes (used_at) WHERE used_at > 0;

CREATE TABLE temporary_codes (
    deployment TEXT NOT NULL,
    user_id    BIGINT NOT NULL,
    id         BIGINT NOT NULL,
    salt       BYTEA NOT NULL,
    mac        BYTEA NOT NULL,
    key_id     TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (deployment, user_id)
);
CREATE INDEX temporary_codes_expiry ON temporary_codes (expires_at);

CREATE TABLE spent_challenges (
    deployment TEXT NOT NULL,
    hash       BYTEA NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (deployment, hash)
);
CREATE INDEX spent_challenges_expiry ON spent_challenges (expires_at);
