-- Directories: users and groups that the identity provider of an organization maintains by SCIM.

-- +goose Up
CREATE TABLE directories (
    deployment      TEXT   NOT NULL,
    -- The id of the Directory.
    id              BIGINT NOT NULL,
    -- The organization whose members it maintains, by its newest change.
    organization_id BIGINT NOT NULL,
    user_count      BIGINT NOT NULL,
    group_count     BIGINT NOT NULL,
    -- When a server first saw that the Directory was deleted; 0: it is declared.
    ended_at        BIGINT NOT NULL,
    PRIMARY KEY (deployment, id)
);

CREATE TABLE scim_users (
    deployment   TEXT     NOT NULL,
    directory_id BIGINT   NOT NULL,
    id           BIGINT   NOT NULL,
    -- The account; 0: the user waits until the address is proven.
    user_id      BIGINT   NOT NULL,
    -- userName in lower case.
    name         TEXT     NOT NULL,
    external_id  TEXT     NOT NULL,
    -- The address in the form in which addresses are compared, '' for none.
    email        TEXT     NOT NULL,
    active       SMALLINT NOT NULL,
    version      BIGINT   NOT NULL,
    -- The document in the form of apiserver/scim.
    document     TEXT     NOT NULL,
    created_at   BIGINT   NOT NULL,
    updated_at   BIGINT   NOT NULL,
    PRIMARY KEY (deployment, directory_id, id)
);
CREATE UNIQUE INDEX scim_users_name ON scim_users (deployment, directory_id, name);
CREATE INDEX scim_users_external ON scim_users (deployment, directory_id, external_id, id) WHERE external_id <> '';
CREATE INDEX scim_users_email ON scim_users (deployment, directory_id, email, id) WHERE email <> '';
CREATE UNIQUE INDEX scim_users_account ON scim_users (deployment, user_id, directory_id) WHERE user_id <> 0;
CREATE INDEX scim_users_waiting ON scim_users (deployment, email, id) WHERE user_id = 0 AND email <> '';

CREATE TABLE scim_groups (
    deployment   TEXT   NOT NULL,
    directory_id BIGINT NOT NULL,
    id           BIGINT NOT NULL,
    -- displayName as sent, and in lower case.
    display_name TEXT   NOT NULL,
    name         TEXT   NOT NULL,
    external_id  TEXT   NOT NULL,
    member_count BIGINT NOT NULL,
    version      BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    PRIMARY KEY (deployment, directory_id, id)
);
CREATE UNIQUE INDEX scim_groups_name ON scim_groups (deployment, directory_id, name);
CREATE INDEX scim_groups_external ON scim_groups (deployment, directory_id, external_id, id) WHERE external_id <> '';

-- The users in groups.
CREATE TABLE scim_members (
    deployment   TEXT   NOT NULL,
    directory_id BIGINT NOT NULL,
    group_id     BIGINT NOT NULL,
    -- The id in scim_users.
    member_id    BIGINT NOT NULL,
    PRIMARY KEY (deployment, directory_id, group_id, member_id)
);
CREATE INDEX scim_members_member ON scim_members (deployment, directory_id, member_id, group_id);

-- The memberships of users whom a directory deactivated. They come back as they were.
CREATE TABLE suspended_memberships (
    deployment      TEXT     NOT NULL,
    organization_id BIGINT   NOT NULL,
    user_id         BIGINT   NOT NULL,
    directory_id    BIGINT   NOT NULL,
    id              BIGINT   NOT NULL,
    role_id         BIGINT   NOT NULL,
    owner           SMALLINT NOT NULL,
    workspace_id    BIGINT   NOT NULL,
    created_at      BIGINT   NOT NULL,
    suspended_at    BIGINT   NOT NULL,
    PRIMARY KEY (deployment, organization_id, user_id)
);
CREATE INDEX suspended_memberships_user ON suspended_memberships (deployment, user_id);
CREATE INDEX suspended_memberships_directory ON suspended_memberships (deployment, directory_id, user_id);

CREATE TABLE suspended_workspace_memberships (
    deployment      TEXT     NOT NULL,
    organization_id BIGINT   NOT NULL,
    user_id         BIGINT   NOT NULL,
    id              BIGINT   NOT NULL,
    workspace_id    BIGINT   NOT NULL,
    role_id         BIGINT   NOT NULL,
    owner           SMALLINT NOT NULL,
    created_at      BIGINT   NOT NULL,
    PRIMARY KEY (deployment, organization_id, user_id, id)
);
CREATE INDEX suspended_workspace_memberships_user ON suspended_workspace_memberships (deployment, user_id);

-- What directories did with accounts: which one created it, and which one disabled it; 0: none.
CREATE TABLE directory_accounts (
    deployment  TEXT   NOT NULL,
    user_id     BIGINT NOT NULL,
    created_by  BIGINT NOT NULL,
    disabled_by BIGINT NOT NULL,
    PRIMARY KEY (deployment, user_id)
);
