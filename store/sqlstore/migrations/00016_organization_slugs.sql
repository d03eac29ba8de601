-- Slugs of deleted organizations. They are never assigned again: groups in tokens are named after them, and
-- applications may trust such a group after the organization is deleted.

-- +goose Up
CREATE TABLE organization_slugs (
    deployment TEXT NOT NULL,
    slug       TEXT NOT NULL,
    PRIMARY KEY (deployment, slug)
);
