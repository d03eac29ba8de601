-- What else is recorded about an action, such as the reason of a reset of factors; empty for most actions.

-- +goose Up
ALTER TABLE audit ADD COLUMN detail TEXT NOT NULL DEFAULT '';
