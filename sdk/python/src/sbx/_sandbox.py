"""A VM."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import subprocess
import time
import uuid
from dataclasses import dataclass
from typing import Any, Iterable, Iterator, Mapping, Sequence, cast

from . import types
from ._asks import AskCallback, AskHandler
from ._client import Client
from ._error import ProgramError, SbxError
from ._http import Cancel, cancelled, segment
from ._program import ExecResult, OnOutput, Program, Pty, read_program, terminal_error

# First and longest time between two looks at a boot, in seconds.
_POLL, _POLL_MAX = 0.02, 0.25
# Times that a VM is made which a restart of the service removed.
_CREATE_TRIES = 3
# Longest wait of one request for events, in seconds.
_WAIT = 30
# VMs of one request for their list.
_LISTED_AT_ONCE = 500


@dataclass(frozen=True)
class UnitPatch:
    """Changes to the imported files of one repository or submodule."""

    repository: str
    dir: str
    path: str
    # For `git apply`; empty: nothing changed.
    patch: bytes


class Files:
    """Files of a VM: paths below `/workspace`, relative ones too, and other absolute ones while it runs."""

    def __init__(self, client: Client, path: str) -> None:
        self._http = client.http
        self._path = f"{path}/files"

    def read(self, path: str, *, cancel: Cancel | None = None) -> bytes:
        query = {"path": path}
        return cast(bytes, self._http.whole("GET", f"{self._path}/content", bytes, query=query, cancel=cancel))

    def read_text(self, path: str, *, cancel: Cancel | None = None) -> str:
        return self.read(path, cancel=cancel).decode()

    def stream(self, path: str, *, cancel: Cancel | None = None) -> Iterator[bytes]:
        """The bytes of a file of any size."""
        query = {"path": path}
        with self._http.send("GET", f"{self._path}/content", query=query, repeats=True, cancel=cancel) as answer:
            try:
                yield from answer
            except (OSError, http.client.HTTPException) as cause:
                raise (cancelled() if cancel and cancel.is_set else self._http.unreachable()) from cause

    def write(
        self,
        path: str,
        content: str | bytes | Iterable[bytes],
        *,
        mode: str | None = None,
        cancel: Cancel | None = None,
    ) -> None:
        """Writes a file in one step, with its folders. mode: octal, such as "0755"."""
        data = content.encode() if isinstance(content, str) else content
        query = {"path": path, "mode": mode}
        repeats = isinstance(data, bytes)
        self._http.json("POST", f"{self._path}/content", query=query, data=data, repeats=repeats, cancel=cancel)

    def make_folder(self, path: str, *, cancel: Cancel | None = None) -> None:
        query = {"path": path, "type": "directory"}
        self._http.json("POST", f"{self._path}/content", query=query, cancel=cancel)

    def list(
        self, path: str | None = None, *, depth: int | None = None, cancel: Cancel | None = None
    ) -> list[types.FileEntry]:
        """Entries below a folder. depth: levels, 1 to 32."""
        entries: list[types.FileEntry] = []
        cursor: str | None = None
        while True:
            query = {"path": path, "depth": depth, "cursor": cursor}
            page = self._http.json("GET", f"{self._path}/list", query=query, cancel=cancel)
            entries += page["entries"]
            cursor = page.get("next_cursor")
            if cursor is None:
                return entries


class Ports:
    """Ports of 127.0.0.1 on the sbx's machine that lead into a VM."""

    def __init__(self, client: Client, path: str) -> None:
        self._http = client.http
        self._path = f"{path}/ports"

    def open(self, guest_port: int, *, host_port: int | None = None, cancel: Cancel | None = None) -> types.Port:
        """Opens a port of the guest. host_port: default the same, or a free one."""
        body = {"guest_port": guest_port, "host_port": host_port}
        return cast(types.Port, self._http.json("POST", self._path, body=body, cancel=cancel))

    def list(self, *, cancel: Cancel | None = None) -> list[types.Port]:
        return cast("list[types.Port]", self._http.json("GET", self._path, cancel=cancel)["ports"])

    def close(self, guest_port: int, *, cancel: Cancel | None = None) -> None:
        self._http.json("DELETE", f"{self._path}/{guest_port}", cancel=cancel)


class Sandbox:
    """A VM. `with` deletes one that `create` or `fork` made, unless it is persistent."""

    def __init__(self, client: Client, vm: Mapping[str, Any], *, keep: bool, owns_client: bool = False) -> None:
        """Use `create`, `get` or `list`."""
        self.client = client
        # Of the VM and of its session.
        self.id: str = vm["id"]
        self.name: str = vm["name"]
        self.path = f"/vms/{self.id}"
        self.files = Files(client, self.path)
        self.ports = Ports(client, self.path)
        self._keep = keep
        self._owns_client = owns_client
        self._handlers: list[AskHandler] = []

    @staticmethod
    def create(
        *,
        name: str | None = None,
        profile: str | None = None,
        image: str | None = None,
        dockerfile: str | None = None,
        repo: str | Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        budget: Mapping[str, Any] | None = None,
        limits: Mapping[str, int] | None = None,
        cpus: int | None = None,
        ram_mb: int | None = None,
        disk_gb: int | None = None,
        arch: str | None = None,
        credentials: Mapping[str, str] | None = None,
        persistent: bool | None = None,
        queue_secs: int | None = None,
        client: Client | None = None,
        cancel: Cancel | None = None,
    ) -> Sandbox:
        """Makes a VM and waits until programs can be run in it. Where that fails, nothing of it stays.

        image: an OCI image that this home has; dockerfile: a folder with one, or the file itself, which `sbx image
        build` makes an image of, on this machine only; repo: a git repository or folder of the sbx's machine, or
        {"dir", "place", "with_secrets"}; persistent: it stays when it stops, and behind `with`.
        """
        connection = client or Client()
        try:
            if dockerfile is not None:
                image = _build_image(connection, dockerfile)
            bring: dict[str, Any] | None = {"dir": repo} if isinstance(repo, str) else repo and dict(repo)
            if bring and connection.http.endpoint.home is not None:
                bring["dir"] = os.path.abspath(bring["dir"])
            body = {
                "name": name,
                "profile_id": profile,
                "image": image,
                "env": dict(env) if env is not None else None,
                "budget": dict(budget) if budget is not None else None,
                "limits": dict(limits) if limits is not None else None,
                "cpus": cpus,
                "ram_mb": ram_mb,
                "disk_gb": disk_gb,
                "arch": arch,
                "credentials": dict(credentials) if credentials is not None else None,
                "persistent": persistent,
                "queue_secs": queue_secs,
                "folders": [{"dir": bring["dir"], "with_requests": False}] if bring else None,
            }
            key = str(uuid.uuid4())
            for is_last in (*[False] * (_CREATE_TRIES - 1), True):
                vm = _made(connection, "/vms/create", body, cancel, key)
                sandbox = Sandbox(connection, vm, keep=persistent or False, owns_client=client is None)
                try:
                    sandbox.ready(cancel=cancel)
                    break
                except BaseException as error:
                    # A service that restarts removes a VM that never booted: the same request makes it again.
                    is_removed = isinstance(error, SbxError) and error.code == "vm.not_found"
                    if not is_removed:
                        sandbox._discard()
                    if not is_removed or is_last:
                        raise
            try:
                if bring:
                    sandbox.bring(**bring, cancel=cancel)
            except BaseException:
                sandbox._discard()
                raise
            return sandbox
        except BaseException:
            if client is None:
                connection.close()
            raise

    @staticmethod
    def get(name: str, *, client: Client | None = None, cancel: Cancel | None = None) -> Sandbox:
        """A VM that is there, by name or id; `with` leaves it."""
        connection = client or Client()
        info = connection.http.json("GET", f"/vms/{segment(name)}/info", cancel=cancel)
        return Sandbox(connection, info, keep=True, owns_client=client is None)

    @staticmethod
    def list(*, client: Client | None = None, cancel: Cancel | None = None) -> list[types.VmListed]:
        """All VMs, the oldest first."""
        connection = client or Client()
        vms: list[types.VmListed] = []
        query: dict[str, Any] = {"limit": _LISTED_AT_ONCE}
        try:
            while True:
                page = connection.http.json("GET", "/vms/list", query=query, cancel=cancel)
                vms += page["vms"]
                if page.get("next_cursor") is None:
                    return vms
                query["cursor"] = page["next_cursor"]
        finally:
            if client is None:
                connection.close()

    def info(self, *, cancel: Cancel | None = None) -> types.VmInfo:
        return cast(types.VmInfo, self._json("GET", "/info", cancel=cancel))

    def status(self, *, cancel: Cancel | None = None) -> str:
        return cast(str, self._json("GET", "/status", cancel=cancel)["status"])

    def ready(self, *, cancel: Cancel | None = None) -> None:
        """Waits until it runs."""
        wait = _POLL
        while True:
            answer = self._json("GET", "/status", cancel=cancel)
            if answer["status"] == "Running":
                return
            if answer["status"] != "Booting":
                why = answer.get("last_error") or f"its status is {answer['status']}"
                hint = f"sbx logs {self.name} shows why"
                raise SbxError("vm.boot_failed", f'"{self.name}" did not boot: {why}', hint=hint)
            if cancel and cancel.event.wait(wait):
                raise cancelled()
            if not cancel:
                time.sleep(wait)
            wait = min(wait * 1.5, _POLL_MAX)

    def exec(
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
        cancel: Cancel | None = None,
    ) -> ExecResult:
        """Runs a program to its end: a list, or a line for `sh`.

        It ends when it is cancelled, when a callback throws, and when this process goes away. timeout: seconds, then
        its exit code is 124; limits: of this program, beside its VM's; check: another exit code than 0 is a ProgramError.
        """
        body = _program_body(command, cwd, user, env, timeout, limits)
        if isinstance(stdin, bytes):
            body |= {"stdin": base64.b64encode(stdin).decode(), "stdin_encoding": "base64"}
        else:
            body |= {"stdin": stdin}
        answer = self.client.http.send(
            "POST", f"{self.path}/exec", body=body, accept="text/event-stream", cancel=cancel
        )
        result = read_program(answer, on_stdout, on_stderr, cancel)
        if check and result.exit_code != 0:
            raise ProgramError(result.exit_code, result.stdout, result.stderr, result.event_id)
        return result

    def spawn(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        limits: Mapping[str, int] | None = None,
        cancel: Cancel | None = None,
    ) -> Program:
        """Starts a program whose input is written while it runs, and whose output is read."""
        socket = self.client.socket(f"/program/{self.id}", cancel=cancel)
        body = _program_body(command, cwd, user, env, timeout, limits)
        socket.send(json.dumps({name: value for name, value in body.items() if value is not None}))
        return Program(socket)

    def pty(
        self,
        command: Sequence[str] | None = None,
        *,
        cols: int | None = None,
        rows: int | None = None,
        cancel: Cancel | None = None,
    ) -> Pty:
        """Opens a terminal: the VM's own, or one of a program."""
        argv = None if command is None else json.dumps(list_of(command))
        socket = self.client.socket(f"/terminal/{self.id}", {"argv": argv}, cancel=cancel)
        # Its first message is empty: the terminal is there.
        if socket.receive() is None:
            raise terminal_error(*socket.end or (0, ""))
        pty = Pty(socket)
        if cols is not None or rows is not None:
            try:
                pty.resize(80 if cols is None else cols, 24 if rows is None else rows)
            except SbxError:
                pass  # It has ended; who reads it gets its output, and why it ended.
        return pty

    def fork(
        self,
        *,
        count: int | None = None,
        name: str | None = None,
        at: str | None = None,
        cancel: Cancel | None = None,
    ) -> list[Sandbox]:
        """Copies it, `count` times from one moment: with its memory, or with the workspace of a snapshot and its disk."""
        body = {"count": count, "name": name, "at": at}
        answer = _made(self.client, f"{self.path}/fork", body, cancel)
        copies = [Sandbox(self.client, vm, keep=False) for vm in answer["vms"]]
        try:
            for copy in copies:
                copy.ready(cancel=cancel)
        except BaseException:
            for copy in copies:
                copy._discard()
            raise
        return copies

    def suspend(self, *, cancel: Cancel | None = None) -> None:
        self._json("POST", "/suspend", cancel=cancel)

    def resume(self, *, cancel: Cancel | None = None) -> None:
        """Goes on after `suspend` or `pause`."""
        self._json("POST", "/resume", cancel=cancel)

    def pause(self, *, cancel: Cancel | None = None) -> None:
        self._json("POST", "/pause", cancel=cancel)

    def stop(self, *, cancel: Cancel | None = None) -> None:
        self._json("POST", "/stop", cancel=cancel)

    def start(self, *, cancel: Cancel | None = None) -> None:
        self._json("POST", "/start", cancel=cancel)
        self.ready(cancel=cancel)

    def snapshot(self, label: str | None = None, *, cancel: Cancel | None = None) -> types.Snapshot:
        """Keeps the state of its workspace."""
        return cast(types.Snapshot, self._json("POST", "/snapshots/create", body={"label": label}, cancel=cancel))

    def undo(
        self,
        *,
        to: str | None = None,
        paths: Sequence[str] | None = None,
        dry_run: bool | None = None,
        cancel: Cancel | None = None,
    ) -> types.SnapshotRestored:
        """Puts its workspace back: to a snapshot, to before an event, or to the newest snapshot that differs."""
        body = {"to": to, "paths": None if paths is None else list_of(paths), "dry_run": dry_run}
        return cast(types.SnapshotRestored, self._json("POST", "/snapshots/undo", body=body, cancel=cancel))

    def bring(
        self,
        dir: str,
        *,
        place: str | None = None,
        with_secrets: bool | None = None,
        read_only: bool | None = None,
        cancel: Cancel | None = None,
    ) -> types.RepositoryBrought:
        """Brings a repository or folder of the sbx's machine in."""
        body = {"dir": dir, "place": place, "with_secrets": with_secrets, "is_read_only": read_only}
        return cast(types.RepositoryBrought, self._json("POST", "/repositories", body=body, cancel=cancel))

    def pull(self, *, cancel: Cancel | None = None) -> list[UnitPatch]:
        """The changes to the files that were brought in, as patches."""
        units = self._json("GET", "/work/patch", cancel=cancel)["units"]
        return [
            UnitPatch(unit["repository"], unit["dir"], unit["path"], base64.b64decode(unit["patch"])) for unit in units
        ]

    def events(
        self, *, after: int = 0, follow: bool = True, cancel: Cancel | None = None, **conditions: Any
    ) -> Iterator[dict[str, Any]]:
        """Events of its record, oldest first, each once.

        The ones that are there, and with `follow` the ones to come, until the VM has ended. After an interruption it
        goes on behind the last one; after: the sequence of an event; conditions: parameters of the route, such as
        family="http" or denied=True.
        """
        cursor, is_over = after, False
        while True:
            wait = _WAIT if follow and not is_over else 0
            query = {**conditions, "cursor": cursor, "limit": 1000, "wait_secs": wait}
            page = self.client.http.json("GET", f"/sessions/{self.id}/events", query=query, cancel=cancel)
            for event in page["events"]:
                cursor = max(cursor, event["common"]["sequence"])
                yield event
            next_cursor = page.get("next_cursor")
            if next_cursor is not None:
                cursor = max(cursor, int(next_cursor))
                continue
            if page["events"] and follow:
                continue
            if not follow or is_over:
                return
            # Its last events come before it is over.
            is_over = self._is_over(cancel)

    def _is_over(self, cancel: Cancel | None) -> bool:
        try:
            return self.status(cancel=cancel) in ("Stopped", "Defunct")
        except SbxError as error:
            if error.code == "vm.not_found":
                return True
            raise

    def on_ask(self, callback: AskCallback) -> AskHandler:
        """Answers its asks, from a thread, until it is deleted behind `with`, or the handler is closed."""
        handler = AskHandler(self.client, self.id, callback)
        self._handlers.append(handler)
        return handler

    def why(self, event_id: str, *, cancel: Cancel | None = None) -> types.Why:
        """Why an event was allowed or refused."""
        return cast(types.Why, self._session(f"/events/{segment(event_id)}/why", cancel))

    def costs(self, *, cancel: Cancel | None = None) -> types.CostReport:
        """Calls of models, with tokens and prices, and how far the budgets are used."""
        return cast(types.CostReport, self._session("/costs", cancel))

    def certificate(self, *, cancel: Cancel | None = None) -> types.SignedCertificate:
        """A signed certificate of its session, as `sbx certify --verify` reads it. Also when it is deleted."""
        return cast(types.SignedCertificate, self._session("/certificate", cancel))

    def delete(self, *, force: bool = False, cancel: Cancel | None = None) -> None:
        """Deletes it; its record stays. force: also with work that was not pulled."""
        self._json("DELETE", "/delete", query={"force": True} if force else None, cancel=cancel)
        self._keep = True

    def close(self) -> None:
        """Deletes a VM that `create` or `fork` made, ends its handlers and its own connection."""
        failures = []
        for handler in self._handlers:
            try:
                handler.close()
            except Exception as error:
                failures.append(error)
        try:
            if not self._keep:
                self.delete(force=True)
        except SbxError as error:
            if error.code != "vm.not_found":
                raise
        finally:
            if self._owns_client:
                self.client.close()
        if failures:
            raise failures[0]

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _discard(self) -> None:
        """Deletes a VM whose making failed; the first error is the one to report."""
        try:
            self.delete(force=True)
        except SbxError:
            pass

    def _json(self, method: str, path: str, **parts: Any) -> Any:
        return self.client.http.json(method, self.path + path, **parts)

    def _session(self, path: str, cancel: Cancel | None) -> Any:
        return self.client.http.json("GET", f"/sessions/{self.id}{path}", cancel=cancel)


def list_of(words: Sequence[str]) -> Sequence[str]:
    """A JSON list. The class has a method of the type's name."""
    return [*words]


def _program_body(
    command: str | Sequence[str],
    cwd: str | None,
    user: str | None,
    env: Mapping[str, str] | None,
    timeout: float | None,
    limits: Mapping[str, int] | None,
) -> dict[str, Any]:
    return {
        "command": command if isinstance(command, str) else [*command],
        "cwd": cwd,
        "user": user,
        "env": dict(env) if env is not None else None,
        "timeout_secs": timeout,
        "limits": dict(limits) if limits is not None else None,
    }


def _made(
    client: Client, path: str, body: Mapping[str, Any], cancel: Cancel | None, key: str | None = None
) -> Any:
    """Makes VMs by a request that can be repeated."""
    headers = {"Idempotency-Key": key or str(uuid.uuid4())}
    return client.http.json("POST", path, body=body, headers=headers, repeats=True, cancel=cancel)


def _build_image(client: Client, dockerfile: str) -> str:
    """Builds the image of a Dockerfile by the `sbx` of this machine. Returns its reference."""
    home = client.http.endpoint.home
    if home is None:
        raise SbxError(
            "request.invalid",
            "a Dockerfile is built on this machine, and the sbx is on another",
            hint="build it there with sbx image build, and name the image",
        )
    path = os.path.abspath(dockerfile)
    if not os.path.exists(path):
        raise SbxError("request.invalid", f"there is no Dockerfile at {path}")
    is_file = not os.path.isdir(path)
    folder = os.path.dirname(path) if is_file else path
    tag = f"sbx-sdk:{hashlib.sha256(path.encode()).hexdigest()[:16]}"
    command = ["sbx", "image", "build", folder, "--tag", tag, "--json", *(["--file", path] if is_file else [])]
    try:
        ran = subprocess.run(command, env={**os.environ, "SBX_HOME": home}, capture_output=True, text=True)
        words = ran.stderr.strip().split("\n")[-1]
    except OSError as cause:
        raise SbxError("image.build_failed", f"sbx cannot be run: {cause.strerror}") from cause
    if ran.returncode != 0:
        hint = f"sbx image build {folder} shows all of it"
        raise SbxError("image.build_failed", f"the image of {path} was not built: {words}", hint=hint)
    return f"localhost/{tag}"
