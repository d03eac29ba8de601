-- Calls of agents' tools. A call that may change something has its row, with the outcome 'started', before its request
-- is sent; every other row is written after the call. Ids are made of the time of the call, so they order the rows.

-- +goose Up
CREATE TABLE tool_calls (
    deployment      TEXT   NOT NULL,
    id              BIGINT NOT NULL,
    at              BIGINT NOT NULL,
    agent_id        BIGINT NOT NULL,
    agent           TEXT   NOT NULL,
    tool_id         BIGINT NOT NULL,
    tool            TEXT   NOT NULL,
    -- The credential: key, client, session or token, and its id.
    principal       TEXT   NOT NULL,
    principal_id    TEXT   NOT NULL,
    client          TEXT   NOT NULL,
    user_id         BIGINT NOT NULL,
    organization_id BIGINT NOT NULL,
    workspace_id    BIGINT NOT NULL,
    address         TEXT   NOT NULL,
    -- The revision of the protocol.
    revision        TEXT   NOT NULL,
    decision        TEXT   NOT NULL,
    approval_id     BIGINT NOT NULL,
    -- Empty for a call that was refused.
    outcome         TEXT   NOT NULL,
    code            TEXT   NOT NULL,
    upstream_status BIGINT NOT NULL,
    latency_ms      BIGINT NOT NULL,
    upstream_ms     BIGINT NOT NULL,
    bytes_in        BIGINT NOT NULL,
    bytes_out       BIGINT NOT NULL,
    digest          TEXT   NOT NULL,
    -- Sealed, and NULL unless the tool keeps them.
    arguments       TEXT,
    result          TEXT,
    PRIMARY KEY (deployment, id)
);
CREATE INDEX tool_calls_agent ON tool_calls (deployment, agent_id, id);
CREATE INDEX tool_calls_tool ON tool_calls (deployment, tool_id, id);
CREATE INDEX tool_calls_user ON tool_calls (deployment, user_id, id) WHERE user_id > 0;
CREATE INDEX tool_calls_outcome ON tool_calls (deployment, outcome, id) WHERE outcome <> '' AND outcome <> 'succeeded';
CREATE INDEX tool_calls_started ON tool_calls (at) WHERE outcome = 'started';
CREATE INDEX tool_calls_bodies ON tool_calls (at) WHERE arguments IS NOT NULL OR result IS NOT NULL;
