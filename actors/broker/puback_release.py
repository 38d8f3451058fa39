"""Release of PUBACK, PUBREC and PUBCOMP to local clients: when the store has committed their batch, and not before (P1).

The answers themselves are ``wire/exchange/receiver.py``'s.
"""

from __future__ import annotations

from actors.broker.client_batches import ClientBatches
from actors.broker.listener_interface import ListenerInterface


def release(host: ListenerInterface, batches: ClientBatches, number: int) -> None:
    """Answer the publishers of every batch up to ``number``, in order [MQTT-4.3.2-4, MQTT-4.6.0-2]."""
    for batch in batches.link.acknowledge(number, host.mailbox.now_s()):
        for client, burst in batch.kept.bursts:
            if not client.closed and client.flow is not None:
                client.flow.on_answered(burst)
                host.write(client, burst.encode(), burst.packets)
