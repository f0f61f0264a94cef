-- What can be asked of a StreamJob now.
local suspended = obj.spec.suspend == true
local running = obj.status ~= nil and obj.status.state == "Running"

return {
  suspend = {disabled = suspended, iconClass = "fa fa-fw fa-pause"},
  resume = {disabled = not suspended, iconClass = "fa fa-fw fa-play"},
  restart = {disabled = suspended, iconClass = "fa fa-fw fa-redo"},
  savepoint = {disabled = not running, iconClass = "fa fa-fw fa-save"},
}
