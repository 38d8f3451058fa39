"""The log as a stream of NATS JetStream. The only user of nats-py, which an extra brings.

The stream has one subject and is kept in files by an odd number of servers. A second one keeps what each member says of itself, the
newest word only. nats-py has an event loop of its own, which runs while somebody waits for it: each call here blocks, and one that
takes longer than ``CALL_S`` is ``LogAway``.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    ObjectStoreConfig,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)
from nats.js.errors import APIError, NotFoundError
from nats.js.object_store import ObjectStore

from storage import trusted_files
from storage.replication.log import Behind, Entry, LogAway
from storage.replication.records import HEAD_BYTES
from storage.replication.survey import Survey, SurveyedServer, SurveyedStream
from wire.config_settings import ReplicationSettings

log = logging.getLogger("bascule")

CALL_S = 2.0  # at most: shorter than what the supervisor takes for a hang
CALLS_IN_A_LEASE = 2  # and one call that hangs does not use up a lease
LARGE_S = 600.0  # a file of a store
SURVEY_S = 3.0
RIGHTS_S = 1.0
READ_MESSAGES = 64  # of a part's size are far less than a client takes at once
LOOK_S = 1.0
SENT_PER_S, SENDING_MAX_S = 4 << 20, 4.0  # a large record may take longer, but not as long as a hang
PART_BYTES = 256 << 10  # of a record; more of them are under way at a time
WRONG_LAST_SEQUENCE = (10071, 10164)
_MORE_S = 0.5  # for what a call does before it asks
_CONSUMER_RESTS_S = 30.0

_Result = TypeVar("_Result")


class JetStreamLog:
    """The stream that ``settings`` name, made if it is not there."""

    def __init__(self, settings: ReplicationSettings, member: str) -> None:
        """Connects with the first call."""
        self.part_bytes = PART_BYTES
        self._settings = settings
        self._member = member
        self._made = False  # the streams are there; servers that have just begun may refuse to make them
        self._call_s = min(CALL_S, settings.lease_s / CALLS_IN_A_LEASE)
        self._subject = f"{settings.stream}.log"
        self._loop = asyncio.new_event_loop()
        self._client: Client | None = None
        self._stream: JetStreamContext | None = None
        self._reader: JetStreamContext.PullSubscription | None = None
        self._reader_at = 0
        self._size_bytes = 0
        self._looked_s = 0.0
        self._suspect = False  # a call took too long: the connection may be one that nobody answers

    # --- the log ---

    def append(self, messages: Sequence[bytes], after: int) -> int:
        more_s = min(sum(map(len, messages)) / SENT_PER_S, SENDING_MAX_S)
        return self._run(self._append(messages, after, self._call_s + more_s), self._call_s + more_s + _MORE_S)

    async def _append(self, messages: Sequence[bytes], after: int, timeout_s: float) -> int:
        stream = await self._connected()
        publishing = [
            stream.publish(
                self._subject,
                message,
                timeout=timeout_s,
                headers={"Nats-Expected-Last-Sequence": str(after + place), "Nats-Expected-Stream": self._settings.stream},
            )
            for place, message in enumerate(messages)
        ]
        answers = await asyncio.gather(*publishing, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return after + len(messages)

    def read(self, after: int, *, wait_s: float = 0.0) -> list[Entry]:
        return self._run(self._read(after, wait_s))

    async def _read(self, after: int, wait_s: float) -> list[Entry]:
        stream = await self._connected()
        if not wait_s and (await self._ends(stream))[1] <= after:
            return []
        if self._reader is None or self._reader_at != after:
            await self._read_from(stream, after)
        assert self._reader is not None
        try:
            found = await self._reader.fetch(READ_MESSAGES, timeout=max(wait_s, 0.05))
        except TimeoutError:  # the client's own, or Python's
            if not wait_s or await self._is_deaf(stream, after):
                await self._forget_reader()  # there is something, and it does not come
            return []
        except NatsError:
            await self._forget_reader()  # it may be gone, with the server that had it
            raise
        if not found:
            return []
        if found[0].metadata.sequence.stream != after + 1:
            await self._forget_reader()  # what it was sent is lost with a connection, or it has started again
            if (await self._ends(stream))[0] <= after + 1:
                return []
        entries = [Entry(message.metadata.sequence.stream, message.data) for message in found]
        for place, entry in enumerate(entries[1:], 1):
            if entry.sequence != entries[place - 1].sequence + 1:
                del entries[place:]
                break
        self._reader_at = entries[-1].sequence
        if len(entries) < len(found):
            await self._forget_reader()
        return entries

    async def _is_deaf(self, stream: JetStreamContext, after: int) -> bool:
        """Whether the log goes on and the reader does not hear it: what went into a broken connection is not sent again."""
        now_s = self._loop.time()
        if now_s - self._looked_s < LOOK_S:
            return False
        self._looked_s = now_s
        return (await self._ends(stream))[1] > after

    async def _read_from(self, stream: JetStreamContext, after: int) -> None:
        await self._forget_reader()
        config = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=after + 1,
            ack_policy=AckPolicy.NONE,
            inactive_threshold=_CONSUMER_RESTS_S,
            num_replicas=1,
            mem_storage=True,
        )
        self._reader = await stream.pull_subscribe(self._subject, stream=self._settings.stream, config=config)
        self._reader_at = after

    async def _forget_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            try:
                await reader.unsubscribe()
            except NatsError as error:
                log.debug("replication.reader_left", extra={"error": str(error)})

    def ends(self) -> tuple[int, int]:
        return self._run(self._first_and_last())

    async def _first_and_last(self) -> tuple[int, int]:
        return await self._ends(await self._connected())

    async def _ends(self, stream: JetStreamContext) -> tuple[int, int]:
        state = (await stream.stream_info(self._settings.stream)).state
        self._size_bytes = state.bytes
        return max(state.first_seq, 1), state.last_seq

    def size_bytes(self) -> int:
        return self._size_bytes

    def trim(self, before: int) -> None:
        self._run(self._trim(before))

    async def _trim(self, before: int) -> None:
        await (await self._connected()).purge_stream(self._settings.stream, seq=before)

    # --- the members ---

    @property
    def _members(self) -> str:
        return f"{self._settings.stream}-members"

    def report(self, member: str, report: bytes) -> None:
        self._run(self._tell(member, report))

    async def _tell(self, member: str, report: bytes) -> None:
        await (await self._connected()).publish(f"{self._members}.{member}", report, timeout=self._call_s)

    def reports(self) -> dict[str, bytes]:
        return self._run(self._told())

    async def _told(self) -> dict[str, bytes]:
        stream = await self._connected()
        subjects = (await stream.stream_info(self._members, subjects_filter=">")).state.subjects or {}
        found: dict[str, bytes] = {}
        for subject in subjects:
            try:
                found[subject.rpartition(".")[2]] = (await stream.get_last_msg(self._members, subject)).data or b""
            except NotFoundError:
                continue
        return found

    def forget(self, member: str) -> bool:
        return self._run(self._forget(member))

    async def _forget(self, member: str) -> bool:
        stream, subject = await self._connected(), f"{self._members}.{member}"
        known = (await stream.stream_info(self._members, subjects_filter=">")).state.subjects or {}
        if subject not in known:
            return False
        await stream.purge_stream(self._members, subject=subject)
        return True

    # --- large things ---

    def put(self, name: str, path: Path) -> None:
        self._run(self._put(name, path), LARGE_S)

    async def _put(self, name: str, path: Path) -> None:
        objects = await self._objects()
        with path.open("rb") as file:
            await objects.put(name, file)

    def get(self, name: str, path: Path) -> None:
        self._run(self._get(name, path), LARGE_S)

    async def _get(self, name: str, path: Path) -> None:
        objects = await self._objects()
        with path.open("wb") as file:
            await objects.get(name, writeinto=file)

    def names(self) -> list[str]:
        return self._run(self._names(), LARGE_S)

    async def _names(self) -> list[str]:
        try:
            return [info.name or "" for info in await (await self._objects()).list() if not info.deleted]
        except NotFoundError:
            return []

    def remove(self, name: str) -> None:
        self._run(self._remove(name), LARGE_S)

    async def _remove(self, name: str) -> None:
        await (await self._objects()).delete(name)

    async def _objects(self) -> ObjectStore:
        stream, bucket = await self._connected(), f"{self._settings.stream}-base"
        try:
            return await stream.object_store(bucket)
        except NotFoundError:
            return await stream.create_object_store(bucket, config=ObjectStoreConfig(replicas=self._settings.replicas))

    # --- the connection ---

    def close(self) -> None:
        client, self._client = self._client, None
        try:
            if client is not None:
                self._loop.run_until_complete(asyncio.wait_for(client.close(), self._call_s))
            for task in (left := asyncio.all_tasks(self._loop)):
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left))
        except (NatsError, OSError, TimeoutError) as error:
            log.debug("replication.not_closed", extra={"error": str(error)})
        finally:
            self._loop.close()

    def _run(self, call: Awaitable[_Result], timeout_s: float | None = None) -> _Result:
        try:
            return self._loop.run_until_complete(asyncio.wait_for(call, timeout_s or self._call_s + _MORE_S))
        except APIError as error:
            if error.err_code in WRONG_LAST_SEQUENCE:
                raise Behind("the log goes on behind what this node knows of it", stream=self._settings.stream) from error
            raise self._away(str(error.description or error)) from error
        except (NatsError, OSError, TimeoutError, asyncio.CancelledError) as error:  # cancelled: nats-py closed what was waited for
            self._suspect = isinstance(error, TimeoutError | asyncio.CancelledError)
            raise self._away(str(error) or type(error).__name__) from error

    def _away(self, why: str) -> LogAway:
        return LogAway("the replicated log cannot be used for now", stream=self._settings.stream, error=why)

    async def _connected(self) -> JetStreamContext:
        if self._client is not None and (self._client.is_closed or self._suspect):
            client, self._client = self._client, None
            with suppress(NatsError, OSError, TimeoutError):
                await asyncio.wait_for(client.close(), _MORE_S)
        self._suspect = False
        if self._client is None:
            self._client, self._reader = await self._connect(), None
            self._stream = self._client.jetstream(timeout=self._call_s)
            limit = self._client.max_payload - 4096 if self._client.max_payload else PART_BYTES
            self.part_bytes = max(min(PART_BYTES, limit), HEAD_BYTES + 1024)
        assert self._stream is not None
        if not self._made:
            await self._make_streams(self._stream)
            self._made = True
        return self._stream

    async def _connect(self) -> Client:
        async def told(error: Exception) -> None:
            log.debug("replication.connection", extra={"error": str(error)})

        settings = self._settings
        client = Client()
        try:
            await client.connect(
                list(settings.servers),
                name=f"bascule {self._member}",
                connect_timeout=1,
                max_reconnect_attempts=-1,
                reconnect_time_wait=1,
                ping_interval=max(1, min(5, round(settings.lease_s / 8))),
                max_outstanding_pings=2,
                error_cb=told,
                **_credentials(settings),
            )
        except (NatsError, OSError, asyncio.CancelledError):  # cancelled: it took too long
            await client.close()
            raise
        return client

    async def _make_streams(self, stream: JetStreamContext) -> None:
        settings = self._settings
        wanted = StreamConfig(
            name=settings.stream,
            subjects=[self._subject],
            retention=RetentionPolicy.LIMITS,
            storage=StorageType.FILE,
            num_replicas=settings.replicas,
            discard=DiscardPolicy.NEW,
            deny_delete=True,
            description="Bascule: Tier 1",
        )
        members = StreamConfig(
            name=self._members,
            subjects=[f"{self._members}.*"],
            storage=StorageType.FILE,
            num_replicas=settings.replicas,
            max_msgs_per_subject=1,
            description="Bascule: what each member says of itself",
        )
        for config in (wanted, members):
            try:
                await stream.stream_info(config.name or "")
            except NotFoundError:
                await stream.add_stream(config)


# --- a look from outside ---


def survey(settings: ReplicationSettings) -> Survey:
    """The servers' view of ``settings``; nothing is changed there. Blocks, for some seconds where one does not answer."""
    return asyncio.run(_survey(settings))


async def _survey(settings: ReplicationSettings) -> Survey:
    servers = tuple(await asyncio.gather(*(_look_at(settings, url) for url in settings.servers)))
    reached = [server.url for server in servers if not server.error]
    if not reached:
        return Survey(servers)
    refused: list[str] = []

    async def told(error: Exception) -> None:
        refused.append(str(error))

    client = await nats.connect(reached, connect_timeout=SURVEY_S, allow_reconnect=False, error_cb=told, **_credentials(settings))
    try:
        stream = client.jetstream(timeout=SURVEY_S)
        await stream.account_info()
        found = [await _stream_found(stream, name) for name in (settings.stream, f"{settings.stream}-members")]
        await _try_rights(client, settings.stream)
        error = ""
    except (NatsError, OSError, TimeoutError) as failure:
        error, found = str(failure) or type(failure).__name__, []
    finally:
        await client.close()
    forbidden = tuple(dict.fromkeys(text.removeprefix("nats: ") for text in refused if "permissions violation" in text.lower()))
    return Survey(servers, error, tuple(each for each in found if each is not None), forbidden)


async def _look_at(settings: ReplicationSettings, url: str) -> SurveyedServer:
    said: list[str] = []

    async def told(error: Exception) -> None:
        said.append(str(error) or type(error).__name__)

    try:
        connecting = nats.connect([url], connect_timeout=SURVEY_S, allow_reconnect=False, error_cb=told, **_credentials(settings))
        client = await asyncio.wait_for(connecting, SURVEY_S + 1.0)
    except (NatsError, OSError, TimeoutError, ValueError) as error:
        return SurveyedServer(url, said[0] if said else str(error) or type(error).__name__)
    try:
        info = client._server_info
        name, version, cluster = (str(info.get(key, "")) for key in ("server_name", "version", "cluster"))
        known = len(info.get("connect_urls") or ())
        return SurveyedServer(url, "", name, version, cluster, bool(info.get("jetstream")), known)
    finally:
        await client.close()


async def _stream_found(stream: JetStreamContext, name: str) -> SurveyedStream | None:
    try:
        info = await stream.stream_info(name)
    except NotFoundError:
        return None
    cluster, config = info.cluster, info.config
    level = 1 if cluster is None else bool(cluster.leader) + sum(1 for peer in cluster.replicas or () if peer.current)
    leader = "" if cluster is None else cluster.leader or ""
    storage = str(getattr(config.storage, "value", config.storage))
    return SurveyedStream(name, storage, config.num_replicas or 1, int(level), leader, info.state.bytes, info.state.messages)


async def _try_rights(client: Client, stream: str) -> None:
    """Ask for what a member asks for, each so that it is refused for another reason by a server that allows it."""
    wrong = {"Nats-Expected-Stream": "no-such-stream"}
    for subject, headers in (
        (f"{stream}.log", wrong),
        (f"{stream}-members.doctor", wrong),
        (f"$JS.API.STREAM.CREATE.{stream}", None),
        (f"$JS.API.CONSUMER.CREATE.{stream}", None),
    ):
        try:
            await client.request(subject, b"no JSON", timeout=RIGHTS_S, headers=headers)
        except NatsError as error:  # nobody takes it yet; or it was forbidden, which comes by another way
            log.debug("replication.not_answered", extra={"subject": subject, "error": str(error)})


def _credentials(settings: ReplicationSettings) -> dict[str, Any]:
    own, tls = (settings.password_file, settings.token_file, settings.credentials_file, settings.nkey_file), settings.tls
    for path in filter(None, own if tls is None else (*own, tls.ca_file, tls.key_file)):
        trusted_files.check(path)
    return {
        "user": settings.user,
        "password": _first_line(settings.password_file),
        "token": _first_line(settings.token_file),
        "user_credentials": settings.credentials_file,
        "nkeys_seed": settings.nkey_file,
        "tls": _tls(settings),
    }


def _first_line(path: str | None) -> str | None:
    if path is None:
        return None
    with open(path, encoding="utf-8-sig") as file:
        return file.readline().rstrip("\r\n")


def _tls(settings: ReplicationSettings) -> ssl.SSLContext | None:
    tls = settings.tls
    if tls is None:
        return None
    context = ssl.create_default_context(cafile=tls.ca_file or None)
    if tls.cert_file:
        context.load_cert_chain(tls.cert_file, tls.key_file)
    return context
