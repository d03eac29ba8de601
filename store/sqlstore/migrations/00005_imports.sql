-- Imports: the progress of each file, and the row of each of its lines, so that a line is imported once.

-- +goose Up
CREATE TABLE imports (
    deployment   TEXT   NOT NULL,
    -- SHA-256 of the whole file, in hexadecimal digits.
    file         TEXT   NOT NULL,
    -- How many of its bytes are processed.
    done         BIGINT NOT NULL,
    imported     BIGINT NOT NULL,
    present      BIGINT NOT NULL,
    rejected     BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    completed_at BIGINT NOT NULL,
    PRIMARY KEY (deployment, file)
);

CREATE TABLE imported_rows (
    deployment  TEXT   NOT NULL,
    kind        TEXT   NOT NULL,
    external_id TEXT   NOT NULL,
    id          BIGINT NOT NULL,
    PRIMARY KEY (deployment, kind, external_id)
);
