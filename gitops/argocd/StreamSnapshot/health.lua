-- Health of a StreamSnapshot: Healthy when a job can be restored from it.
local function is(status, message)
  return {status = status, message = message}
end

if obj.metadata.deletionTimestamp ~= nil then
  return is("Progressing", "Deleting")
end
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return is("Progressing", "Waiting for the operator to see this generation")
end
if obj.status.state == "Completed" then
  return is("Healthy", obj.status.path or "Completed")
end
if obj.status.state == "Failed" then
  return is("Degraded", obj.status.message or "Failed")
end
return is("Progressing", obj.status.state or "Pending")
