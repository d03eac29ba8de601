-- The connections that organizations and backends set up, and the links by which people without an account do so.

-- +goose Up
-- Whether the connection requires sign-ins by it: of users with an address in the organization's domains, or of all members.
ALTER TABLE connections ADD COLUMN enforces SMALLINT NOT NULL DEFAULT 0;
-- Whether an active connection of the organization enforces. Requests of members read no connection otherwise.
ALTER TABLE organizations ADD COLUMN connections_enforced SMALLINT NOT NULL DEFAULT 0;
