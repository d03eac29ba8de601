-- How far the events of a deployment were sent to its webhook endpoints, and the deliveries.

-- +goose Up
CREATE TABLE webhook_states (
    deployment    TEXT    NOT NULL,
    endpoint_id   BIGINT  NOT NULL,
    position      BIGINT  NOT NULL,
    target        TEXT    NOT NULL,
    paused        BIGINT  NOT NULL,
    ended_at      BIGINT  NOT NULL,
    owner         TEXT    NOT NULL,
    leased_until  BIGINT  NOT NULL,
    epoch         BIGINT  NOT NULL,
    next_at       BIGINT  NOT NULL,
    -- 1 if events after the position wait until next_at.
    blocked       BIGINT  NOT NULL,
    failures      BIGINT  NOT NULL,
    failing_since BIGINT  NOT NULL,
    status        BIGINT  NOT NULL,
    error         TEXT    NOT NULL,
    succeeded_at  BIGINT  NOT NULL,
    disabled_at   BIGINT  NOT NULL,
    reason        TEXT    NOT NULL,
    enabled_at    BIGINT  NOT NULL,
    reported      BIGINT  NOT NULL,
    PRIMARY KEY (deployment, endpoint_id)
);

CREATE TABLE webhook_deliveries (
    deployment   TEXT   NOT NULL,
    id           BIGINT NOT NULL,
    endpoint_id  BIGINT NOT NULL,
    sequence     BIGINT NOT NULL,
    event_id     BIGINT NOT NULL,
    type         TEXT   NOT NULL,
    subject_type TEXT   NOT NULL,
    subject_id   TEXT   NOT NULL,
    status       TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    next_at      BIGINT NOT NULL,
    -- 0 for a delivery that has not ended.
    settled_at   BIGINT NOT NULL,
    attempts     BIGINT NOT NULL,
    http_status  BIGINT NOT NULL,
    latency_ms   BIGINT NOT NULL,
    -- JSON, '' for no requests.
    tries        TEXT   NOT NULL,
    PRIMARY KEY (deployment, id)
);
CREATE INDEX webhook_deliveries_endpoint ON webhook_deliveries (endpoint_id, id);
CREATE INDEX webhook_deliveries_open ON webhook_deliveries (endpoint_id, sequence) WHERE settled_at = 0;
