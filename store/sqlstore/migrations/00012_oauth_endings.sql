-- Access that ends immediately and whose rows are deleted in batches: the grants of a client, or of an app, that was
-- deleted. And limits of rows that were used once: runtime clients, and the grants of a user.

-- +goose Up
CREATE TABLE oauth_endings (
    deployment TEXT     NOT NULL,
    app_id     BIGINT   NOT NULL,
    -- The client whose grants ended; empty: all clients of the app, and its runtime clients too.
    client     TEXT     NOT NULL,
    -- Rows created until then are ended.
    ended_at   BIGINT   NOT NULL,
    -- Whether its rows were deleted. Rows that were committed late are deleted in one more pass before this row is
    -- removed.
    emptied    SMALLINT NOT NULL,
    PRIMARY KEY (deployment, app_id, client)
);

CREATE INDEX oauth_endings_age ON oauth_endings (ended_at);
CREATE INDEX oauth_grants_made ON oauth_grants (deployment, app_id, client, created_at);
CREATE INDEX oauth_grants_age ON oauth_grants (updated_at);
CREATE INDEX oauth_clients_used ON oauth_clients (deployment, app_id, used_at, client) WHERE used_at > 0 AND by_backend = 0;
CREATE INDEX oauth_clients_idle ON oauth_clients (used_at) WHERE used_at > 0 AND by_backend = 0;
-- The user with whose account the codes are deleted.
CREATE INDEX challenges_user ON challenges (deployment, user_id);
