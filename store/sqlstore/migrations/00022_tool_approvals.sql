-- Approvals of calls of agents' tools. Ids are made of the time of the request, so they order the rows.

-- +goose Up
CREATE TABLE tool_approvals (
    deployment      TEXT   NOT NULL,
    id              BIGINT NOT NULL,
    agent_id        BIGINT NOT NULL,
    agent           TEXT   NOT NULL,
    tool_id         BIGINT NOT NULL,
    tool            TEXT   NOT NULL,
    principal       TEXT   NOT NULL,
    principal_id    TEXT   NOT NULL,
    client          TEXT   NOT NULL,
    user_id         BIGINT NOT NULL,
    organization_id BIGINT NOT NULL,
    workspace_id    BIGINT NOT NULL,
    -- What the approver needs in the organization; empty: the user approves.
    permission      TEXT   NOT NULL,
    -- What is approved; empty after the end.
    live            TEXT   NOT NULL,
    content         TEXT   NOT NULL,
    digest          TEXT   NOT NULL,
    -- Sealed, and NULL an hour after the end.
    arguments       TEXT,
    status          TEXT   NOT NULL,
    requested_at    BIGINT NOT NULL,
    decided_at      BIGINT NOT NULL,
    decided_by      BIGINT NOT NULL,
    ends_at         BIGINT NOT NULL,
    PRIMARY KEY (deployment, id)
);
CREATE UNIQUE INDEX tool_approvals_live ON tool_approvals (deployment, live) WHERE live <> '';
CREATE INDEX tool_approvals_waiting ON tool_approvals (deployment, agent_id, user_id) WHERE live <> '';
CREATE INDEX tool_approvals_agent ON tool_approvals (deployment, agent_id, id);
CREATE INDEX tool_approvals_user ON tool_approvals (deployment, user_id, id);
CREATE INDEX tool_approvals_status ON tool_approvals (deployment, status, id);
CREATE INDEX tool_approvals_organization ON tool_approvals (deployment, organization_id, id) WHERE permission <> '';
CREATE INDEX tool_approvals_arguments ON tool_approvals (ends_at) WHERE arguments IS NOT NULL;
CREATE INDEX tool_approvals_ended ON tool_approvals (ends_at);
