"""A connection to one sbx."""

from __future__ import annotations

from typing import Any, Mapping

from ._address import find_endpoint
from ._http import Cancel, Http, query_of, require_path
from ._websocket import WebSocket


class Client:
    """A connection to one sbx: `host`, or SBX_HOST, or the socket of this machine's.

    host: `ssh://[user@]host[:port][/home]`, `http://127.0.0.1:PORT` or `https://host[:port]`; token or token_file:
    the token of the gateway behind an http or https host; home: of an sbx on this machine; socket: its path.
    """

    def __init__(
        self,
        host: str | None = None,
        *,
        token: str | None = None,
        token_file: str | None = None,
        home: str | None = None,
        socket: str | None = None,
    ) -> None:
        self.http = Http(
            find_endpoint(host=host, token=token, token_file=token_file, home=home, socket_path=socket)
        )

    def request(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> Any:
        """Sends a request of the API that Sandbox has no call for. Returns its JSON."""
        return self.http.json(method, path, query=query, body=body)

    def socket(
        self, path: str, query: Mapping[str, Any] | None = None, *, cancel: Cancel | None = None
    ) -> WebSocket:
        """Opens a WebSocket of the API."""
        require_path(path)
        return WebSocket(self.http, path + query_of(query), cancel)

    def close(self) -> None:
        """Ends the way to another machine."""
        self.http.endpoint.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
