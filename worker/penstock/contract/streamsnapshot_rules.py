"""Relations between the fields of a StreamSnapshot, as the API server checks them (CEL)."""

from penstock.contract.fields import Rule

DISPOSABLE = Rule(
    "!self.disposeOnDelete || self.type == 'Savepoint' && !has(self.path)",
    "disposeOnDelete is for savepoints that this object asks for: checkpoints are collected by"
    " their job, and imported files are another's",
    path=".disposeOnDelete",
)
SPEC = (DISPOSABLE,)
