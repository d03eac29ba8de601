-- Which request posted a message, as W3C's traceparent, for the span of its sending to link to. Empty where that was not traced.

-- +goose Up
ALTER TABLE outbox ADD COLUMN trace TEXT NOT NULL DEFAULT '';
