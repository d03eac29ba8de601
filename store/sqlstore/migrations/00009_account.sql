-- What people change of their own accounts: addresses they add, when they last proved who they are, and where they were signed in.

-- +goose Up
-- An address opens one account: the one that proved it, or whose primary one it is. One that somebody merely added may stand in several
-- accounts until it is proven.
DROP INDEX emails_folded;
CREATE UNIQUE INDEX emails_opening ON emails (deployment, folded) WHERE verified_at > 0 OR is_primary = 1;
CREATE INDEX emails_folded ON emails (deployment, folded);
DROP INDEX emails_user;
CREATE UNIQUE INDEX emails_of_user ON emails (deployment, user_id, folded);

-- When a sign-in was last proven anew; 0: not since it began.
ALTER TABLE signins ADD COLUMN proved_at BIGINT NOT NULL DEFAULT 0;
-- When the code of an attempt that goes on after it was right; 0: not yet.
ALTER TABLE attempts ADD COLUMN proved_at BIGINT NOT NULL DEFAULT 0;
CREATE INDEX attempts_user ON attempts (deployment, user_id) WHERE user_id > 0;

-- Sign-ins that are over, for their user's eyes: until the deployment's retention of addresses, and the newest hundred.
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
