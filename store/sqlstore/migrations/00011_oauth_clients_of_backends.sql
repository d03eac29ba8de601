-- Clients that a backend created: they are trusted, so they are kept while unused. And lists of an app's clients and
-- grants, one page at a time.

-- +goose Up
-- Whether a backend created it; otherwise it registered itself, or its metadata was fetched.
ALTER TABLE oauth_clients ADD COLUMN by_backend SMALLINT NOT NULL DEFAULT 0;
-- When its content changed last; 0 for earlier rows: never since its creation.
ALTER TABLE oauth_clients ADD COLUMN updated_at BIGINT NOT NULL DEFAULT 0;

CREATE INDEX oauth_clients_listed ON oauth_clients (deployment, app_id, created_at, client);
CREATE INDEX oauth_grants_listed ON oauth_grants (deployment, app_id, id);
CREATE INDEX oauth_grants_of_client ON oauth_grants (deployment, app_id, client, id);
