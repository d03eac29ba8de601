-- The connections that organizations and backends set up, and the links by which people without an account do so.

-- +goose Up
-- Whether the connection requires sign-ins by it: of users with an address in the organization's domains, or of all members.
ALTER TABLE connections ADD COLUMN enforces SMALLINT NOT NULL DEFAULT 0;
-- Whether the organization has active connections (1), of which one enforces (2). Requests of members read connections
-- only if one enforces.
ALTER TABLE organizations ADD COLUMN own_connections SMALLINT NOT NULL DEFAULT 0;
