"""``ps.migrate``: a function for the state that a step had under an earlier class."""

from penstock.base.errors import ConfigError
from penstock.base.user_code import caller_place, users_frame
from penstock.graph.arguments import UserFunction
from penstock.graph.builder import Stream
from penstock.graph.migrations import add_migration


def migrate(step: Stream, function: UserFunction) -> None:
    """Convert the state that ``step`` had under an earlier class: ``function`` is ``f(old: Old) -> New``.

    ``step`` is what ``process`` returned, and ``New`` its state. If the job begins from a checkpoint whose state has
    exactly the fields of ``Old``, the function is called once for each key with an object of ``Old``, and the key gets
    what it returns. In these objects rings, lists, sets and timers are lists, maps are dicts, and an aggregate is how
    many values it has taken and what is kept of them. Other stored state is taken over as if there were no such
    function. Raises ConfigError.
    """
    names = {each.step for each in step.inputs}
    if len(names) != 1:
        raise ConfigError(f"{caller_place()}: ps.migrate: several steps are united here; name what process() returned")
    add_migration(step.job.draft, names.pop(), function, caller_place(), users_frame().f_locals)
