-- A savepoint of its own life: it has no owner, so that it outlives the job.
local snapshot = {
  apiVersion = obj.apiVersion,
  kind = "StreamSnapshot",
  metadata = {
    name = obj.metadata.name .. "-" .. os.date("!%Y%m%d%H%M%S"),
    namespace = obj.metadata.namespace,
  },
  spec = {jobRef = obj.metadata.name, type = "Savepoint"},
}

return {{operation = "create", resource = snapshot}}
