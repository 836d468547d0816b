"""VMs of sbx from programs: sandboxes under policy and record (docs/guides/sdk.md)."""

from ._asks import AskHandler
from ._async import AsyncAskHandler, AsyncFiles, AsyncPorts, AsyncProgram, AsyncPty, AsyncSandbox
from ._client import Client
from ._error import ProgramError, SbxError
from ._http import Cancel
from ._program import ExecResult, Exit, Program, Pty
from ._sandbox import Files, Ports, Sandbox, UnitPatch
from ._version import API_VERSION, SDK_VERSION

__all__ = [
    "API_VERSION",
    "AskHandler",
    "AsyncAskHandler",
    "AsyncFiles",
    "AsyncPorts",
    "AsyncProgram",
    "AsyncPty",
    "AsyncSandbox",
    "Cancel",
    "Client",
    "ExecResult",
    "Exit",
    "Files",
    "Ports",
    "ProgramError",
    "Program",
    "Pty",
    "SDK_VERSION",
    "Sandbox",
    "SbxError",
    "UnitPatch",
]
