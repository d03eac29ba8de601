-- Health of Cardea's kinds, from the conditions that every one of them has. See docs/gitops.md.
local hs = {status = "Progressing", message = "waiting for the operator of Cardea"}

local conditions = {}
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    conditions[condition.type] = condition
  end
end

if obj.metadata.deletionTimestamp ~= nil then
  hs.message = "being deleted"
  if conditions.Deleting ~= nil then
    hs.message = conditions.Deleting.message
  end
  return hs
end

local ready = conditions.Ready
if ready == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return hs
end

hs.message = ready.message
if ready.reason == "Suspended" then
  hs.status = "Suspended"
elseif conditions.Stalled ~= nil and conditions.Stalled.status == "True" then
  hs.status = "Degraded"
  hs.message = conditions.Stalled.message
elseif ready.status == "True" then
  hs.status = "Healthy"
end
return hs
