"""Which of our own definitions the API server has, and what happens when that changes.

Kopf learns at its start what to watch, and ends when one of these kinds is deleted. So the operator
starts again in the same process when one of ours appears or disappears. After ``kubectl delete crd``
it still removes files of purged jobs and snapshots while one of the two kinds may be gone already.
"""

import asyncio
import logging
from dataclasses import dataclass

from penstock.kubernetes.answers import ApiError
from penstock_operator.api import kinds
from penstock_operator.api.kinds import Kind
from penstock_operator.cluster.client import Client

LOG = logging.getLogger("penstock_operator")
OURS = (kinds.STREAM_JOB, kinds.STREAM_SNAPSHOT)
ASKED_EVERY_S = 5.0  # while one is missing


@dataclass(frozen=True, slots=True)
class Definitions:
    """Asks the API server for our definitions."""

    client: Client

    async def served(self) -> tuple[Kind, ...]:
        """Wait until at least one of our kinds is served; return the served ones."""
        told = False
        while True:
            found = await self._which(OURS)
            if found and await self._is_listed():
                return found
            if not told:
                text = "kubectl apply --server-side -f crds"
                LOG.warning("waits for the definitions", extra={"remedy": text})
            told = True
            await asyncio.sleep(ASKED_EVERY_S)

    async def until_more(self, known: tuple[Kind, ...]) -> None:
        """Wait until another of our kinds is served; forever when all are known."""
        missing = tuple(kind for kind in OURS if kind not in known)
        while not await self._which(missing):
            await asyncio.sleep(ASKED_EVERY_S)

    async def _is_listed(self) -> bool:
        """Say whether the list of all groups has ours: Kopf watches nothing that it lacks."""
        try:
            return await self.client.lists_group(kinds.STREAM_JOB)
        except ApiError as error:
            LOG.warning("cannot ask for definitions", extra={"reason": str(error)})
            return False

    async def _which(self, asked: tuple[Kind, ...]) -> tuple[Kind, ...]:
        try:
            return tuple([kind for kind in asked if await self.client.serves(kind)])
        except ApiError as error:
            LOG.warning("cannot ask for definitions", extra={"reason": str(error)})
            return ()
