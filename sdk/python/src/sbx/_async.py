"""VMs for asyncio: each call runs in a thread, and ends when its task is cancelled."""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import Any, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, TypeVar

from . import types
from ._asks import AskHandler
from ._client import Client
from ._http import Cancel
from ._program import ExecResult, Exit, OnOutput, Program, Pty
from ._sandbox import Files, Ports, Sandbox, UnitPatch

_T = TypeVar("_T")
# Most calls at once; each waits for its answer.
_THREADS = 128
_pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="sbx")
_END = object()


async def _call(work: Callable[..., _T], *args: Any, **options: Any) -> _T:
    """Runs a call that takes `cancel`. A cancelled task ends it, and waits for its end."""
    cancel = Cancel()
    loop = asyncio.get_running_loop()
    future = loop.run_in_executor(_pool, lambda: work(*args, **options, cancel=cancel))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        cancel()
        await asyncio.wait([future])
        if not future.cancelled():
            future.exception()  # Its caller has left.
        raise


async def _run(work: Callable[..., _T], *args: Any) -> _T:
    return await asyncio.get_running_loop().run_in_executor(_pool, work, *args)


async def _each(iterator: Iterator[_T], stop: Callable[[], object]) -> AsyncIterator[_T]:
    try:
        while (item := await _run(next, iterator, _END)) is not _END:
            yield item  # type: ignore[misc]
    finally:
        stop()


def _bridge(callback: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """A callback for a thread. A coroutine runs in the loop of the caller, and the thread waits for it."""
    if callback is None:
        return None
    loop = asyncio.get_running_loop()

    async def inside(*args: Any) -> Any:
        result = callback(*args)
        return await result if inspect.isawaitable(result) else result

    return lambda *args: asyncio.run_coroutine_threadsafe(inside(*args), loop).result()


class AsyncFiles:
    """As Files."""

    def __init__(self, files: Files) -> None:
        self._files = files

    async def read(self, path: str) -> bytes:
        return await _call(self._files.read, path)

    async def read_text(self, path: str) -> str:
        return await _call(self._files.read_text, path)

    def stream(self, path: str) -> AsyncIterator[bytes]:
        cancel = Cancel()
        return _each(self._files.stream(path, cancel=cancel), cancel)

    async def write(
        self, path: str, content: str | bytes | Iterable[bytes], *, mode: str | None = None
    ) -> None:
        await _call(self._files.write, path, content, mode=mode)

    async def make_folder(self, path: str) -> None:
        await _call(self._files.make_folder, path)

    async def list(self, path: str | None = None, *, depth: int | None = None) -> list[types.FileEntry]:
        return await _call(self._files.list, path, depth=depth)


class AsyncPorts:
    """As Ports."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def open(self, guest_port: int, *, host_port: int | None = None) -> types.Port:
        return await _call(self._ports.open, guest_port, host_port=host_port)

    async def list(self) -> list[types.Port]:
        return await _call(self._ports.list)

    async def close(self, guest_port: int) -> None:
        await _call(self._ports.close, guest_port)


class AsyncProgram:
    """As Program."""

    def __init__(self, program: Program) -> None:
        self._program = program

    @property
    def exit(self) -> Exit | None:
        return self._program.exit

    async def write(self, data: str | bytes) -> None:
        await _run(self._program.write, data)

    async def close_input(self) -> None:
        await _run(self._program.close_input)

    async def read(self) -> tuple[str, bytes] | None:
        return await _run(self._program.read)

    async def __aiter__(self) -> AsyncIterator[tuple[str, bytes]]:
        while (piece := await self.read()) is not None:
            yield piece

    def kill(self) -> None:
        self._program.kill()

    async def __aenter__(self) -> AsyncProgram:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.kill()


class AsyncPty:
    """As Pty."""

    def __init__(self, pty: Pty) -> None:
        self._pty = pty

    @property
    def end(self) -> tuple[int, str] | None:
        return self._pty.end

    async def write(self, data: str | bytes) -> None:
        await _run(self._pty.write, data)

    async def resize(self, cols: int, rows: int) -> None:
        await _run(self._pty.resize, cols, rows)

    async def read(self) -> bytes | None:
        return await _run(self._pty.read)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self.read()) is not None:
            yield piece

    def close(self) -> None:
        self._pty.close()

    async def __aenter__(self) -> AsyncPty:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class AsyncAskHandler:
    """As AskHandler."""

    def __init__(self, handler: AskHandler) -> None:
        self._handler = handler

    async def close(self) -> None:
        await _run(self._handler.close)

    async def __aenter__(self) -> AsyncAskHandler:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncSandbox:
    """As Sandbox, for asyncio. `async with` deletes a VM that `create` or `fork` made, unless it is persistent."""

    def __init__(self, sandbox: Sandbox) -> None:
        """Use `create`, `get` or `list`."""
        self.sandbox = sandbox
        self.id = sandbox.id
        self.name = sandbox.name
        self.client = sandbox.client
        self.files = AsyncFiles(sandbox.files)
        self.ports = AsyncPorts(sandbox.ports)

    @staticmethod
    async def create(**options: Any) -> AsyncSandbox:
        """As Sandbox.create."""
        return AsyncSandbox(await _call(Sandbox.create, **options))

    @staticmethod
    async def get(name: str, *, client: Client | None = None) -> AsyncSandbox:
        return AsyncSandbox(await _call(Sandbox.get, name, client=client))

    @staticmethod
    async def list(*, client: Client | None = None) -> list[types.VmListed]:
        return await _call(Sandbox.list, client=client)

    async def info(self) -> types.VmInfo:
        return await _call(self.sandbox.info)

    async def status(self) -> str:
        return await _call(self.sandbox.status)

    async def ready(self) -> None:
        await _call(self.sandbox.ready)

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        limits: Mapping[str, int] | None = None,
        stdin: str | bytes | None = None,
        on_stdout: OnOutput | None = None,
        on_stderr: OnOutput | None = None,
        check: bool = False,
    ) -> ExecResult:
        """As Sandbox.exec; callbacks may be coroutines."""
        return await _call(
            self.sandbox.exec,
            command,
            cwd=cwd,
            user=user,
            env=env,
            timeout=timeout,
            limits=limits,
            stdin=stdin,
            on_stdout=_bridge(on_stdout),
            on_stderr=_bridge(on_stderr),
            check=check,
        )

    async def spawn(self, command: str | Sequence[str], **options: Any) -> AsyncProgram:
        return AsyncProgram(await _call(self.sandbox.spawn, command, **options))

    async def pty(self, command: Sequence[str] | None = None, **options: Any) -> AsyncPty:
        return AsyncPty(await _call(self.sandbox.pty, command, **options))

    async def fork(
        self, *, count: int | None = None, name: str | None = None, at: str | None = None
    ) -> list[AsyncSandbox]:
        copies = await _call(self.sandbox.fork, count=count, name=name, at=at)
        return [AsyncSandbox(copy) for copy in copies]

    async def suspend(self) -> None:
        await _call(self.sandbox.suspend)

    async def resume(self) -> None:
        await _call(self.sandbox.resume)

    async def pause(self) -> None:
        await _call(self.sandbox.pause)

    async def stop(self) -> None:
        await _call(self.sandbox.stop)

    async def start(self) -> None:
        await _call(self.sandbox.start)

    async def snapshot(self, label: str | None = None) -> types.Snapshot:
        return await _call(self.sandbox.snapshot, label)

    async def undo(self, **options: Any) -> types.SnapshotRestored:
        return await _call(self.sandbox.undo, **options)

    async def bring(self, dir: str, **options: Any) -> types.RepositoryBrought:
        return await _call(self.sandbox.bring, dir, **options)

    async def pull(self) -> list[UnitPatch]:
        return await _call(self.sandbox.pull)

    def events(self, *, after: int = 0, follow: bool = True, **conditions: Any) -> AsyncIterator[dict[str, Any]]:
        cancel = Cancel()
        return _each(self.sandbox.events(after=after, follow=follow, cancel=cancel, **conditions), cancel)

    def on_ask(
        self, callback: Callable[[types.Ask], str | dict[str, Any] | Awaitable[str | dict[str, Any]]]
    ) -> AsyncAskHandler:
        bridged = _bridge(callback)
        assert bridged
        return AsyncAskHandler(self.sandbox.on_ask(bridged))

    async def why(self, event_id: str) -> types.Why:
        return await _call(self.sandbox.why, event_id)

    async def costs(self) -> types.CostReport:
        return await _call(self.sandbox.costs)

    async def certificate(self) -> types.SignedCertificate:
        return await _call(self.sandbox.certificate)

    async def delete(self, *, force: bool = False) -> None:
        await _call(self.sandbox.delete, force=force)

    async def close(self) -> None:
        await _run(self.sandbox.close)

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
