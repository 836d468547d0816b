"""Where requests go: a Unix socket, TCP, TLS, or another machine through ssh(1)."""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
from dataclasses import dataclass, field
from typing import Callable
from urllib.parse import SplitResult, unquote, urlsplit

from ._error import SbxError

# Longest wait for SSH, in seconds: a person may have to type a password, or touch a key.
_CONNECT_SECONDS = 120
_HOST_HINT = "ssh://[user@]host[:port][/home], https://host[:port] or http://127.0.0.1:PORT"


@dataclass
class Endpoint:
    """One sbx, and the way to it."""

    hostname: str = "127.0.0.1"
    port: int = 80
    socket_path: str | None = None
    tls: ssl.SSLContext | None = None
    # With True, the token is read again.
    token: Callable[[bool], str | None] = lambda again: None
    # Home of an sbx of this machine.
    home: str | None = None
    close: Callable[[], None] = field(default=lambda: None)

    @property
    def name(self) -> str:
        return self.socket_path or f"{self.hostname}:{self.port}"

    @property
    def host_header(self) -> str:
        if self.socket_path:
            return "127.0.0.1"
        host = f"[{self.hostname}]" if ":" in self.hostname else self.hostname
        return f"{host}:{self.port}"

    def connect(self) -> socket.socket:
        """Opens a connection. Its errors are of the operating system."""
        if self.socket_path:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(self.socket_path)
            except OSError:
                connection.close()
                raise
            return connection
        connection = socket.create_connection((self.hostname, self.port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.tls.wrap_socket(connection, server_hostname=self.hostname) if self.tls else connection


def find_endpoint(
    *,
    host: str | None = None,
    token: str | None = None,
    token_file: str | None = None,
    home: str | None = None,
    socket_path: str | None = None,
) -> Endpoint:
    """The sbx to use: `host`, or SBX_HOST, or the socket of this machine's."""
    if host is None and home is None and socket_path is None:
        host = os.environ.get("SBX_HOST") or None
    if host is None:
        return _local(home, socket_path)
    try:
        url = urlsplit(host)
        _ = url.port
    except ValueError as cause:
        raise SbxError("host.invalid", f'"{_without_user(host)}" is no address', hint=_HOST_HINT) from cause
    if url.scheme == "ssh" and url.hostname:
        return _by_ssh(url)
    if url.scheme in ("http", "https") and url.hostname:
        return _by_tcp(url, token, token_file)
    raise SbxError("host.invalid", f'"{_without_user(host)}" is no address of an sbx', hint=_HOST_HINT)


def _local(home: str | None, socket_path: str | None) -> Endpoint:
    place = home or os.environ.get("SBX_HOME") or os.path.join(os.path.expanduser("~"), ".sbx")
    run = os.environ.get("SBX_RUN_DIR") if home is None else None
    run = run or os.path.join(place, "run")
    paths = [socket_path] if socket_path else [os.path.join(run, name) for name in ("gateway.sock", "service.sock")]
    path = next((each for each in paths if os.path.exists(each)), paths[0])
    if os.path.exists(path) and os.stat(path).st_uid != os.getuid():
        raise SbxError(
            "host.credential", f"the socket {path} belongs to another user", hint="use a home of your own: SBX_HOME"
        )
    return Endpoint(socket_path=path, home=place)


def _by_tcp(url: SplitResult, token: str | None, token_file: str | None) -> Endpoint:
    secure = url.scheme == "https"
    if not secure and url.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise SbxError(
            "host.invalid",
            "an http address is for this machine: another one gets the token by https or ssh only",
            hint=_HOST_HINT,
        )
    if url.username or url.password or url.query or url.fragment or url.path not in ("", "/"):
        raise SbxError("host.invalid", "an address by http or https has a host and a port only", hint=_HOST_HINT)
    file = token_file or os.environ.get("SBX_TOKEN_FILE")
    known = [token]

    def read(again: bool) -> str | None:
        if token is None and file and (known[0] is None or again):
            known[0] = _text(file, "the token").strip()
        # It becomes a header.
        if known[0] is not None and not re.fullmatch(r"[\x21-\x7e]+", known[0]):
            raise SbxError(
                "host.credential",
                f"the token for {url.scheme}://{url.netloc} is not one of a gateway",
                hint="run/gateway.token in the home of that sbx has one line",
            )
        return known[0]

    if read(False) is None:
        raise SbxError(
            "host.credential",
            f"{url.scheme}://{url.netloc} wants a token",
            hint="give token or token_file: run/gateway.token in the home of that sbx",
        )
    context = None
    if secure:
        context = ssl.create_default_context()
        if os.environ.get("SBX_CA_FILE"):
            context.load_verify_locations(os.environ["SBX_CA_FILE"])
        if os.environ.get("SBX_CLIENT_CERT"):
            context.load_cert_chain(os.environ["SBX_CLIENT_CERT"], os.environ.get("SBX_CLIENT_KEY"))
    assert url.hostname
    return Endpoint(hostname=url.hostname, port=url.port or (443 if secure else 80), tls=context, token=read)


def _without_user(host: str) -> str:
    """An address for people: user and password are left out."""
    return re.sub(r"//.*@", "//", host, flags=re.DOTALL)


def _text(path: str, what: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as cause:
        raise SbxError("host.credential", f"{what} cannot be read: {path}") from cause


def _by_ssh(url: SplitResult) -> Endpoint:
    """One connection reports port and token, and forwards a socket in a private folder; it ends with this process."""
    host, user = url.hostname or "", unquote(url.username or "")
    # ssh(1) would take it for an option.
    if not re.match(r"[\w:]", host) or user.startswith("-") or url.password:
        raise SbxError("host.invalid", "an address by ssh has no password, and names begin with a letter or digit")
    where = (["-p", str(url.port)] if url.port else []) + (["-l", user] if user else [])
    folder = tempfile.mkdtemp(prefix="sbx-host-")
    control, forwarded = os.path.join(folder, "c"), os.path.join(folder, "g")
    master = subprocess.Popen(
        ["ssh", "-M", "-S", control, "-o", "ControlPersist=no", "-T", *where, "--", host, _remote_script(url)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def close() -> None:
        master.kill()
        master.wait()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(close)

    def lost(reason: str) -> SbxError:
        close()
        hint = f"try ssh {' '.join([*where, host])} sbx status"
        return SbxError("host.unreachable", f"sbx on {url.netloc} cannot be reached: {reason}", hint=hint)

    timer = threading.Timer(_CONNECT_SECONDS, master.kill)
    timer.start()
    assert master.stdout
    lines: list[str] = []
    while len(lines) < 2:
        line = master.stdout.readline(4096)
        if not line:
            break
        if line.strip():
            lines.append(line.strip())
    timer.cancel()
    if len(lines) < 2:
        raise lost("ssh ended, or sbx does not run there")
    port, token = lines
    if not re.fullmatch(r"\d{1,5}", port) or not re.fullmatch(r"[\w-]{16,}", token):
        raise lost("it gave no port and token of a gateway")
    forward = ["ssh", "-S", control, "-O", "forward", "-L", f"{forwarded}:127.0.0.1:{port}", *where, "--", host]
    if subprocess.run(forward, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode != 0:
        raise lost("ssh does not forward connections")
    return Endpoint(socket_path=forwarded, token=lambda again: token, close=close)


def _remote_script(url: SplitResult) -> str:
    """Prints port and token of the gateway on the other machine, then waits for the end of its input."""
    path = unquote(url.path)
    home = "" if path in ("", "/") else f"SBX_HOME={shlex.quote(path)}; export SBX_HOME; "
    return (
        home + "d=${SBX_HOME:-$HOME/.sbx}/run; "
        "command -v sbx >/dev/null && { sbx start >/dev/null || exit; }; "
        'cat "$d/gateway.port" && echo && cat "$d/gateway.token" && echo && exec cat >/dev/null'
    )
