-- Analytics beside the events: the table events keeps those that are not sealed yet; sealing moves them into the day they are of. What
-- is counted of any moment is what is sealed and what is in events, whatever comes late. What the engines keep differently is in
-- the folders beside this file.

-- +goose Up

-- What is counted over all that is sealed: "ordinals" that were given, which is the next one, and "signups". The row of ordinals is what
-- those who seal a deployment take turns with.
CREATE TABLE sealed_totals (
    deployment TEXT   NOT NULL,
    what       TEXT   NOT NULL,
    total      BIGINT NOT NULL,
    PRIMARY KEY (deployment, what)
);

-- A UTC day, in days since 1970. version counts how often it was written; the sums are XXH64 of the two blobs.
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
    -- The numbers of the users who signed in: a roaring bitmap in its interchange form.
    user_set      BYTEA  NOT NULL,
    -- Every event, to the microsecond: internal/daylog.
    log           BYTEA  NOT NULL,
    PRIMARY KEY (deployment, day)
);

-- The users of all sealed days of a month, in months since January 1970.
CREATE TABLE sealed_months (
    deployment TEXT   NOT NULL,
    month      BIGINT NOT NULL,
    version    BIGINT NOT NULL,
    users_sum  BIGINT NOT NULL,
    user_set   BYTEA  NOT NULL,
    PRIMARY KEY (deployment, month)
);

-- Sealed sign-ins and sign-ups that are still known to be somebody's: those within the retention of addresses, and the newest 100.
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
