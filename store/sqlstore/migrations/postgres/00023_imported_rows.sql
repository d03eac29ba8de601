-- SQLite keeps the rows of imported lines in one tree from this version on. PostgreSQL has no such tables. It has the
-- version anyway: the newest version, with which backups are compared, is one for both engines.

-- +goose Up
SELECT 1;
