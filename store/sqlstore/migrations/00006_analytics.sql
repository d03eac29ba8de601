-- Rolled-up analytics. The table events has the events that are not rolled up yet; the roll-up moves them into their
-- day. The count of any moment is the sum of the rolled-up days and of events, even for events that arrive late. The
-- folders beside this file have the tables that differ between the engines.

-- +goose Up

-- The sums over all rolled-up days: "ordinals", the number of assigned ordinals, which is the next one, and "signups".
-- The row of ordinals is the lock of the roll-up of a deployment.
CREATE TABLE sealed_totals (
    deployment TEXT   NOT NULL,
    what       TEXT   NOT NULL,
    total      BIGINT NOT NULL,
    PRIMARY KEY (deployment, what)
);

-- A UTC day, in days since 1970. version is how often it was written; the sums are XXH64 of the two blobs.
CREATE TABLE sealed_days (
    deployment    TEXT   NOT NULL,
    day           BIGINT NOT NULL,
    version       BIGINT NOT NULL,
    signins       BIGINT NOT NULL,
    users         BIGINT NOT NULL,
    signups       BIGINT NOT NULL,
    organizations BIGINT NOT NULL,
    workspaces    BIGINT NOT NULL,
    users_sum     BIGINT NOT NULL,
    log_sum       BIGINT NOT NULL,
    -- The ordinals of the users who signed in: a roaring bitmap in its interchange form.
    user_set      BYTEA  NOT NULL,
    -- Every event, to the microsecond: internal/daylog.
    log           BYTEA  NOT NULL,
    PRIMARY KEY (deployment, day)
);

-- The users of all rolled-up days of a month, in months since January 1970.
CREATE TABLE sealed_months (
    deployment TEXT   NOT NULL,
    month      BIGINT NOT NULL,
    version    BIGINT NOT NULL,
    users_sum  BIGINT NOT NULL,
    user_set   BYTEA  NOT NULL,
    PRIMARY KEY (deployment, month)
);

-- Rolled-up sign-ins and sign-ups that still have a user: those within the retention of addresses, and the newest 100.
CREATE TABLE recent_events (
    deployment TEXT   NOT NULL,
    kind       TEXT   NOT NULL,
    at         BIGINT NOT NULL,
    id         BIGINT NOT NULL,
    user_id    BIGINT NOT NULL,
    method     TEXT   NOT NULL,
    address    TEXT   NOT NULL,
    user_agent TEXT   NOT NULL,
    PRIMARY KEY (deployment, kind, at, id)
);

CREATE INDEX recent_events_user ON recent_events (deployment, user_id);
