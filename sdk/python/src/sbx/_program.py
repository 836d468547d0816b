"""Programs and terminals of a VM."""

from __future__ import annotations

import base64
import http.client
import json
from collections import deque
from dataclasses import dataclass
from typing import Any, Callable, Iterator

from ._error import SbxError
from ._http import Answer, Cancel, cancelled
from ._websocket import WebSocket

# Most bytes of a stream that a result keeps, as in the API.
_KEPT_MAX = 10 * 1024 * 1024
# Codes of a terminal's end: of its own, or by this client; the connection broke; a size was not valid.
_ENDED, _BROKE, _INVALID = 1000, 1006, 1007
# Most bytes under way in each direction (docs/design/contracts/02-http.md §2, "Program socket").
_WINDOW = 1024 * 1024

OnOutput = Callable[[bytes], Any]


@dataclass(frozen=True)
class Exit:
    """The end of a program."""

    exit_code: int
    # A stream exceeded 10 MiB and was cut; callbacks get all of it.
    truncated: bool
    duration_ms: float
    # Event of the program in the VM's record.
    event_id: str
    # Limits that it has reached.
    limits_reached: tuple[str, ...]


@dataclass(frozen=True)
class ExecResult(Exit):
    """The end of a program, and its output."""

    stdout: str
    stderr: str


def gone() -> SbxError:
    return SbxError(
        "service.gone",
        "the service went away while the program ran",
        hint="the program was ended, its VM goes on: run the program again, or as a job",
    )


def terminal_error(code: int, reason: str) -> SbxError:
    """Why a terminal ended, or was not opened."""
    if code != _BROKE:
        return SbxError("request.invalid" if code == _INVALID else "vm.terminal", reason or "the terminal was not opened")
    return SbxError(
        "service.gone",
        "the service went away while the terminal was open",
        hint="a program of its own was ended; the VM and its own terminal go on: open it again",
    )


def _events(chunks: Iterator[bytes]) -> Iterator[tuple[str, Any]]:
    """Server-sent events, whose data are JSON."""
    rest, event, data = b"", "message", list[str]()
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            text = line.decode()
            if text == "":
                if data:
                    yield event, json.loads("\n".join(data))
                event, data = "message", []
            elif text.startswith("event:"):
                event = text[6:].strip()
            elif text.startswith("data:"):
                data.append(text[5:].lstrip())


class _Kept:
    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.size = 0
        self.cut = False

    def add(self, data: bytes) -> None:
        room = _KEPT_MAX - self.size
        self.cut = self.cut or len(data) > room
        self.chunks.append(data[:room])
        self.size += min(len(data), room)

    def text(self) -> str:
        return b"".join(self.chunks).decode("utf-8", "replace")


def read_program(
    answer: Answer, on_stdout: OnOutput | None, on_stderr: OnOutput | None, cancel: Cancel | None
) -> ExecResult:
    """Reads the streamed answer of a program to its end."""
    kept = {"stdout": _Kept(), "stderr": _Kept()}
    callbacks = {"stdout": on_stdout, "stderr": on_stderr}
    events = _events(iter(answer))
    with answer:
        while True:
            try:
                event, data = next(events)
            except (StopIteration, OSError, http.client.HTTPException) as cause:
                if cancel and cancel.is_set:
                    raise cancelled() from cause
                raise gone() from cause
            if event in kept:
                piece = base64.b64decode(data["data"])
                kept[event].add(piece)
                if callback := callbacks[event]:
                    callback(piece)
            elif event == "error":
                raise SbxError(data["code"], data["error"], hint=data.get("hint"))
            elif event == "exit":
                return ExecResult(
                    exit_code=data["exit_code"],
                    truncated=data["truncated"] or kept["stdout"].cut or kept["stderr"].cut,
                    duration_ms=data["duration_ms"],
                    event_id=data["event_id"],
                    limits_reached=tuple(data.get("limits_reached", ())),
                    stdout=kept["stdout"].text(),
                    stderr=kept["stderr"].text(),
                )


class Program:
    """A program whose input is written while it runs. Its output must be read: it waits for its reader."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._untaken = 0
        self._waiting: deque[tuple[str, bytes]] = deque()
        # The end of the program, once its output was read.
        self.exit: Exit | None = None
        self._is_over = False

    def write(self, data: str | bytes) -> None:
        """Writes to its standard input, and keeps the output that comes meanwhile for the reader."""
        content = data.encode() if isinstance(data, str) else data
        step = _WINDOW // 4
        for at in range(0, len(content), step):
            piece = content[at : at + step]
            while self._untaken + len(piece) > _WINDOW and not self._is_over:
                self._receive()
            if self._is_over:
                return
            self._untaken += len(piece)
            self._try_send(piece)

    def close_input(self) -> None:
        """Ends its standard input."""
        self._try_send(json.dumps({"end": True}))

    def _try_send(self, message: str | bytes) -> None:
        try:
            self._socket.send(message)
        except SbxError:
            pass  # The program has ended; the reader gets its end.

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """Its output to its end: `stdout` or `stderr`, and the bytes."""
        while (piece := self.read()) is not None:
            yield piece

    def read(self) -> tuple[str, bytes] | None:
        """The next piece of output; None at the end."""
        while not self._waiting and not self._is_over:
            self._receive()
        return self._waiting.popleft() if self._waiting else None

    def _receive(self) -> None:
        message = self._socket.receive()
        if message is None:
            self._is_over = True
            raise gone()
        if isinstance(message, bytes):
            self._waiting.append(("stderr" if message[0] == 2 else "stdout", message[1:]))
            self._try_send(json.dumps({"taken": len(message) - 1}))
            return
        news = json.loads(message)
        if "taken" in news:
            self._untaken -= news["taken"]
        elif "exit" in news:
            end = news["exit"]
            reached = tuple(end.get("limits_reached", ()))
            self.exit = Exit(end["exit_code"], end["truncated"], end["duration_ms"], end["event_id"], reached)
            self._is_over = True
            self._socket.close()
        elif "error" in news:
            error = news["error"]
            self.kill()
            raise SbxError(error["code"], error["error"], hint=error.get("hint"))

    def kill(self) -> None:
        """Ends the program."""
        self._is_over = True
        self._socket.close()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Pty:
    """A terminal in a VM. Without a command it is the VM's own, which all clients share and which lives on."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    @property
    def end(self) -> tuple[int, str] | None:
        """Code and reason of its end, once its output was read."""
        return self._socket.end

    def write(self, data: str | bytes) -> None:
        self._socket.send(data.encode() if isinstance(data, str) else data)

    def resize(self, cols: int, rows: int) -> None:
        """Changes its size, 1 to 1000 each."""
        self._socket.send(json.dumps({"cols": cols, "rows": rows}))

    def read(self) -> bytes | None:
        """The next piece of output; None at the end, and an error where it ended otherwise than by itself."""
        while (message := self._socket.receive()) is not None:
            if isinstance(message, bytes):
                return message
        if self.end and self.end[0] != _ENDED:
            raise terminal_error(*self.end)
        return None

    def __iter__(self) -> Iterator[bytes]:
        while (piece := self.read()) is not None:
            yield piece

    def close(self) -> None:
        """Leaves the terminal; a program of its own ends."""
        self._socket.close()

    def __enter__(self) -> Pty:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
