-- Health of a StreamJob: Healthy, Progressing or Degraded, never Suspended (that would colour the
-- whole application): a job that its spec suspends is what Git asks for, so it is Healthy.
local function is(status, message)
  return {status = status, message = message}
end

local function words(condition, otherwise)
  if condition == nil then
    return otherwise
  end
  if condition.message == nil or condition.message == "" then
    return condition.reason
  end
  return condition.reason .. ": " .. condition.message
end

if obj.metadata.deletionTimestamp ~= nil then
  return is("Progressing", "Deleting")
end
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return is("Progressing", "Waiting for the operator to see this generation")
end

local condition = {}
for _, found in ipairs(obj.status.conditions or {}) do
  condition[found.type] = found
end
local state = obj.status.state
local ready = condition.Ready

if condition.Accepted ~= nil and condition.Accepted.status == "False" then
  return is("Degraded", words(condition.Accepted))
end
if condition.Stalled ~= nil and condition.Stalled.status == "True" then
  return is("Degraded", words(condition.Stalled))
end
if state == "Failed" then
  return is("Degraded", words(ready, "Failed"))
end
if ready ~= nil and (ready.reason == "CheckpointStale" or ready.reason == "CheckpointFailing") then
  return is("Degraded", words(ready))
end
if state == "Suspended" and obj.spec.suspend then
  return is("Healthy", "Suspended by spec")
end
if state == "Finished" then
  return is("Healthy", words(ready, "Finished"))
end
if ready ~= nil and ready.status == "True" then
  return is("Healthy", words(ready))
end
return is("Progressing", words(ready, state or "Pending"))
