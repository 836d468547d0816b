"""A client of WebSockets (RFC 6455) over any connection; the standard library has none."""

from __future__ import annotations

import base64
import hashlib
import http.client
import os
import struct
import threading
from typing import BinaryIO, Iterator

from ._error import SbxError, answer_error
from ._http import ERROR_MAX, Cancel, Http, _shut

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
# Longest message, in bytes.
_MESSAGE_MAX = 64 * 1024 * 1024
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10


class WebSocket:
    """A WebSocket whose messages are read one after another: text as str, binary as bytes."""

    def __init__(self, http_: Http, path: str, cancel: Cancel | None = None) -> None:
        key = base64.b64encode(os.urandom(16))
        # The code and reason of its end; 1006 where the connection broke.
        self.end: tuple[int, str] | None = None
        self._lock = threading.Lock()
        self._cancel = cancel
        self._reader: BinaryIO | None = None
        try:
            self._socket = http_.endpoint.connect()
        except OSError as cause:
            raise http_.unreachable() from cause
        try:
            if cancel:
                cancel.watch(self._socket)
            head = "".join(
                f"{name}: {value}\r\n"
                for name, value in {
                    **http_.headers(),
                    "Connection": "Upgrade",
                    "Upgrade": "websocket",
                    "Sec-WebSocket-Version": "13",
                    "Sec-WebSocket-Key": key.decode(),
                }.items()
            )
            self._socket.sendall(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
            self._reader = self._socket.makefile("rb")
            response = http.client.HTTPResponse(_Kept(self._reader))  # type: ignore[arg-type]
            response.begin()
            if response.status != 101:
                raise answer_error(response.status, response.read(ERROR_MAX))
            accept = base64.b64encode(hashlib.sha1(key + _GUID).digest()).decode()
            if response.headers.get("Sec-WebSocket-Accept") != accept:
                raise SbxError("gateway.bad_answer", f"the server at {http_.endpoint.name} opened no WebSocket")
        except (OSError, http.client.HTTPException) as cause:
            self._leave()
            raise http_.unreachable() from cause
        except BaseException:
            self._leave()
            raise

    def send(self, message: str | bytes) -> None:
        payload = message.encode() if isinstance(message, str) else message
        self._write(_TEXT if isinstance(message, str) else _BINARY, payload)

    def close(self, code: int = 1000) -> None:
        """Closes the socket; messages that were not read are dropped."""
        if self.end is None:
            try:
                self._write(_CLOSE, struct.pack("!H", code))
            except SbxError:
                pass  # It has ended.
            self.end = self.end or (code, "")
        self._leave()

    def _leave(self) -> None:
        _shut(self._socket)
        if self._cancel:
            self._cancel.forget(self._socket)
        if self._reader:
            self._reader.close()
        self._socket.close()

    def __iter__(self) -> Iterator[str | bytes]:
        while (message := self.receive()) is not None:
            yield message

    def receive(self) -> str | bytes | None:
        """The next message; None at the end."""
        parts: list[bytes] = []
        length = 0
        kind = _TEXT
        while self.end is None:
            try:
                first, second = self._exactly(2)
                size = second & 0x7F
                if size == 126:
                    (size,) = struct.unpack("!H", self._exactly(2))
                elif size == 127:
                    (size,) = struct.unpack("!Q", self._exactly(8))
                if first & 0x70 or second & 0x80 or size + length > _MESSAGE_MAX:
                    self.end = (1002, "the server sent no valid frame")
                    _shut(self._socket)
                    break
                payload = self._exactly(size)
            except (OSError, ValueError, EOFError):
                self.end = self.end or (1006, "the connection broke")
                break
            opcode = first & 0x0F
            if opcode == _PING:
                self._write(_PONG, payload)
            elif opcode == _CLOSE:
                code = struct.unpack("!H", payload[:2])[0] if len(payload) >= 2 else 1005
                try:
                    self._write(_CLOSE, payload)
                except SbxError:
                    pass  # The server has closed the connection.
                self.end = (code, payload[2:].decode("utf-8", "replace"))
            elif opcode != _PONG:
                if opcode != _CONTINUATION:
                    kind = opcode
                # Empty ones, which no limit of bytes would end, are not kept.
                if payload:
                    parts.append(payload)
                    length += size
                if first & 0x80:
                    whole = b"".join(parts)
                    return whole.decode("utf-8", "replace") if kind == _TEXT else whole
        return None

    def _exactly(self, size: int) -> bytes:
        assert self._reader
        data = self._reader.read(size)
        if len(data) < size:
            raise EOFError
        return data

    def _write(self, opcode: int, payload: bytes) -> None:
        if self.end is not None:
            raise SbxError("service.gone", "the connection has ended")
        size = len(payload)
        if size < 126:
            head = struct.pack("!BB", 0x80 | opcode, 0x80 | size)
        elif size <= 0xFFFF:
            head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, size)
        else:
            head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, size)
        mask = os.urandom(4)
        repeated = (mask * (size // 4 + 1))[:size]
        masked = (int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big")
        try:
            with self._lock:
                self._socket.sendall(head + mask + masked)
        except OSError as cause:
            raise SbxError("service.gone", "the connection has ended") from cause


class _Kept:
    """A reader for HTTPResponse, which closes its own when the head is read; ours has the frames behind it."""

    def __init__(self, reader: object) -> None:
        self._reader = reader

    def makefile(self, _mode: str) -> object:
        return _Unclosed(self._reader)


class _Unclosed:
    def __init__(self, reader: object) -> None:
        self._reader = reader

    def __getattr__(self, name: str) -> object:
        return getattr(self._reader, name)

    def close(self) -> None:
        """The frames behind the head are read later."""

    def flush(self) -> None:
        """Nothing is written here."""


