"""Writes crds/*.yaml from the classes of fields: ``python -m tools.crds``."""

from dataclasses import dataclass
from pathlib import Path

import yaml

from penstock.base import limits
from penstock.contract import (
    streamjob,
    streamjob_status,
    streamsnapshot,
)
from penstock.contract.schema import API_VERSION, DNS_LABEL, FieldRow
from penstock.contract.streamjob import KIND
from tools.crd_schema import Schema, schema

FOLDER = Path(__file__).parent.parent / "crds"
GROUP, VERSION = API_VERSION.split("/")
HEAD = "# Made by `python -m tools.crds` from the fields of penstock.contract; edit those.\n"


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object: its names, its rows, its columns in ``kubectl get`` and its rules."""

    kind: str
    short: str
    meaning: str
    spec: FieldRow
    status: FieldRow
    columns: tuple[Schema, ...]
    rules: tuple[Schema, ...] = ()
    scale: bool = False

    @property
    def plural(self) -> str:
        """Return the name in paths of the API."""
        return self.kind.lower() + "s"

    @property
    def file(self) -> Path:
        """Return where its definition is kept."""
        return FOLDER / f"{self.plural}.yaml"


def _column(name: str, kind: str, path: str, meaning: str, *, wide: bool = False) -> Schema:
    column = {"name": name, "type": kind, "jsonPath": path, "description": meaning}
    return {**column, "priority": 1} if wide else column


def _condition(kind: str, member: str) -> str:
    return f'.status.conditions[?(@.type=="{kind}")].{member}'


_READY = _column("Ready", "string", _condition("Ready", "status"), "Whether all is well")
_STATE = _column("State", "string", ".status.state", "The state in one word")
_REASON = _column("Reason", "string", _condition("Ready", "reason"), "Why so", wide=True)
_MATTERS = _column("Reason", "string", ".status.reason", "Why so: its stall before anything else")
_AGE = _column("Age", "date", ".metadata.creationTimestamp", "Since it was created")
_LAST = ".status.checkpoint.lastCompleted"

STREAM_JOB = Resource(
    KIND,
    "sj",
    "A stateful stream job: what runs, on how many workers, and how its state is kept.",
    streamjob.SPEC,
    streamjob_status.STATUS,
    columns=(
        _STATE,
        _MATTERS,
        _READY,
        _column("Desired", "integer", ".status.desiredReplicas", "Workers that are wanted"),
        _column("Workers", "integer", ".status.readyReplicas", "Workers that are ready"),
        _column("Epoch", "integer", f"{_LAST}.epoch", "The newest checkpoint"),
        _column("Checkpoint Age", "date", f"{_LAST}.time", "Since the newest checkpoint"),
        _column("Secured", "string", _condition("Secured", "status"), "Whether mTLS is on", wide=True),
        _AGE,
    ),
    rules=(
        {
            "rule": f"size(self.metadata.name) <= {limits.JOB_NAME_CHARS_MAX}",
            "message": f"name must be at most {limits.JOB_NAME_CHARS_MAX} characters",
        },
        {
            "rule": f"self.metadata.name.matches('^(?:{DNS_LABEL})$')",
            "message": "name does not fit: a lower-case letter, then letters, digits and -",
        },
    ),
    scale=True,
)
STREAM_SNAPSHOT = Resource(
    streamsnapshot.KIND,
    "ssnap",
    "A savepoint or checkpoint of a StreamJob, asked for or imported.",
    streamsnapshot.SPEC,
    streamsnapshot.STATUS,
    columns=(
        _STATE,
        _READY,
        _column("Job", "string", ".spec.jobRef", "The job it is of"),
        _column("Type", "string", ".spec.type", "Savepoint or Checkpoint"),
        _column("Epoch", "integer", ".status.epoch", "The number of its checkpoint"),
        _column("Path", "string", ".status.path", "What a restore takes", wide=True),
        _REASON,
        _AGE,
    ),
)
RESOURCES = (STREAM_JOB, STREAM_SNAPSHOT)


def definition(resource: Resource) -> Schema:
    """Return the CustomResourceDefinition as plain data."""
    names = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
        "shortNames": [resource.short],
        "categories": ["streams"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": names,
            "versions": [_version(resource)],
        },
    }


def _version(resource: Resource) -> Schema:
    subresources: Schema = {"status": {}}
    if resource.scale:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": subresources,
        "selectableFields": [{"jsonPath": ".status.state"}],
        "additionalPrinterColumns": list(resource.columns),
        "schema": {"openAPIV3Schema": _root(resource)},
    }


def _root(resource: Resource) -> Schema:
    root: Schema = {
        "description": resource.meaning,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"description": f"{API_VERSION}.", "type": "string"},
            "kind": {"description": f"{resource.kind}.", "type": "string"},
            "metadata": {"type": "object"},  # described by the API server alone
            "spec": schema(resource.spec),
            "status": schema(resource.status),
        },
    }
    if resource.rules:
        root["x-kubernetes-validations"] = list(resource.rules)
    return root


class _Dumper(yaml.SafeDumper):
    """Writes a value that occurs twice both times."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def render(resource: Resource) -> str:
    """Return the file of one definition."""
    plain = definition(resource)
    return HEAD + yaml.dump(plain, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in RESOURCES:
        each.file.write_text(render(each), encoding="utf-8")
