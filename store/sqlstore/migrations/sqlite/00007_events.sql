-- Events: those that wait to be sealed, and sealed ones, which stay for ever, with a number in place of a user. ordinal is -1 where an
-- event is no user's.

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

-- The number of a user in the sets and logs below: dense from 0 on within a deployment, and never given to another. That of a deleted
-- user stays: it leads to an id that nobody has any more.
CREATE TABLE user_ordinals (
    deployment TEXT   NOT NULL,
    user_id    BIGINT NOT NULL,
    ordinal    BIGINT NOT NULL,
    PRIMARY KEY (deployment, user_id)
) WITHOUT ROWID;

-- The events that wait, in one tree in place of two: an import writes and sealing deletes them by the million.
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

-- Of the events that wait, those with an address are found by their user, to forget it.
CREATE INDEX events_traces ON events (deployment, user_id) WHERE address <> '' OR user_agent <> '';
