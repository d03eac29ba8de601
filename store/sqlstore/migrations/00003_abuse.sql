-- Limits against abuse: the requests for codes, counters within a window, and the clients from which an account signed
-- in. Before, challenges counted the sends, and failures were the counters; a server of the version before continues
-- with those.

-- +goose Up
CREATE TABLE sends (
    deployment    TEXT     NOT NULL,
    id            BIGINT   NOT NULL,
    purpose       TEXT     NOT NULL,
    channel       TEXT     NOT NULL,
    -- The user who requested the code; 0: not signed in.
    user_id       BIGINT   NOT NULL,
    recipient     TEXT     NOT NULL,
    -- An IPv4 address or IPv6 /64, and its network (IPv4 /24 or IPv6 /48).
    client        TEXT     NOT NULL,
    neighbourhood TEXT     NOT NULL,
    region        TEXT     NOT NULL,
    -- Whether the requester is known: at a client from which the account signed in, or a user with a verified phone.
    known         SMALLINT NOT NULL,
    -- Whether a message was sent.
    sent          SMALLINT NOT NULL,
    created_at    BIGINT   NOT NULL,
    PRIMARY KEY (deployment, id)
);

CREATE INDEX sends_recipient ON sends (deployment, channel, recipient, created_at);
CREATE INDEX sends_neighbourhood ON sends (deployment, channel, neighbourhood, created_at);
CREATE INDEX sends_user ON sends (deployment, channel, user_id, created_at);
CREATE INDEX sends_day ON sends (deployment, channel, created_at);
CREATE INDEX sends_age ON sends (created_at);

CREATE TABLE counters (
    deployment TEXT   NOT NULL,
    scope      TEXT   NOT NULL,
    subject    TEXT   NOT NULL,
    counted    BIGINT NOT NULL,
    -- When the count begins again.
    ends_at    BIGINT NOT NULL,
    PRIMARY KEY (deployment, scope, subject)
);

CREATE INDEX counters_age ON counters (ends_at);

CREATE TABLE known_clients (
    deployment TEXT   NOT NULL,
    user_id    BIGINT NOT NULL,
    client     TEXT   NOT NULL,
    seen_at    BIGINT NOT NULL,
    PRIMARY KEY (deployment, user_id, client)
);

CREATE INDEX known_clients_age ON known_clients (seen_at);

ALTER TABLE invitations ADD COLUMN revoked_at BIGINT NOT NULL DEFAULT 0;
CREATE INDEX invitations_email ON invitations (deployment, folded, created_at);
CREATE INDEX invitations_inviter ON invitations (deployment, invited_by, created_at);

-- Limits of the last day continue to count.
INSERT INTO sends (deployment, id, purpose, channel, user_id, recipient, client, neighbourhood, region, known, sent, created_at)
SELECT deployment, id, purpose, channel, user_id, recipient, address, address, region, 0, sent, created_at FROM challenges
WHERE purpose <> 'invitation';

-- Clients of the last 90 days remain known: sign-ins have IPv4 addresses, and live sessions the /64 of an IPv6 address.
INSERT INTO known_clients (deployment, user_id, client, seen_at)
SELECT deployment, user_id, address, MAX(at) FROM events
WHERE kind = 'signin' AND user_id <> 0 AND address LIKE '%.%' AND address NOT LIKE '%:%' AND at > (SELECT MAX(at) FROM events) - 7776000000000
GROUP BY deployment, user_id, address;

INSERT INTO known_clients (deployment, user_id, client, seen_at)
SELECT g.deployment, g.user_id, s.address, MAX(g.created_at) FROM signins g
JOIN sessions s ON s.deployment = g.deployment AND s.id = g.session_id
WHERE s.address LIKE '%/64'
GROUP BY g.deployment, g.user_id, s.address;
