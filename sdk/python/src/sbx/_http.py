"""Requests, and the tries after an interruption (docs/guides/integrators.md)."""

from __future__ import annotations

import errno
import http.client
import json
import re
import socket
import threading
import time
from typing import Any, Callable, Iterable, Iterator, Mapping
from urllib.parse import quote, urlencode

from ._address import Endpoint
from ._error import SbxError, answer_error
from ._version import API_VERSION, SDK_VERSION

# First and longest pause before a request is sent again, in seconds.
_PAUSE, _PAUSE_MAX = 0.2, 5.0
# Time of all tries in seconds: of an sbx that has answered before, and of one that may not be there.
_TRIES, _FIRST_TRIES = 30.0, 2.0
_CHUNK = 64 * 1024
# Most bytes that are read of an error.
ERROR_MAX = 64 * 1024


class Cancel:
    """Ends a call from another thread: its connection is closed, and a program that it runs ends."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()

    def __call__(self) -> None:
        self.event.set()
        with self._lock:
            for connection in self._connections:
                _shut(connection)

    @property
    def is_set(self) -> bool:
        return self.event.is_set()

    def watch(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.add(connection)
        if self.is_set:
            _shut(connection)

    def forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.discard(connection)


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # It has ended.


class _Connection(http.client.HTTPConnection):
    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint.hostname, endpoint.port)
        self._endpoint = endpoint

    def connect(self) -> None:
        self.sock = self._endpoint.connect()


class Answer:
    """An answer with a 2xx status, whose body is read as it comes."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse, done: Any) -> None:
        self._connection = connection
        self._response = response
        self._done = done

    def __iter__(self) -> Iterator[bytes]:
        while chunk := self._response.read1(_CHUNK):
            yield chunk
        left = self._response.length
        if left:
            raise http.client.IncompleteRead(b"", left)

    def read(self) -> bytes:
        return self._response.read()

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *_: object) -> None:
        self._done()
        self._connection.close()


class Http:
    """Sends requests to one sbx."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._has_answered = False

    def headers(self) -> dict[str, str]:
        token = self.endpoint.token(False)
        return {
            "Host": self.endpoint.host_header,
            "User-Agent": f"sbx-sdk-python/{SDK_VERSION}",
            "Sbx-Api-Version": API_VERSION,
            **({"Authorization": f"Bearer {token}"} if token is not None else {}),
        }

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        data: bytes | Iterable[bytes] | None = None,
        accept: str | None = None,
        headers: Mapping[str, str] | None = None,
        repeats: bool = False,
        cancel: Cancel | None = None,
    ) -> Answer:
        """Sends a request. `repeats`: it is sent again although its connection broke."""
        require_path(path)
        deadline = time.monotonic() + (_TRIES if self._has_answered else _FIRST_TRIES)
        pause, renewed = _PAUSE, False
        is_stream = data is not None and not isinstance(data, bytes)
        content = json.dumps(without_none(body)).encode() if body is not None else data
        fields = {
            **({"Accept": accept} if accept else {}),
            **({"Content-Type": "application/json"} if body is not None else {}),
            **(headers or {}),
        }
        while True:
            wait = pause
            connection = _Connection(self.endpoint)
            done = lambda: None  # noqa: E731
            try:
                connection.connect()
                if cancel:
                    watched = connection.sock
                    cancel.watch(watched)
                    done = lambda: cancel.forget(watched)  # noqa: E731
                connection.request(method, path + query_of(query), content, {**self.headers(), **fields})
                response = connection.getresponse()
                self._has_answered = True
                if 200 <= response.status < 300:
                    return Answer(connection, response, done)
                text = response.read(ERROR_MAX)
                if response.length and len(text) < ERROR_MAX:
                    raise http.client.IncompleteRead(text, response.length)
                error = answer_error(response.status, text)
                done()
                connection.close()
                if error.code == "auth.bad_token" and not renewed:
                    renewed = True
                    before = self.endpoint.token(False)
                    if self.endpoint.token(True) != before:
                        continue
                again = (
                    error.code == "vm.busy"
                    or response.status == 429
                    or (repeats and error.code == "service.unreachable")
                )
                if not again or is_stream:
                    raise error
                after = response.headers.get("Retry-After", "")
                if after.isdecimal():
                    wait = max(pause, float(after))
                if time.monotonic() + wait > deadline:
                    raise error
            except (OSError, http.client.HTTPException) as cause:
                done()
                connection.close()
                if cancel and cancel.is_set:
                    raise cancelled() from cause
                # Where no connection was made, nothing was sent.
                unsent = isinstance(cause, OSError) and cause.errno in (errno.ECONNREFUSED, errno.ENOENT)
                if not (repeats or unsent) or is_stream or time.monotonic() + wait > deadline:
                    raise self.unreachable() from cause
            if cancel:
                if cancel.event.wait(wait):
                    raise cancelled()
            else:
                time.sleep(wait)
            pause = min(pause * 2, _PAUSE_MAX)

    def json(self, method: str, path: str, **parts: Any) -> Any:
        """Sends a request and returns the JSON of its answer."""
        return self.whole(method, path, json.loads, **parts)

    def whole(
        self, method: str, path: str, read: Callable[[bytes], Any], *, repeats: bool | None = None, **parts: Any
    ) -> Any:
        """Sends a request, again where its answer broke off and it repeats, and returns what `read` makes of it."""
        again = method == "GET" if repeats is None else repeats
        for is_last in (not again, True):
            try:
                with self.send(method, path, repeats=again, **parts) as answer:
                    return read(answer.read())
            except (OSError, http.client.HTTPException, ValueError) as cause:
                cancel = parts.get("cancel")
                if cancel and cancel.is_set:
                    raise cancelled() from cause
                # The answer broke off.
                if is_last:
                    raise self.unreachable() from cause
        raise AssertionError("unreachable")

    def unreachable(self) -> SbxError:
        return SbxError(
            "gateway.unreachable",
            f"no answer at {self.endpoint.name}",
            hint="start it: sbx start; sbx status lists the running programs",
        )


def cancelled() -> SbxError:
    """The error of a call that its caller ended."""
    return SbxError("call.cancelled", "the call was cancelled")


def without_none(value: Any) -> Any:
    """A body without the fields that have no value."""
    if isinstance(value, dict):
        return {name: without_none(each) for name, each in value.items() if each is not None}
    return value


def query_of(query: Mapping[str, Any] | None) -> str:
    """A query with its `?`; empty without values."""
    pairs = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in (query or {}).items()
        if value is not None
    }
    return f"?{urlencode(pairs)}" if pairs else ""


def require_path(path: str) -> None:
    """Refuses a path that would end the first line of its request."""
    if not re.fullmatch(r"/[\x21-\x7e]*", path):
        raise SbxError(
            "request.invalid", "the path has characters that are not allowed in a URL", hint="percent-encode them"
        )


def segment(text: str) -> str:
    """One segment of a path."""
    if text in ("", ".", "..") or "/" in text:
        raise SbxError("request.invalid", f"{json.dumps(text)} is not a name or an id")
    return quote(text, safe="")
