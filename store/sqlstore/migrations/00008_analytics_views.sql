-- Views for charts in other tools (docs/analytics.md).

-- +goose Up

-- The column who distinguishes users: it is their ordinal, or -1 - id for a user who has no ordinal yet.
CREATE VIEW analytics_events AS
SELECT deployment, kind, at, ordinal AS who, method FROM past_events
UNION ALL
SELECT e.deployment, e.kind, e.at, COALESCE(o.ordinal, CASE WHEN e.user_id = 0 THEN -1 ELSE -1 - e.user_id END), e.method
FROM events e LEFT JOIN user_ordinals o ON o.deployment = e.deployment AND o.user_id = e.user_id;

-- UTC days, in days since 1970. Days with events that are not rolled up yet are counted from their events.
CREATE VIEW analytics_days AS
SELECT d.deployment, d.day, d.users AS signins, d.signups, d.organizations, d.workspaces FROM sealed_days d
WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.deployment = d.deployment AND e.kind IN ('signin', 'signup', 'organization', 'workspace')
    AND e.at >= d.day * 86400000000 AND e.at < (d.day + 1) * 86400000000)
UNION ALL
SELECT v.deployment, v.at / 86400000000, COUNT(DISTINCT CASE WHEN v.kind = 'signin' THEN v.who END), COUNT(CASE WHEN v.kind = 'signup' THEN 1 END),
    COUNT(CASE WHEN v.kind = 'organization' THEN 1 END), COUNT(CASE WHEN v.kind = 'workspace' THEN 1 END)
FROM (SELECT DISTINCT deployment, at / 86400000000 AS day FROM events) w
JOIN analytics_events v ON v.deployment = w.deployment AND v.kind IN ('signin', 'signup', 'organization', 'workspace')
    AND v.at >= w.day * 86400000000 AND v.at < (w.day + 1) * 86400000000
GROUP BY 1, 2;
