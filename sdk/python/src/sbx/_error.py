"""Errors of sbx."""

from __future__ import annotations

import json


class SbxError(Exception):
    """Error of sbx, or of the way to it. Decide by `code`; show the text and `hint` to people."""

    def __init__(self, code: str, message: str, *, hint: str | None = None, status: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.status = status


class ProgramError(SbxError):
    """A program that ended with another exit code than 0, where that was not allowed (`check`)."""

    def __init__(self, exit_code: int, stdout: str, stderr: str, event_id: str) -> None:
        words = stderr.rstrip().split("\n")[-1]
        super().__init__("program.failed", f"the program ended with {exit_code}" + (f": {words}" if words else ""))
        self.exit_code = exit_code
        self.stdout = stdout
        self.stderr = stderr
        self.event_id = event_id


def answer_error(status: int, body: bytes) -> SbxError:
    """Error in an answer of the API."""
    try:
        answer = json.loads(body)
        if isinstance(answer["error"], str) and isinstance(answer["code"], str):
            return SbxError(answer["code"], answer["error"], hint=answer.get("hint"), status=status)
    except (ValueError, KeyError, TypeError):
        pass  # Not an answer of the API.
    return SbxError(
        "gateway.bad_answer",
        f"the gateway answered with status {status} and no reason",
        hint="restart it: sbx stop, then sbx start",
        status=status,
    )
