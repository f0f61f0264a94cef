"""The conformance kit: does a source or a sink keep what the engine relies on?

    from penstock.testing import connectors as kit

    def test_my_source(tmp_path):
        kit.check_source(lambda: MySource(tmp_path))

    def test_my_sink(tmp_path):
        kit.check_sink(lambda: MyTarget(tempfile.mkdtemp(dir=tmp_path)), rows)

The connectors of Penstock pass the same checks. A check raises :class:`RuleBroken`, which names the rule.
docs/guides/own-connector.md has the rules and the reason for each.
"""

from penstock.testing.connectors.lives import SinkTarget
from penstock.testing.connectors.outgoing_calls import is_outgoing
from penstock.testing.connectors.rule_broken import RuleBroken
from penstock.testing.connectors.sinks import SinkReport, check_sink
from penstock.testing.connectors.sources import check_bad_input, check_source

__all__ = ["RuleBroken", "SinkReport", "SinkTarget", "check_bad_input", "check_sink", "check_source", "is_outgoing"]
