-- The operator sums the size of a namespace's documents before it writes another.

-- +goose Up
CREATE INDEX documents_namespace ON documents (namespace, deployment);
