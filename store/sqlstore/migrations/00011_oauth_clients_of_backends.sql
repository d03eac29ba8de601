-- Clients that a backend made: somebody vouched for them, so that they are kept though nobody uses them. And lists of an app's clients and
-- grants, a page at a time.

-- +goose Up
-- Whether a backend made it; else it registered itself, or its metadata were fetched.
ALTER TABLE oauth_clients ADD COLUMN by_backend SMALLINT NOT NULL DEFAULT 0;
-- When its content changed last; 0 of those from before: never since it was made.
ALTER TABLE oauth_clients ADD COLUMN updated_at BIGINT NOT NULL DEFAULT 0;

CREATE INDEX oauth_clients_listed ON oauth_clients (deployment, app_id, created_at, client);
CREATE INDEX oauth_grants_listed ON oauth_grants (deployment, app_id, id);
CREATE INDEX oauth_grants_of_client ON oauth_grants (deployment, app_id, client, id);
