-- Changes that users make to their own accounts: added addresses, the time of the last authentication, and ended
-- sign-ins.

-- +goose Up
-- An address opens one account: the one that verified it, or whose primary address it is. An unverified address can be
-- in several accounts until one of them verifies it.
DROP INDEX emails_folded;
CREATE UNIQUE INDEX emails_opening ON emails (deployment, folded) WHERE verified_at > 0 OR is_primary = 1;
CREATE INDEX emails_folded ON emails (deployment, folded);
DROP INDEX emails_user;
CREATE UNIQUE INDEX emails_of_user ON emails (deployment, user_id, folded);

-- The time of the last reauthentication of a sign-in; 0: none since it began.
ALTER TABLE signins ADD COLUMN proved_at BIGINT NOT NULL DEFAULT 0;
-- The time when the code of an attempt was verified, if a further step follows; 0: not yet.
ALTER TABLE attempts ADD COLUMN proved_at BIGINT NOT NULL DEFAULT 0;
CREATE INDEX attempts_user ON attempts (deployment, user_id) WHERE user_id > 0;

-- Ended sign-ins, which their user can list: until the deployment's retention of addresses, and the newest hundred.
CREATE TABLE ended_signins (
    deployment TEXT   NOT NULL,
    user_id    BIGINT NOT NULL,
    id         BIGINT NOT NULL,
    method     TEXT   NOT NULL,
    address    TEXT   NOT NULL,
    user_agent TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL,
    PRIMARY KEY (deployment, user_id, id)
);

CREATE INDEX ended_signins_age ON ended_signins (deployment, used_at);
CREATE INDEX workspaces_organization ON workspace_memberships (deployment, organization_id);
