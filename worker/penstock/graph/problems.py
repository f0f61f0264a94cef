"""Problems of a graph, found together and raised together, each with its place."""

from penstock.base.errors import ConfigError
from penstock.contract.graph import Step
from penstock.contract.reader import PROBLEMS_SHOWN_MAX
from penstock.graph.draft import GraphDraft


class Problems:
    """Collects what is wrong with a draft; :meth:`done` raises ConfigError when there is any."""

    def __init__(self, draft: GraphDraft) -> None:
        self._draft = draft
        self._found: list[str] = []

    def at(self, step: Step, text: str) -> None:
        """Note a problem of a step."""
        self._found.append(f"{self._draft.place(step.name)}: step {step.name!r}: {text}")

    def everywhere(self, text: str) -> None:
        """Note a problem of the whole graph."""
        self._found.append(text)

    def done(self) -> None:
        """Raise with every problem, one a line."""
        if self._found:
            shown = self._found[:PROBLEMS_SHOWN_MAX]
            hidden = len(self._found) - len(shown)
            raise ConfigError("\n".join(shown + ([f"... and {hidden} more"] if hidden else [])))
