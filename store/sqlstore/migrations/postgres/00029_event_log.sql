-- The events of deployments: event_log_new has those that have no number yet, in the order in which they were recorded,
-- and event_log the numbered ones. Numbers are dense: the newest event of a deployment stays, so that the next number is
-- known.

-- +goose Up
CREATE SEQUENCE event_order;
CREATE TABLE event_log_new (
    deployment      TEXT   NOT NULL,
    -- The order in which events were recorded. Changes of one entity have its order, because they lock its row.
    ord             BIGINT NOT NULL DEFAULT nextval('event_order'),
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
    PRIMARY KEY (deployment, ord)
);
-- Rows live for less than a second.
ALTER TABLE event_log_new SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 20000, autovacuum_vacuum_cost_delay = 0);

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
);
CREATE UNIQUE INDEX event_log_id ON event_log (id, deployment);
