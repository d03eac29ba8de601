-- What ends at once and is deleted little by little: what people granted a client, or an app, that was deleted. And what bounds rows that were
-- used once: clients of run time, and grants of a person.

-- +goose Up
CREATE TABLE oauth_endings (
    deployment TEXT     NOT NULL,
    app_id     BIGINT   NOT NULL,
    -- Whose grants ended, empty for all of the app; its clients of run time ended then, too.
    client     TEXT     NOT NULL,
    -- What was made till then is over.
    ended_at   BIGINT   NOT NULL,
    -- Whether its rows were deleted; those that came late are looked for once more before it is forgotten.
    emptied    SMALLINT NOT NULL,
    PRIMARY KEY (deployment, app_id, client)
);

CREATE INDEX oauth_endings_age ON oauth_endings (ended_at);
CREATE INDEX oauth_grants_made ON oauth_grants (deployment, app_id, client, created_at);
CREATE INDEX oauth_grants_age ON oauth_grants (updated_at);
CREATE INDEX oauth_clients_used ON oauth_clients (deployment, app_id, used_at, client) WHERE used_at > 0 AND by_backend = 0;
CREATE INDEX oauth_clients_idle ON oauth_clients (used_at) WHERE used_at > 0 AND by_backend = 0;
-- Whose codes go with an account.
CREATE INDEX challenges_user ON challenges (deployment, user_id);
