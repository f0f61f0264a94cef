"""The rules, by their words, and the class of a mutant. Each rule must have a mutant."""

from dataclasses import dataclass

from sim.mutants.patching import Patch


@dataclass(frozen=True, slots=True)
class Mutant:
    """The core without one rule: one changed line, or all lines that cover for each other.

    ``crash`` is the fault that shows it, if one does.
    """

    name: str
    rule: str
    patches: tuple[Patch, ...]
    scenario: str
    seed: int
    crash: str = ""


RULES: dict[str, str] = {
    "attempt": "a stream of a higher attempt is held until the receiver has reset itself",
    "max-epoch": "new epochs exceed the highest ever committed, after a restore too",
    "break": "a stream that breaks inside an attempt is a rollback",
    "one-element": "a channel with nothing outstanding may always send one element",
    "all-outputs": "a barrier is put on all outputs before the next input is read",
    "time": "pending watermarks go before a barrier; channels say theirs again after a switch",
    "both-inputs": "the time of a join is the least of both inputs, and a cut waits for the barriers of both",
    "miss": "a join emits a row alone when the other side has passed it, not when its own side has",
    "join-slices": "the output of a join goes on behind the last pair that was emitted",
    "fire": "what is due fires first; then its time is said and stored, and the last epoch is cut",
    "timer-own": "an entry of the queue fires only if it is the timer that the row has now",
    "timer-past": "a timer at or before the time reached counts as one microsecond after it",
    "timer-cleared": "a timer whose function raises stays cleared",
    "timer-clock": "timers of the clock do not fire in key groups that move",
    "timers-end": "at the end each pending timer fires once, those of the clock too; what is set then is dropped",
    "ttl": "whether a key has expired depends on times only; they never fall, and each write renews",
    "group-times": "groups that a task gains keep the time up to which their timers may have fired",
    "idle": "only a source declares idle, and never for time in which it was not asked",
    "joiner": "a joining task counts for what is published, before it has adopted the version",
    "announce": "a new term confirms the committed epoch and aborts only newer ones",
    "once": "a source cuts once at a barrier, whoever brings it, and never at one given up",
    "copies": "a cut copies values, not only the keys that changed",
    "delta": "a delta holds every change since the last epoch known committed",
    "carry": "handles of an aborted epoch are carried; only a reset discards, above its epoch",
    "unknown": "while a swap is undecided nothing is aborted or deleted",
    "published": "no epoch starts before the previous one is published",
    "one-committer": "a table takes one commit for each epoch, from the worker that the leader names",
    "staged": "staged output goes when the object says that its epoch is published, not before",
    "names": "a file's name is never used twice",
    "narrow": "losing a group narrows entries, gaining one takes over the other's",
    "foreign": "of a foreign file only the gained range is taken",
    "collect": "only what no retained or pinned manifest lists is deleted; pinned before use",
    "missed": "a file that missed its epoch is never listed later",
    "root-file": "a volume that belongs to another object starts nothing",
    "older": "restoring an older epoch is refused unless replay is allowed",
    "named": "a restore begins from the checkpoint that it names",
    "empty": "to begin without state needs leave, and what is committed is visible before it",
    "one-sink": "a restore gives output up of the sinks that it names, of the restored epoch, and says so",
    "by-name": "state is found by the name of its step, in whatever stage it was",
    "dropped": "state that is given up is out of the manifest that the restore names",
    "one-plan": "engines of two plans never share an attempt",
    "draft": "what was drafted before a restore is never admitted after it",
    "final": "end of stream follows the publication of the final epoch",
    "unseen": "an input that is not read to its end keeps the final epoch from being taken",
    "start": "sources start when all are ready and the old output is visible",
    "gap": "time in which a leader stood still is no silence of others",
    "gap-limit": "a leader that is late at every step knows a loss all the same",
    "restarts": "a commit clears no death: a record that kills ends in a failure",
    "restarts-kept": "a new leader goes on from the deaths that were counted",
    "gone": "while a member cannot come back the attempt goes on with the wanted number",
    "leaving": "nothing is sent to a task that leaves, and moving rows are held",
    "frozen": "no watermark and no idle mark leaves between a rescale barrier and resumption",
    "one-swap": "one swap commits the epoch and the version of a rescale",
    "scheme": "a scheme changes by the version's swap",
    "balance": "key groups move once for each request, by the counts of a committed checkpoint",
    "drain": "a worker that is ended takes its last epoch, and waits only while it may come",
    "line": "a job that begins from a savepoint commits above its epoch",
    "newer": "output above the savepoint keeps a job that begins from it out of the folder",
    "own-folder": "each try to copy a savepoint has a folder of its own, and removes only that",
    "index-last": "a savepoint gets its index when a whole copy is durable, from who leads",
    "pace": "what waits in front of a task follows its pace",
    "slice": "a task takes rows for a tenth of a second at once",
    "fixed-cost": "slices do not shrink for what a call costs beside its rows",
    "slow-start": "little may wait before it is known what a row costs",
    "charge": "the slices of an element give back its charge, neither more nor less",
    "resume": "held rows go when the receiver has announced the version; channels are its own",
}


def line(module: str, line: str, mutated: str) -> tuple[Patch, ...]:
    """Name a line of a module, and what replaces it; several are added up."""
    return (Patch(module, line, mutated),)
