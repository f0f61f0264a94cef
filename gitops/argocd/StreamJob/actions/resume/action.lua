-- The job goes on from the savepoint of its suspension.
obj.spec.suspend = false
return obj
