"""Channels with both ends in one process: batches pass by reference, under the same credit rules."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from penstock.contract.ids import ChannelId, TaskId, Version
from penstock.contract.settings import ShuffleSettings
from penstock.protocol.channel.flow_control import ReceiveChannel, SendChannel
from penstock.transport.input import InputChannel, TaskInput
from penstock.transport.output import LocalOutput
from penstock.transport.wakeup import Wakeup


class LocalCreditCarrier:
    """Passes credit to a sender on the same worker. The sender also fetches it when it runs out."""

    def __init__(self, output: LocalOutput) -> None:
        self._output = output

    def owe(self, channel: InputChannel, urgent: bool) -> None:
        """Pass the credit now if it is urgent or waited for; otherwise the sender fetches it."""
        if urgent or self._output.starved:
            self._output.on_credit(channel.credit())


def receive_state(channel: ChannelId, settings: ShuffleSettings, version: Version) -> ReceiveChannel:
    """Make the receiver's end of a channel."""
    return ReceiveChannel(channel, settings.high_watermark_bytes, settings.low_watermark_bytes, version)


def join_locally(
    channels: Sequence[ChannelId],
    ends: tuple[Mapping[TaskId, TaskInput], Mapping[TaskId, Wakeup]],
    settings: ShuffleSettings,
    version: Version,
) -> dict[ChannelId, LocalOutput]:
    """Open channels between tasks of this process and return the sender's end of each.

    ``ends`` are the inputs of the receivers and the wakeups of the senders, by task.
    """
    inputs, wakeups = ends
    receivers = [  # add all before the first gives credit: the channels of a task share its memory
        inputs[c.receiver].add(receive_state(c, settings, version), None) for c in channels
    ]
    outputs: dict[ChannelId, LocalOutput] = {}
    for channel, receiver in zip(channels, receivers, strict=True):
        state = SendChannel[pa.RecordBatch](settings.buffer_bytes, 0.0, version)
        output = outputs[channel] = LocalOutput(state, wakeups[channel.sender], receiver)
        receiver.begin(LocalCreditCarrier(output))
    return outputs
