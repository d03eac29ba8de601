-- The events of deployments: event_log_new has those that have no number yet, in the order in which they were recorded,
-- and event_log the numbered ones. Numbers are dense: the newest event of a deployment stays, so that the next number is
-- known. The rowid is the order in which events were recorded.

-- +goose Up
CREATE TABLE event_log_new (
    deployment      TEXT   NOT NULL,
    -- A random number.
    id              BIGINT NOT NULL,
    type            TEXT   NOT NULL,
    version         BIGINT NOT NULL,
    at              BIGINT NOT NULL,
    actor           TEXT   NOT NULL,
    subject_type    TEXT   NOT NULL,
    subject_id      TEXT   NOT NULL,
    organization_id BIGINT NOT NULL,
    workspace_id    BIGINT NOT NULL,
    -- JSON, '' for no data.
    data            TEXT   NOT NULL,
    PRIMARY KEY (deployment, id)
);
CREATE INDEX event_log_new_order ON event_log_new (deployment);

CREATE TABLE event_log (
    deployment      TEXT   NOT NULL,
    sequence        BIGINT NOT NULL,
    id              BIGINT NOT NULL,
    type            TEXT   NOT NULL,
    version         BIGINT NOT NULL,
    at              BIGINT NOT NULL,
    actor           TEXT   NOT NULL,
    subject_type    TEXT   NOT NULL,
    subject_id      TEXT   NOT NULL,
    organization_id BIGINT NOT NULL,
    workspace_id    BIGINT NOT NULL,
    data            TEXT   NOT NULL,
    PRIMARY KEY (deployment, sequence)
) WITHOUT ROWID;
CREATE UNIQUE INDEX event_log_id ON event_log (id, deployment);
