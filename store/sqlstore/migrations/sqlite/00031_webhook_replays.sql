-- Replays of events to webhook endpoints.

-- +goose Up
-- The replay that made the delivery, 0 for none, and the delivery that it repeats, 0 for none.
ALTER TABLE webhook_deliveries ADD COLUMN replay_id BIGINT NOT NULL DEFAULT 0;
ALTER TABLE webhook_deliveries ADD COLUMN source_id BIGINT NOT NULL DEFAULT 0;
-- 1 for a failed delivery that a replay repeated with success.
ALTER TABLE webhook_deliveries ADD COLUMN resent BIGINT NOT NULL DEFAULT 0;
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (deployment, endpoint_id, id) WHERE status = 'failed';
CREATE INDEX webhook_deliveries_repeatable ON webhook_deliveries (deployment, endpoint_id, id) WHERE status = 'failed' AND source_id = 0 AND resent = 0;
CREATE INDEX webhook_deliveries_unsent ON webhook_deliveries (deployment, endpoint_id, event_id) WHERE status = 'failed' AND resent = 0;
-- Failed deliveries are kept longer than the others that ended.
CREATE INDEX webhook_deliveries_ended ON webhook_deliveries (deployment, id) WHERE settled_at > 0 AND status <> 'failed';
CREATE INDEX webhook_deliveries_dead ON webhook_deliveries (deployment, id) WHERE status = 'failed';

CREATE TABLE webhook_replays (
    deployment      TEXT   NOT NULL,
    id              BIGINT NOT NULL,
    endpoint_id     BIGINT NOT NULL,
    status          TEXT   NOT NULL,
    -- '' for none.
    idempotency_key TEXT   NOT NULL,
    -- JSON: which events are sent again.
    selection       TEXT   NOT NULL,
    -- How far the selection was read.
    place           BIGINT NOT NULL,
    total           BIGINT NOT NULL,
    skipped         BIGINT NOT NULL,
    replayed        BIGINT NOT NULL,
    failed          BIGINT NOT NULL,
    next_at         BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    started_at      BIGINT NOT NULL,
    -- 0 for one that has not ended.
    completed_at    BIGINT NOT NULL,
    PRIMARY KEY (deployment, id)
);
CREATE UNIQUE INDEX webhook_replays_open ON webhook_replays (deployment, endpoint_id) WHERE completed_at = 0;
CREATE INDEX webhook_replays_endpoint ON webhook_replays (endpoint_id, id);
CREATE UNIQUE INDEX webhook_replays_key ON webhook_replays (deployment, endpoint_id, idempotency_key) WHERE idempotency_key <> '';
