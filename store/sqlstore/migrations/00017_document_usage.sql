-- The operator adds up the documents of a namespace before it writes another.

-- +goose Up
CREATE INDEX documents_namespace ON documents (namespace, deployment);
