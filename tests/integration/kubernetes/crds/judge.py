"""Whether the API server accepts an object, or the text of its refusal."""

from dataclasses import dataclass
from typing import Any

from penstock.kubernetes.answers import ApiRefused
from penstock.kubernetes.client import ApiClient

STRICT = "?dryRun=All&fieldValidation=Strict"  # as kubectl asks; nothing is kept


@dataclass(frozen=True, slots=True)
class Judge:
    """Asks with dry runs. ``kept`` objects are really created, so that they can be changed."""

    client: ApiClient

    def refusal(self, plain: Any) -> str | None:
        """Return why the server would refuse to create the object; None if it would not."""
        try:
            self.client.create(_collection(plain) + STRICT, _as_kubectl_sends(plain))
        except ApiRefused as refused:
            return refused.message
        return None

    def change_refusal(self, plain: Any, patch: Any) -> str | None:
        """Return why the server would refuse ``patch`` (a merge patch) of a kept object."""
        path = f"{_collection(plain)}/{plain['metadata']['name']}"
        self.client.create(_collection(plain) + "?fieldValidation=Strict", plain)
        try:
            self.client.merge(path + STRICT, patch)
        except ApiRefused as refused:
            return refused.message
        finally:
            self.client.delete(path)
        return None


def _collection(plain: Any) -> str:
    return f"/apis/penstock.dev/v1alpha1/namespaces/default/{plain['kind'].lower()}s"


def _as_kubectl_sends(plain: Any) -> Any:
    """Write 2.0 as 2, as every YAML reader written in Go does."""
    match plain:
        case dict():
            return {name: _as_kubectl_sends(value) for name, value in plain.items()}
        case list():
            return [_as_kubectl_sends(value) for value in plain]
        case float() if plain.is_integer():
            return int(plain)
    return plain
