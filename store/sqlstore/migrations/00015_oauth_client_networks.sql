-- Clients that registered themselves count toward the limit of a network (IPv4 /24, IPv6 /48): the network that
-- registered them, and after their first use the network of the first grant. Empty in rows of the version before.

-- +goose Up
ALTER TABLE oauth_clients ADD COLUMN network TEXT NOT NULL DEFAULT '';

CREATE INDEX oauth_clients_unused_network ON oauth_clients (deployment, app_id, network, created_at) WHERE used_at = 0;
CREATE INDEX oauth_clients_used_network ON oauth_clients (deployment, app_id, network, used_at) WHERE used_at > 0 AND by_backend = 0;
