-- The rows of imported lines in one tree instead of two: an import looks up and writes them by the million.

-- +goose Up
ALTER TABLE imported_rows RENAME TO imported_rows_before;
CREATE TABLE imported_rows (
    deployment  TEXT   NOT NULL,
    kind        TEXT   NOT NULL,
    external_id TEXT   NOT NULL,
    id          BIGINT NOT NULL,
    PRIMARY KEY (deployment, kind, external_id)
) WITHOUT ROWID;
INSERT INTO imported_rows (deployment, kind, external_id, id)
SELECT deployment, kind, external_id, id FROM imported_rows_before ORDER BY deployment, kind, external_id;
DROP TABLE imported_rows_before;
