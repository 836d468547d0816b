"""Answers to the asks of one VM."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, Callable, Union
from urllib.parse import quote

from ._error import SbxError
from ._http import Cancel
from .types import Ask

if TYPE_CHECKING:
    from ._client import Client

# At once "allow" or "deny" for this event alone, or an answer that covers more: {"decision": …, "scope": …}.
AskCallback = Callable[[Ask], Union[str, "dict[str, Any]"]]

# Pause before a broken connection is made again, in seconds.
_AGAIN = 0.5


class AskHandler:
    """Answers asks until it is closed. A callback that throws denies its ask; `close` throws that error."""

    def __init__(self, client: Client, session: str, callback: AskCallback) -> None:
        self._client = client
        self._session = session
        self._callback = callback
        self._answered: set[str] = set()
        self._stop = Cancel()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="sbx-asks", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set:
            try:
                socket = self._client.socket("/events", cancel=self._stop)
                try:
                    # Asks that were there before.
                    self._answer_all()
                    for message in socket:
                        news = json.loads(message)
                        ask = news["payload"]
                        if news["type"] == "ask" and ask["session_id"] == self._session and ask["status"] == "pending":
                            self._answer_all()
                finally:
                    socket.close()
            except SbxError:
                pass  # The service restarts: asks wait meanwhile.
            self._stop.event.wait(_AGAIN)

    def _answer_all(self) -> None:
        for ask in self._client.http.json("GET", "/asks", cancel=self._stop)["asks"]:
            if ask["session_id"] == self._session and ask["ask_id"] not in self._answered:
                self._answer(ask)

    def _answer(self, ask: Ask) -> None:
        self._answered.add(ask["ask_id"])
        answer: str | dict[str, Any] = "deny"
        try:
            answer = self._callback(ask)
        except Exception as error:
            self._failure = self._failure or error
        body = {"decision": answer, "scope": "once"} if isinstance(answer, str) else dict(answer)
        try:
            path = f"/asks/{quote(ask['ask_id'], safe='')}/resolve"
            self._client.http.json("POST", path, body={**body, "digest": ask["digest"]}, cancel=self._stop)
        except SbxError as error:
            # Answered elsewhere, expired, or its VM has ended: there is nothing to answer.
            if error.code.startswith("ask."):
                return
            self._answered.discard(ask["ask_id"])
            if error.code not in ("gateway.unreachable", "service.unreachable", "call.cancelled"):
                self._failure = self._failure or error
            raise

    def close(self) -> None:
        """Ends the answering."""
        self._stop()
        self._thread.join()
        if self._failure:
            raise self._failure

    def __enter__(self) -> AskHandler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
