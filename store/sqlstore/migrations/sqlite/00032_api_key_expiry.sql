-- The event of an API key whose lifetime is over.

-- +goose Up
-- 1 after upkeep looked at the key's end, when its event was recorded if it has one.
ALTER TABLE api_keys ADD COLUMN expiry_seen BIGINT NOT NULL DEFAULT 0;
-- Keys that expired before this version have no event.
UPDATE api_keys SET expiry_seen = 1 WHERE expires_at > 0 AND expires_at <= CAST(strftime('%s', 'now') AS BIGINT) * 1000000;
CREATE INDEX api_keys_expiring ON api_keys (expires_at) WHERE expires_at > 0 AND expiry_seen = 0;
