-- SQLite keeps the rows of imported lines in one tree from this version on. PostgreSQL has no such tables. It has the
-- version anyway, because a backup of one engine can be restored into the other.

-- +goose Up
SELECT 1;
