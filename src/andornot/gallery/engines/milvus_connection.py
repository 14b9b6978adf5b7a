"""A Milvus server by its address: every request ends after a bounded time, and every failure is one clear line."""

import logging
import math
import os
import re
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import grpc  # type: ignore[import-untyped]
from pymilvus import MilvusClient, MilvusException  # type: ignore[import-untyped]

from ..errors import GalleryError

# Errors are told once, by us; pymilvus would log them with tracebacks, on stderr.
for _name in ("pymilvus", "pymilvus.milvus_client"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

_PORT: Final = 19530
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_RIGHT: Final = "write milvus://host:19530/collection, or milvus://user:password@host:19530/database/collection"
_KINDS: Final = ("FLAT", "HNSW")
_LARGEST_EF: Final = 32_768
# A token, or user:password, where the address has none: what is typed others may see.
_TOKEN: Final = "MILVUS_TOKEN"
# Files and a name, as pymilvus calls them.
_TLS: Final = ("ca_pem_path", "client_pem_path", "client_key_path", "server_pem_path", "server_name")

_CONNECT_SECONDS: Final = 5
# For one request, with all its repetitions; more for those that a server may be busy with for long, all the while
# answering how far it is.
_REQUEST_SECONDS: Final = 30
_WORK_SECONDS: Final = 600
_WORK: Final = ("flush", "load_collection")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 3.0
# Milvus numbers its errors. These pass by themselves: not ready, away, too busy, a collection that a server which was
# started again is still loading; and all that have to do with replicas, channels, segments and nodes.
_PASSING: Final = {1, 2, 4, 8, 101, 103, *range(400, 700), *range(900, 1000)}


@dataclass(frozen=True)
class Address:
    """Where vectors are kept, and how they are to be found: `milvus://host:port/collection?index=HNSW&ef=200`."""

    host: str
    port: int
    collection: str
    database: str = ""
    credentials: str = field(default="", repr=False)
    index: str | None = None
    ef: int | None = None
    tls: tuple[tuple[str, str], ...] | None = None

    @classmethod
    def parse(cls, text: str) -> "Address":
        """From what a user writes. No error repeats it, for there may be a password in it."""
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port or _PORT
        except ValueError:
            raise _wrong("the host and the port cannot be read") from None
        if "@" in f"{parts.path}{parts.query}{parts.fragment}":
            raise _wrong("in a password, / ? # and @ are written as %2F %3F %23 and %40")
        if not host:
            raise _wrong("the host is missing")
        *database, collection = parts.path.strip("/").split("/")
        for name in (*database, collection):
            if not _NAME.fullmatch(name):
                raise _wrong(f'"{name}" cannot be the name of a collection, which has letters, digits and underscores')
        if len(database) > 1:
            raise _wrong(f'"{parts.path}" has too many parts')
        credentials = unquote(parts.netloc.rpartition("@")[0]) or os.environ.get(_TOKEN, "")
        return cls(host, port, collection, "".join(database), credentials, **_options(parts))

    @property
    def server(self) -> str:
        """The server alone, for gRPC."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        database = f"{self.database}/" if self.database else ""
        return f"milvus://{self.server}/{database}{self.collection}"


class Connection:
    """A client of a server, made when it is first needed."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def call(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Calls a method of `MilvusClient`. What may pass is tried again, after longer and longer pauses."""
        client = self._client
        limit = _WORK_SECONDS if method in _WORK else _REQUEST_SECONDS
        start, pause = time.monotonic(), _FIRST_PAUSE
        while True:
            # Whole seconds: in places pymilvus takes no notice of others.
            seconds = max(1, math.ceil(start + limit - time.monotonic()))
            try:
                return getattr(client, method)(*arguments, timeout=seconds, **options)
            except (MilvusException, grpc.RpcError) as error:
                if not _may_pass(error) or time.monotonic() + pause > start + _REQUEST_SECONDS:
                    raise self._told(error, limit) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    @cached_property
    def _client(self) -> Any:
        address = self._address
        server = f"{'http' if address.tls is None else 'https'}://{address.server}"
        options = {} if address.tls is None else {"secure": True, **dict(address.tls)}
        how = {"token": address.credentials, "db_name": address.database, "timeout": _CONNECT_SECONDS, **options}
        try:
            return MilvusClient(server, **how)
        except (MilvusException, grpc.RpcError) as error:
            raise self._told(error, _CONNECT_SECONDS) from error

    def _told(self, error: Exception, seconds: int) -> GalleryError:
        """What went wrong, for the person who reads it."""
        server = self._address.server
        status, code, message = _status(error), getattr(error, "code", None), str(getattr(error, "message", error))
        if status == grpc.StatusCode.UNAUTHENTICATED:
            right = f"write milvus://user:password@host:port/collection, or set {_TOKEN}"
            wrong = f"does not take this user and password: {right}"
        elif status == grpc.StatusCode.DEADLINE_EXCEEDED or "timeout" in message:
            wrong = f"does not answer within {seconds} seconds: is it a Milvus server, and not overloaded?"
        elif status == grpc.StatusCode.UNAVAILABLE or code == 2:
            wrong = "is away: start it, and give the same command again; nothing is lost"
        else:
            wrong = f"says: {message}"
        return GalleryError(f"the Milvus server at {server} {wrong}")


def _status(error: BaseException) -> Any:
    """The code of gRPC behind an error, or None."""
    cause = error if isinstance(error, grpc.RpcError) else error.__cause__
    return cause.code() if isinstance(cause, grpc.RpcError) else None


def _may_pass(error: Exception) -> bool:
    return _status(error) == grpc.StatusCode.UNAVAILABLE or getattr(error, "code", None) in _PASSING


def _options(parts: SplitResult) -> dict[str, Any]:
    """What stands behind the question mark."""
    options: dict[str, Any] = {}
    files: dict[str, str] = {}
    secure = False
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        if key == "index":
            if value.upper() not in _KINDS:
                raise _wrong(f'index "{value}" is unknown, there are {" and ".join(_KINDS)}')
            options[key] = value.upper()
        elif key == "ef":
            if not (value.isascii() and value.isdigit() and 1 <= int(value) <= _LARGEST_EF):
                raise _wrong(f'ef must be a number from 1 to {_LARGEST_EF}, got "{value}"')
            options[key] = int(value)
        elif key == "secure":
            if value not in ("true", "false"):
                raise _wrong(f'secure must be true or false, got "{value}"')
            secure = value == "true"
        elif key in _TLS:
            files[key], secure = value, True
        else:
            raise _wrong(f'option "{key}" is unknown, there are index, ef, secure, {", ".join(_TLS)}')
    return {**options, "tls": tuple(files.items()) if secure else None}


def _wrong(what: str) -> GalleryError:
    return GalleryError(f"wrong address of a Milvus collection: {what}; {_RIGHT}")
