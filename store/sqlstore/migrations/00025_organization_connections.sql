-- The connections that organizations and backends set up, and the links by which people without an account do so.

-- +goose Up
-- Whether the connection requires sign-ins by it: of users with an address in the organization's domains, or of all members.
ALTER TABLE connections ADD COLUMN enforces SMALLINT NOT NULL DEFAULT 0;
-- Whether the organization has active connections (1), of which one enforces (2). Requests of members read connections
-- only if one enforces.
ALTER TABLE organizations ADD COLUMN own_connections SMALLINT NOT NULL DEFAULT 0;

CREATE TABLE setup_links (
    deployment      TEXT   NOT NULL,
    id              BIGINT NOT NULL,
    organization_id BIGINT NOT NULL,
    -- SHA-256 of the token.
    hash            BYTEA  NOT NULL,
    -- To which the code is mailed that proves the mailbox.
    email           TEXT   NOT NULL,
    -- What the link permits, separated by spaces: sso, domains.
    intents         TEXT   NOT NULL,
    -- The member that made it; 0: a backend.
    created_by      BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    expires_at      BIGINT NOT NULL,
    -- The session in which the code was entered last, and when; 0: none.
    session_id      BIGINT NOT NULL,
    proved_at       BIGINT NOT NULL,
    PRIMARY KEY (deployment, id)
);
CREATE UNIQUE INDEX setup_links_hash ON setup_links (deployment, hash);
CREATE INDEX setup_links_organization ON setup_links (deployment, organization_id, id);
CREATE INDEX setup_links_session ON setup_links (deployment, session_id) WHERE session_id <> 0;
CREATE INDEX setup_links_maker ON setup_links (deployment, created_by) WHERE created_by <> 0;
CREATE INDEX setup_links_expiry ON setup_links (expires_at);
