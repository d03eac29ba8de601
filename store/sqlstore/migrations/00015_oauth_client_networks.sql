-- Clients that registered themselves have their places by network (IPv4 /24, IPv6 /48): of the one that registered them, and once they were used of
-- the one of the first grant. Empty in rows of the version before.

-- +goose Up
ALTER TABLE oauth_clients ADD COLUMN network TEXT NOT NULL DEFAULT '';

CREATE INDEX oauth_clients_unused_network ON oauth_clients (deployment, app_id, network, created_at) WHERE used_at = 0;
CREATE INDEX oauth_clients_used_network ON oauth_clients (deployment, app_id, network, used_at) WHERE used_at > 0 AND by_backend = 0;
