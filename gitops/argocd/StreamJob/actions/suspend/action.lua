-- A savepoint is taken, then no worker runs.
obj.spec.suspend = true
return obj
