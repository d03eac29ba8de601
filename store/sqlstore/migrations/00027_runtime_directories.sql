-- The directories that organizations and backends set up, and their tokens; and what is known of users of directories
-- after changes of domains and group roles.

-- +goose Up
CREATE TABLE runtime_directories (
    deployment      TEXT     NOT NULL,
    id              BIGINT   NOT NULL,
    organization_id BIGINT   NOT NULL,
    slug            TEXT     NOT NULL,
    -- The connection by which its users sign in; 0: none.
    connection_id   BIGINT   NOT NULL,
    settings        TEXT     NOT NULL,
    active          SMALLINT NOT NULL,
    -- Whether it was deleted: the row stays until its users and groups are deleted.
    deleted         SMALLINT NOT NULL,
    created_at      BIGINT   NOT NULL,
    updated_at      BIGINT   NOT NULL,
    PRIMARY KEY (deployment, id)
);
CREATE INDEX runtime_directories_organization ON runtime_directories (deployment, organization_id, id);

CREATE TABLE directory_tokens (
    deployment   TEXT   NOT NULL,
    directory_id BIGINT NOT NULL,
    id           BIGINT NOT NULL,
    -- The public id of the token, the SHA-256 of the whole token, and its last four characters.
    public_id    TEXT   NOT NULL,
    digest       BYTEA  NOT NULL,
    last4        TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    -- 0: never.
    expires_at   BIGINT NOT NULL,
    -- When a request last had it, to the minute; 0: never.
    used_at      BIGINT NOT NULL,
    PRIMARY KEY (deployment, directory_id, id)
);
CREATE UNIQUE INDEX directory_tokens_public ON directory_tokens (deployment, public_id);

-- Identifies the domains of the organization when every user that waited for one of them was processed.
ALTER TABLE directories ADD COLUMN provisioned_domains TEXT NOT NULL DEFAULT '';
CREATE INDEX scim_users_waiting_of ON scim_users (deployment, directory_id, id) WHERE user_id = 0 AND email <> '';

-- Identifies the group roles that members have.
ALTER TABLE directories ADD COLUMN roles TEXT NOT NULL DEFAULT '';
