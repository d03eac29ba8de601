-- Sealed events stay for ever, with a number in place of a user. ordinal is -1 where an event is no user's. The parts are months, which sealing makes as it
-- needs them; where it may not, events go into the last one.

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

-- Sets and logs are compact already.
ALTER TABLE sealed_days ALTER COLUMN user_set SET STORAGE EXTERNAL, ALTER COLUMN log SET STORAGE EXTERNAL;
ALTER TABLE sealed_months ALTER COLUMN user_set SET STORAGE EXTERNAL;

-- The number of a user in the sets and logs below: dense from 0 on within a deployment, and never given to another. That of a deleted
-- user stays: it leads to an id that nobody has any more.
CREATE TABLE user_ordinals (
    deployment TEXT   NOT NULL,
    user_id    BIGINT NOT NULL,
    ordinal    BIGINT NOT NULL,
    PRIMARY KEY (deployment, user_id)
);

-- Of the events that wait, those with an address are found by their user, to forget it.
DROP INDEX events_user;
CREATE INDEX events_traces ON events (deployment, user_id) WHERE address <> '' OR user_agent <> '';

-- Whoever looks for what waits passes by what was sealed: it is to be cleared away soon, however much more there was before.
ALTER TABLE events SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
