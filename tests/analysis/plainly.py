"""The tables read another way: row by row, with the store's own decoders, by the rules of the contract. Slow and plain."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
from rocksdict import AccessType, Options, Rdict

from storage.engine.keys import part_key
from storage.queue.chunk import Chunk, rows_of
from storage.queue.dead_letters import DeadLetter, DeadRow
from storage.queue.ledger import LedgerRow
from storage.snapshots.manifest import Manifest, QueueFacts, read_manifest
from storage.store.event_rows import Event
from storage.store.session_rows import Session
from wire.frames.batch import Batch
from wire.mqtt.publish_properties import message_expiry_s
from wire.ranges import RangeSet
from wire.routing.message_route import MessageRoute

Row = dict[str, Any]


class Plain:
    """One snapshot: all its keys and values in memory, and each table as a list of rows. Times are microseconds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest: Manifest = read_manifest(path)
        self.families: dict[str, dict[bytes, bytes]] = {}
        db = Rdict(str(path / "store"), Options(raw_mode=True), access_type=AccessType.read_only(False))
        for name in ("msg", "history", "meta"):
            family = db.get_column_family(name)
            self.families[name] = dict(family.items())  # type: ignore[arg-type]  # its stub's iterator is not one
            family.close()
        db.close()

    @property
    def head(self) -> Row:
        manifest = self.manifest
        made = {"snapshot_id": manifest.id, "snapshot_at": manifest.at_ms * 1000}
        return {"node": manifest.node, "store_id": manifest.store_id, **made}

    def row(self, queue: QueueFacts) -> LedgerRow:
        value = self.families["meta"].get(b"L" + queue.number.to_bytes(4, "big"))
        if value is None:  # nothing was ever in it
            return LedgerRow(head=0, tail=0, handed=0, trimmed=0)
        return LedgerRow.decode(value, queue=queue.name)

    def chunks(self, queue: QueueFacts) -> Iterator[Chunk]:
        prefix = queue.number.to_bytes(4, "big")
        for key, value in self.families["msg"].items():
            if key[:4] == prefix:
                yield Chunk.decode(value, queue=queue.name, seq=int.from_bytes(key[4:], "big"))

    # --- tables ---

    def messages(self) -> list[Row]:
        return [row for queue in self.manifest.queues for row in self._messages(queue)]

    def _messages(self, queue: QueueFacts) -> Iterator[Row]:
        row = self.row(queue)
        settled_by = self._settled_by(queue, row)
        settled = RangeSet(row.settled)
        in_flight, released = RangeSet(queue.in_flight), RangeSet(row.released)
        for chunk in self.chunks(queue):
            for message in rows_of(chunk, 0, 1 << 62, RangeSet()):
                gone = message.seq < row.head or message.seq in settled
                if gone and not 0 <= row.history.begins <= message.seq:
                    continue
                expiry_s = message_expiry_s(message.properties)
                settlement = settled_by.get(message.seq) if gone else None
                state = "released" if message.seq in released else "in_flight" if message.seq in in_flight else "queued"
                yield {
                    **self.head,
                    "queue": queue.name,
                    "bridge": queue.bridge,
                    "lane": None if queue.lane is None else str(queue.lane),
                    "seq": message.seq,
                    "state": "settled" if gone else state,
                    "topic": message.topic.decode(),
                    "rule": MessageRoute.decode(message.route).rule if message.route else None,
                    "destination": MessageRoute.decode(message.route).destination if message.route else None,
                    "qos": message.flags & 3,
                    "retain": bool(message.flags & 4),
                    "accepted_at": message.accepted_ms * 1000,
                    "expires_at": None if expiry_s is None else (message.accepted_ms + expiry_s * 1000) * 1000,
                    "settled_at": settlement["settled_at"] if settlement else None,
                    "outcome": settlement["_outcome"] if settlement else None,
                    "settled_by": settlement["settled_by"] if settlement else None,
                    "settlement": settlement["number"] if settlement else None,
                    "payload_bytes": len(message.payload),
                    "properties_bytes": len(message.properties),
                    "payload": message.payload,
                }

    def _settled_by(self, queue: QueueFacts, row: LedgerRow) -> dict[int, Row]:
        found: dict[int, Row] = {}
        for settlement in self._settlements(queue, row):
            if settlement["outcome"] != "redelivered":
                for seq in range(settlement["first_seq"], settlement["last_seq"] + 1):
                    found.setdefault(seq, settlement)
        return found

    def settlements(self) -> list[Row]:
        rows = [row for queue in self.manifest.queues for row in self._settlements(queue, self.row(queue))]
        for row in rows:
            del row["_outcome"]
        return rows

    def _settlements(self, queue: QueueFacts, row: LedgerRow) -> Iterator[Row]:
        prefix = b"T" + queue.number.to_bytes(4, "big")
        for key, value in self.families["history"].items():
            number = int.from_bytes(key[5:], "big")
            if key[:5] != prefix or not row.history.first <= number < row.history.next:
                continue
            _, settled_ms, by, outcomes, *_ = msgpack.unpackb(value)
            for outcome, ranges in outcomes:
                kind, _, reason = outcome.partition(":")
                for start, stop in ranges:
                    if start < stop:
                        yield {
                            **self.head,
                            "queue": queue.name,
                            "bridge": queue.bridge,
                            "lane": None if queue.lane is None else str(queue.lane),
                            "number": number,
                            "settled_at": settled_ms * 1000,
                            "first_seq": start,
                            "last_seq": stop - 1,
                            "messages": stop - start,
                            "outcome": kind,
                            "reason": reason or None,
                            "settled_by": by,
                            "_outcome": outcome,
                        }

    def inflight(self) -> list[Row]:
        found = []
        by_place = {(row["queue"], row["seq"]): row for row in self.messages() if row["state"] in ("in_flight", "released")}
        for queue in self.manifest.queues:
            row = self.row(queue)
            volatile = RangeSet(queue.volatile.ranges)
            seqs = {seq for start, stop in (*queue.in_flight, *row.released) for seq in range(start, stop)}
            for seq in sorted(seqs):
                message = by_place.get((queue.name, seq))
                if message is None and seq not in volatile:
                    continue
                found.append(
                    {
                        **self.head,
                        "queue": queue.name,
                        "bridge": queue.bridge,
                        "lane": None if queue.lane is None else str(queue.lane),
                        "seq": seq,
                        "packet_id": seq % 65_000 + 1 if message and message["qos"] else None,
                        "state": message["state"] if message else "in_flight",
                        "topic": message["topic"] if message else None,
                        "qos": message["qos"] if message else None,
                        "accepted_at": message["accepted_at"] if message else None,
                    }
                )
        return found

    def queues(self) -> list[Row]:
        found = []
        for queue in self.manifest.queues:
            row, ledger = self.row(queue), queue.ledger
            unsettled = [message for message in self._messages(queue) if message["state"] != "settled"]
            found.append(
                {
                    **self.head,
                    "queue": queue.name,
                    "number": queue.number,
                    "bridge": queue.bridge,
                    "lane": None if queue.lane is None else str(queue.lane),
                    "configured": queue.configured,
                    "head": queue.head,
                    "tail": queue.tail,
                    "handed": row.handed,
                    "history_from": row.history.begins if row.history.begins >= 0 else None,
                    "depth": queue.depth,
                    "depth_volatile": queue.volatile.messages,
                    "bytes": queue.size_bytes,
                    "in_flight": sum(stop - start for start, stop in queue.in_flight),
                    "released": sum(stop - start for start, stop in row.released),
                    "accepted": ledger.accepted,
                    "delivered": ledger.delivered,
                    "expired": ledger.expired,
                    "redelivered": ledger.redelivered,
                    "dropped": sorted(ledger.dropped.items()),
                    "dead": sorted(ledger.dead.items()),
                    "dead_letters": self._letters_of(queue),
                    "refused": ledger.refused,
                    "raised": ledger.raised,
                    "generation": row.generation,
                    "remote_session": row.session,
                    "oldest_at": min((message["accepted_at"] for message in unsettled), default=None),
                    "max_messages": queue.max_messages,
                    "max_bytes": queue.max_bytes,
                    "retention_s": queue.retention_s,
                    "settled_above": json.dumps([list(each) for each in row.settled], separators=(",", ":")),
                    "volatile_ranges": json.dumps([list(each) for each in queue.volatile.ranges], separators=(",", ":")),
                    "purged_ranges": json.dumps([list(each) for each in row.purged], separators=(",", ":")),
                }
            )
        return found

    def _letters_of(self, queue: QueueFacts) -> list[tuple[str, int]]:
        """The fate of the dead letters of its bridge, if it has the first lane."""
        number = next((facts.number for facts in self.manifest.dead_letters if facts.bridge == queue.bridge and not queue.lane), 0)
        value = self.families["meta"].get(b"D" + number.to_bytes(4, "big"))
        row = DeadRow() if value is None else DeadRow.decode(value, queue=queue.name)
        fates = (("damaged", row.damaged), ("evicted", row.evicted), ("held", row.held), ("purged", row.purged))
        return [*fates, ("replayed", row.replayed)] if number else []

    def events(self) -> list[Row]:
        found = []
        for key, value in self.families["history"].items():
            if key[:1] == b"E":
                event = Event.decode(value)
                found.append(
                    {
                        **self.head,
                        "number": int.from_bytes(key[1:], "big"),
                        "at": event.at_ms * 1000,
                        "kind": event.kind,
                        "bridge": event.bridge or None,
                        "lane": None if event.lane == -1 else str(event.lane),
                        "actor": event.actor or None,
                        "reason": event.reason or None,
                        "count": event.count or None,
                        "details": json.dumps(dict(event.details), sort_keys=True),
                    }
                )
        return found

    def dead_letters(self) -> list[Row]:
        found = []
        for facts in self.manifest.dead_letters:
            for key, value in self.families["msg"].items():
                if key[:4] == facts.number.to_bytes(4, "big"):
                    letter = DeadLetter.decode(key, value)
                    found.append(
                        {
                            **self.head,
                            "bridge": facts.bridge,
                            "lane": letter.queue.rpartition(":")[2],
                            "seq": letter.message.seq,
                            "letter": letter.seq,
                            "reason": letter.reason,
                            "at": letter.at_ms * 1000,
                            "remote": letter.remote or None,
                            "topic": letter.message.topic.decode(),
                            "qos": letter.message.flags & 3,
                            "accepted_at": letter.message.accepted_ms * 1000,
                            "payload_bytes": len(letter.message.payload),
                            "payload": letter.message.payload,
                        }
                    )
        return found

    def sessions(self) -> list[Row]:
        found = []
        for key, value in self.families["meta"].items():
            if key[:1] == b"S":
                session = Session.decode(key[1:].decode(), value)
                parts = [key[17:] for key in self.families["meta"] if key[:17] == part_key(session.name, b"")]
                received = self.families["meta"].get(part_key(session.name, b"r"))
                gone, remote = session.connected is None, key[1:2] == b"\0"
                ends = gone and not remote and session.expiry_s != 0xFFFF_FFFF
                found.append(
                    {
                        **self.head,
                        "session": session.name.replace("\0", ""),
                        "kind": "remote" if remote else "local",
                        "connected": not gone,
                        "since": session.since_ms * 1000 if gone and session.since_ms else None,
                        "expires_at": session.since_ms * 1000 + session.expiry_s * 1_000_000 if ends else None,
                        "queue": session.queue or None,
                        "subscriptions": sum(part[:1] == b"s" for part in parts),
                        "received": 0 if received is None else len(msgpack.unpackb(received)[1]) // 2,
                        "has_will": b"w" + bytes(16) in parts,
                    }
                )
        return found

    def retained(self) -> list[Row]:
        found = []
        for key, value in self.families["meta"].items():
            if key[:1] == b"R":
                kept = Batch.decode(msgpack.unpackb(value)[2])
                expiry_s = message_expiry_s(kept.properties.get(0, b""))
                found.append(
                    {
                        **self.head,
                        "topic": key[1:].decode(),
                        "qos": kept.flags[0] & 3,
                        "accepted_at": kept.accepted_ms * 1000,
                        "expires_at": None if expiry_s is None else (kept.accepted_ms + expiry_s * 1000) * 1000,
                        "payload_bytes": len(kept.payloads),
                        "payload": kept.payloads,
                    }
                )
        return found
