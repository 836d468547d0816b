"""The Python SDK for tests/sdk/sdk_test.ts: a request a line of JSON on standard input, its answer on standard output.

Argument: "sync" or "async". The asynchronous classes have the same calls, so that both run through one table.
"""

import asyncio
import inspect
import json
import sys
import threading

from sbx import AsyncSandbox, Cancel, Client, ProgramError, Sandbox, SbxError

IS_ASYNC = sys.argv[1] == "async"
VM = AsyncSandbox if IS_ASYNC else Sandbox
objects = {}
lock = threading.Lock()
LOOP = asyncio.new_event_loop()
if IS_ASYNC:
    threading.Thread(target=LOOP.run_forever, daemon=True).start()


def drive(work):
    """Runs a coroutine: of asynchronous calls in one loop, of blocking ones in this thread."""
    return asyncio.run_coroutine_threadsafe(work, LOOP).result() if IS_ASYNC else asyncio.run(work)


async def value(result):
    return await result if inspect.isawaitable(result) else result


async def each(iterable):
    if hasattr(iterable, "__aiter__"):
        async for item in iterable:
            yield item
    else:
        for item in iterable:
            yield item


def keep(item):
    with lock:
        key = str(len(objects) + 1)
        objects[key] = item
        return key


def about(vm):
    return {"vm": keep(vm), "id": vm.id, "name": vm.name}


def shown(result):
    names = ("stdout", "stderr", "exit_code", "truncated", "event_id")
    return {name: getattr(result, name) for name in names}


async def connect(**options):
    return {"client": keep(Client(options.pop("host", None), **options))}


async def create(client, **options):
    return about(await value(VM.create(client=objects[client], **options)))


async def get(client, name):
    return about(await value(VM.get(name, client=objects[client])))


async def list_vms(client):
    return [vm["name"] for vm in await value(VM.list(client=objects[client]))]


async def raw(client, method, path, headers=None):
    return objects[client].http.json(method, path, headers=headers)


async def socket(client, path):
    cancel = Cancel()
    keep(cancel)
    objects[client].socket(path, cancel=cancel).close()


async def exec_(vm, command, stdin_bytes=None, **options):
    if stdin_bytes is not None:
        options["stdin"] = bytes(stdin_bytes)
    return shown(await value(objects[vm].exec(command, **options)))


async def count(vm, command, throw_after=0, abort_after=0):
    """Counts the output of a program by its callback, and throws or cancels after some bytes."""
    total = 0
    cancel = Cancel()
    reached = asyncio.Event()

    def on_stdout(piece):
        nonlocal total
        total += len(piece)
        if throw_after and total >= throw_after:
            raise RuntimeError("the callback threw")
        if abort_after and total >= abort_after:
            if IS_ASYNC:
                reached.set()
            else:
                cancel()

    if not IS_ASYNC:
        result = objects[vm].exec(command, on_stdout=on_stdout, cancel=cancel)
    else:
        task = asyncio.ensure_future(objects[vm].exec(command, on_stdout=on_stdout))
        if abort_after:
            await reached.wait()
            task.cancel()
        result = await task
    return {"bytes": total, "truncated": result.truncated}


async def pipe(vm, command, bytes):
    program = await value(objects[vm].spawn(command))
    total = 0

    async def read():
        nonlocal total
        async for _, data in each(program):
            total += len(data)

    await value(program.write(b"x" * bytes))
    await value(program.close_input())
    await read()
    return {"bytes": total, "exit_code": program.exit.exit_code}


async def pty(vm, input=None, **options):
    terminal = await value(objects[vm].pty(**options))
    if input:
        await value(terminal.write(input))
    text = b""
    async for piece in each(terminal):
        text += piece
    return {"text": text.decode(), "code": terminal.end[0]}


async def write(vm, path, content, mode=None):
    await value(objects[vm].files.write(path, content, mode=mode))


async def write_size(vm, path, size):
    await value(objects[vm].files.write(path, b"\x07" * size))


async def upload(vm, path, mebibytes):
    """Writes a file of zeros, a mebibyte at a time."""
    await value(objects[vm].files.write(path, (bytes(1024 * 1024) for _ in range(mebibytes))))


async def download(vm, path):
    count = 0
    async for piece in each(objects[vm].files.stream(path)):
        count += len(piece)
    return count


async def read(vm, path):
    return len(await value(objects[vm].files.read(path)))


async def read_text(vm, path):
    return await value(objects[vm].files.read_text(path))


async def list_files(vm, path=None, depth=None):
    return [entry["path"] for entry in await value(objects[vm].files.list(path, depth=depth))]


async def port_list(vm):
    return [port["guest_port"] for port in await value(objects[vm].ports.list())]


async def fork(vm, **options):
    return [about(copy) for copy in await value(objects[vm].fork(**options))]


async def snapshot(vm, label=None):
    return (await value(objects[vm].snapshot(label)))["id"]


async def undo(vm, **options):
    return (await value(objects[vm].undo(**options)))["changes_count"]


async def pull(vm):
    return [{"dir": unit.dir, "patch": unit.patch.decode()} for unit in await value(objects[vm].pull())]


async def events(vm, most=None, **options):
    """The sequences of events, up to a number of them."""
    sequences = []
    async for event in each(objects[vm].events(**options)):
        sequences.append(event["common"]["sequence"])
        if len(sequences) == most:
            break
    return sequences


class Followed:
    """Events that match, as they come."""

    def __init__(self, vm, options):
        self.seen = []
        self.failure = None
        self.cancel = Cancel()
        self.thread = threading.Thread(target=self.run, args=(vm, options), daemon=True)
        self.thread.start()

    def add(self, event):
        command = event.get("process", {}).get("activity", {}).get("command")
        common = event["common"]
        self.seen.append([common["sequence"], command, common["event_id"]])

    def run(self, vm, options):
        try:
            if not IS_ASYNC:
                for event in vm.events(cancel=self.cancel, **options):
                    self.add(event)
            else:
                drive(self.follow(vm, options))
        except SbxError as error:
            if error.code != "call.cancelled":
                self.failure = error

    async def follow(self, vm, options):
        async def work():
            async for event in vm.events(**options):
                self.add(event)

        task = asyncio.ensure_future(work())
        while not task.done() and not self.cancel.is_set:
            await asyncio.wait([task], timeout=0.05)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and task.exception():
            raise task.exception()


async def follow(vm, **options):
    return {"follow": keep(Followed(objects[vm], options))}


async def followed(follow):
    return objects[follow].seen


async def unfollow(follow):
    found = objects[follow]
    found.cancel()
    await asyncio.to_thread(found.thread.join)
    if found.failure:
        raise found.failure
    return found.seen


async def ask(vm, answer):
    def callback(ask):
        if answer == "throw":
            raise RuntimeError(f"no answer for {ask['rule_id']}")
        return answer

    async def later(ask):
        return callback(ask)

    return {"handler": keep(objects[vm].on_ask(later if IS_ASYNC else callback))}


async def ask_close(handler):
    try:
        await value(objects[handler].close())
    except RuntimeError as error:
        return str(error)


async def why(vm, event):
    return (await value(objects[vm].why(event)))["event"]["common"]["event_type"]


async def costs(vm):
    return [[budget["limit"], budget["max"]] for budget in (await value(objects[vm].costs()))["budgets"]]


async def certificate(vm):
    return (await value(objects[vm].certificate()))["payloadType"]


def method(name, *path):
    """A call whose arguments and result are those of a method."""

    async def call(vm, **options):
        target = objects[vm]
        for part in path:
            target = getattr(target, part)
        return await value(getattr(target, name)(**options))

    return call


OPS = {
    "connect": connect,
    "create": create,
    "get": get,
    "list": list_vms,
    "raw": raw,
    "socket": socket,
    "exec": exec_,
    "count": count,
    "pipe": pipe,
    "pty": pty,
    "write": write,
    "write_size": write_size,
    "upload": upload,
    "download": download,
    "read": read,
    "read_text": read_text,
    "list_files": list_files,
    "make_folder": method("make_folder", "files"),
    "port_open": lambda vm, port: value(objects[vm].ports.open(port)),
    "port_list": port_list,
    "port_close": lambda vm, port: value(objects[vm].ports.close(port)),
    "fork": fork,
    "snapshot": snapshot,
    "undo": undo,
    "pull": pull,
    "events": events,
    "follow": follow,
    "followed": followed,
    "unfollow": unfollow,
    "ask": ask,
    "ask_close": ask_close,
    "why": why,
    "costs": costs,
    "certificate": certificate,
    "dispose": method("close"),
    **{name: method(name) for name in ("info", "status", "suspend", "resume", "pause", "bring", "delete")},
}


def run(line):
    request = json.loads(line)
    try:
        answer = {"value": drive(OPS[request["op"]](**request["args"]))}
    except BaseException as error:
        program = isinstance(error, ProgramError)
        answer = {
            "error": {
                "code": getattr(error, "code", type(error).__name__),
                "message": str(error),
                "hint": getattr(error, "hint", None),
                "event_id": error.event_id if program else None,
                "exit_code": error.exit_code if program else None,
            }
        }
    text = json.dumps({"id": request["id"], **answer}) + "\n"
    with lock:
        sys.stdout.write(text)
        sys.stdout.flush()


for line in sys.stdin:
    threading.Thread(target=run, args=(line,), daemon=True).start()
