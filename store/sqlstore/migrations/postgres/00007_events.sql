-- Rolled-up events are kept forever, with an ordinal instead of a user. ordinal is -1 for an event without a user. The
-- partitions are months, which the roll-up creates when it needs them; if it is not permitted to, events go into the
-- last one.

-- +goose Up
CREATE TABLE past_events (
    deployment TEXT   NOT NULL,
    kind       TEXT   NOT NULL,
    at         BIGINT NOT NULL,
    id         BIGINT NOT NULL,
    ordinal    BIGINT NOT NULL,
    method     TEXT   NOT NULL,
    PRIMARY KEY (deployment, kind, at, id)
) PARTITION BY RANGE (at);

CREATE TABLE past_events_others PARTITION OF past_events DEFAULT;

-- Sets and logs are already compact.
ALTER TABLE sealed_days ALTER COLUMN user_set SET STORAGE EXTERNAL, ALTER COLUMN log SET STORAGE EXTERNAL;
ALTER TABLE sealed_months ALTER COLUMN user_set SET STORAGE EXTERNAL;

-- The ordinal of a user in the sets and logs below: dense from 0 within a deployment, and never assigned again. The
-- ordinal of a deleted user stays, and leads to an id that no user has.
CREATE TABLE user_ordinals (
    deployment TEXT   NOT NULL,
    user_id    BIGINT NOT NULL,
    ordinal    BIGINT NOT NULL,
    PRIMARY KEY (deployment, user_id)
);

-- Of the events that are not rolled up yet, those with an address are found by their user, to erase it.
DROP INDEX events_user;
CREATE INDEX events_traces ON events (deployment, user_id) WHERE address <> '' OR user_agent <> '';

-- A search for events that are not rolled up yet passes over rows that the roll-up deleted, so these must be vacuumed
-- soon, however many rows there were before.
ALTER TABLE events SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
