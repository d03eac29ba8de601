-- Events: those that are not rolled up yet, and rolled-up events, which are kept forever, with an ordinal instead of a
-- user. ordinal is -1 for an event without a user.

-- +goose Up
CREATE TABLE past_events (
    deployment TEXT   NOT NULL,
    kind       TEXT   NOT NULL,
    at         BIGINT NOT NULL,
    id         BIGINT NOT NULL,
    ordinal    BIGINT NOT NULL,
    method     TEXT   NOT NULL,
    PRIMARY KEY (deployment, kind, at, id)
) WITHOUT ROWID;

-- The ordinal of a user in the sets and logs below: dense from 0 within a deployment, and never assigned again. The
-- ordinal of a deleted user stays, and leads to an id that no user has.
CREATE TABLE user_ordinals (
    deployment TEXT   NOT NULL,
    user_id    BIGINT NOT NULL,
    ordinal    BIGINT NOT NULL,
    PRIMARY KEY (deployment, user_id)
) WITHOUT ROWID;

-- The events that are not rolled up yet, in one tree instead of two: an import writes them, and the roll-up deletes
-- them, by the million.
ALTER TABLE events RENAME TO events_before;
CREATE TABLE events (
    deployment TEXT   NOT NULL,
    kind       TEXT   NOT NULL,
    at         BIGINT NOT NULL,
    id         BIGINT NOT NULL,
    user_id    BIGINT NOT NULL,
    method     TEXT   NOT NULL,
    address    TEXT   NOT NULL,
    user_agent TEXT   NOT NULL,
    PRIMARY KEY (deployment, kind, at, id)
) WITHOUT ROWID;
INSERT INTO events (deployment, kind, at, id, user_id, method, address, user_agent)
SELECT deployment, kind, at, id, user_id, method, address, user_agent FROM events_before;
DROP TABLE events_before;

-- Of the events that are not rolled up yet, those with an address are found by their user, to erase it.
CREATE INDEX events_traces ON events (deployment, user_id) WHERE address <> '' OR user_agent <> '';
