-- All workers are started anew, from the last checkpoint; nothing else changes.
obj.spec.restartNonce = (obj.spec.restartNonce or 0) + 1
return obj
