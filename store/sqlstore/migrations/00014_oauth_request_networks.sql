-- Pending authorization requests and devices are limited per network (IPv4 /24, IPv6 /48) and per app, besides per
-- client address. Empty in rows of the version before.

-- +goose Up
ALTER TABLE oauth_requests ADD COLUMN network_block TEXT NOT NULL DEFAULT '';
ALTER TABLE oauth_devices ADD COLUMN network_block TEXT NOT NULL DEFAULT '';

CREATE INDEX oauth_requests_block ON oauth_requests (deployment, network_block, created_at);
CREATE INDEX oauth_requests_app ON oauth_requests (deployment, app_id, network_block);
CREATE INDEX oauth_devices_block ON oauth_devices (deployment, network_block, created_at);
CREATE INDEX oauth_devices_app ON oauth_devices (deployment, app_id, network_block);
