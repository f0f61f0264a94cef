"""Collects all problems of a graph and raises them together, each with its place."""

from penstock.base.errors import ConfigError
from penstock.contract.graph import Step
from penstock.contract.reader import PROBLEMS_SHOWN_MAX
from penstock.graph.draft import GraphDraft


class Problems:
    """Collects what is wrong with a draft. :meth:`raise_if_any` then raises ConfigError."""

    def __init__(self, draft: GraphDraft) -> None:
        self._draft = draft
        self._found: list[str] = []

    def at(self, step: Step, text: str) -> None:
        """Add a problem of a step."""
        self._found.append(self.placed(step, text))

    def placed(self, step: Step, text: str) -> str:
        """Return a text about a step with its place."""
        return f"{self._draft.place(step.name)}: step {step.name!r}: {text}"

    def in_graph(self, text: str) -> None:
        """Add a problem of the whole graph."""
        self._found.append(text)

    def raise_if_any(self) -> None:
        """Raise ConfigError with one line for each problem, or return if there is none."""
        if self._found:
            shown = self._found[:PROBLEMS_SHOWN_MAX]
            hidden = len(self._found) - len(shown)
            raise ConfigError("\n".join(shown + ([f"... and {hidden} more"] if hidden else [])))
