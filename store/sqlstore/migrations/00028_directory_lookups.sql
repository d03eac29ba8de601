-- The primary key of a directory's table is its only index that begins with the deployment and the directory. Without
-- statistics, PostgreSQL takes every row of a directory for one row: it would as soon read them all by another index that
-- begins so, and filter them.

-- +goose Up
DROP INDEX scim_users_name;
CREATE UNIQUE INDEX scim_users_name ON scim_users (name, directory_id, deployment);
DROP INDEX scim_groups_name;
CREATE UNIQUE INDEX scim_groups_name ON scim_groups (name, directory_id, deployment);
DROP INDEX scim_members_member;
CREATE INDEX scim_members_member ON scim_members (member_id, directory_id, deployment, group_id);
