-- How far members were notified of what their organization requires: the membership that was handled last. 0: no member
-- waits for a notice.

-- +goose Up
ALTER TABLE organizations ADD COLUMN notices_after BIGINT NOT NULL DEFAULT 0;
CREATE INDEX organizations_notices ON organizations (deployment, id) WHERE notices_after > 0;
