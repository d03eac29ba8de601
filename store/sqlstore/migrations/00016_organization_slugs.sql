-- Slugs of organizations that were deleted. They are never given again: groups in tokens are named after them, and what trusts such a group
-- outlives the organization.

-- +goose Up
CREATE TABLE organization_slugs (
    deployment TEXT NOT NULL,
    slug       TEXT NOT NULL,
    PRIMARY KEY (deployment, slug)
);
