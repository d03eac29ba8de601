-- The request that posted a message, as a W3C traceparent, to which the span of the delivery links. Empty if the
-- request was not traced.

-- +goose Up
ALTER TABLE outbox ADD COLUMN trace TEXT NOT NULL DEFAULT '';
