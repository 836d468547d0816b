"""Shapes of the API. Generated from schemas/api.v1.json by scripts/sdk_types.ts; do not edit."""

from __future__ import annotations

from typing import Any, Literal, TypedDict, Union


class _AskRequired(TypedDict):
    # the event's id and the first 8 characters of the digest
    ask_id: str
    # BLAKE3 of the ask and its event, which an answer repeats
    digest: str
    event_id: str
    session_id: str
    event_type: str
    # subject of the event on one line, cut where it is too long
    subject: str
    rule_id: str
    reason: str
    created_at: str
    expires_at: str
    status: Literal["pending", "allowed", "denied", "expired"]


class Ask(_AskRequired, total=False):
    # events that an answer for minutes or the session covers; absent: this event only
    covers: str
    # events that an answer for the whole host covers; absent: the event is of no host, or its name is too long
    covers_host: str
    # events that an answer for the request's path covers
    covers_path: str
    # events that an answer for the request's method covers
    covers_method: str
    # words of a program in the VM that asks for access; absent: no program has asked with a reason
    why: str
    # rule that decided the event when the rules changed, in place of a person
    by_rule: str


class AskList(TypedDict):
    asks: list[Ask]


class _AskResolveRequired(TypedDict):
    decision: Literal["allow", "deny"]
    scope: Literal["once", "session", "minutes"]
    # digest of the ask that the person read
    digest: str


class AskResolve(_AskResolveRequired, total=False):
    # required with scope minutes
    minutes: float
    # host: the answer covers all that the rule asks about the event's whole host; path: requests to its path and
    # below; method: requests of its method to the same scheme, host and port; not with scope once
    of: Literal["path", "method", "host"]
    # with of path: a folder of the request's path; absent: the path itself
    path: str


class BootStage(TypedDict):
    name: str
    ms: float


class _CostReportModelsItemRequired(TypedDict):
    provider: str
    model: str
    # answered calls
    calls: int
    input_tokens: int
    # input tokens read from a cache
    cached_input_tokens: int
    output_tokens: int
    # millionths of a US dollar, of the calls whose price is known
    cost_micros: int
    # calls with tokens whose price is not known
    unpriced_calls: int
    # calls at the price of another model, or at one that no source has
    estimated_calls: int


class CostReportModelsItem(_CostReportModelsItemRequired, total=False):
    # whose price these are at: the model's family, or the dearest of the provider; or that no source has its own
    price_basis: Literal["family", "dearest", "unchecked"]


class _CostReportDaysItemRequired(TypedDict):
    provider: str
    model: str
    # answered calls
    calls: int
    input_tokens: int
    # input tokens read from a cache
    cached_input_tokens: int
    output_tokens: int
    # millionths of a US dollar, of the calls whose price is known
    cost_micros: int
    # calls with tokens whose price is not known
    unpriced_calls: int
    # calls at the price of another model, or at one that no source has
    estimated_calls: int
    # UTC, as budgets count
    day: str


class CostReportDaysItem(_CostReportDaysItemRequired, total=False):
    # whose price these are at: the model's family, or the dearest of the provider; or that no source has its own
    price_basis: Literal["family", "dearest", "unchecked"]


class CostReportBudgetsItem(TypedDict):
    # profile: also limits that the VM was made with
    layer: Literal["corp", "profile"]
    # key of [budget]
    limit: str
    used: float
    max: float
    on_limit: Literal["ask", "block"]


class CostReport(TypedDict):
    # the table of prices, its date and its source
    prices: str
    # the most expensive first
    models: list[CostReportModelsItem]
    # costs by day and model, the oldest day first
    days: list[CostReportDaysItem]
    # limits of a running VM, with the amount used of each
    budgets: list[CostReportBudgetsItem]


class _DecisionRuleRequired(TypedDict):
    id: str
    name: str
    layer: Literal["corp", "profile", "default", "none"]


class DecisionRule(_DecisionRuleRequired, total=False):
    file: str
    line: int
    reason: str


class _DecisionMatchedFieldsItemRequired(TypedDict):
    path: str


class DecisionMatchedFieldsItem(_DecisionMatchedFieldsItemRequired, total=False):
    value: Any


class DecisionRewritesItem(TypedDict):
    rule_id: str
    op: str
    path: str


class _DecisionNearMissesItemRequired(TypedDict):
    rule_id: str
    # first clause that is false for this event, as it was written
    failed: str
    path: str


class DecisionNearMissesItem(_DecisionNearMissesItemRequired, total=False):
    # the event's value, if present
    value: Any


class DecisionAnsweredBy(TypedDict):
    # user of the host
    user: str
    # User-Agent of the request, cut to 128 characters
    client: str


class _DecisionAnsweredRequired(TypedDict):
    status: Literal["allowed", "denied", "expired"]
    # the ask of this event, or an earlier one whose answer covers it
    ask_id: str
    at: str
    # time from the ask to the answer
    waited_ms: float


class DecisionAnswered(_DecisionAnsweredRequired, total=False):
    scope: Literal["once", "session", "minutes"]
    minutes: float
    # the answer was for the whole host, the method at it, or the path and below
    of: Literal["path", "method", "host"]
    # folder of the path that an answer is for
    path: str
    # the guest was answered before the person: the ask waits for the next event like it
    open: Literal[True]
    # who answered
    by: DecisionAnsweredBy
    # rule that decided when the rules changed, in place of a person
    by_rule: str


class _DecisionRequired(TypedDict):
    event_id: str
    decision: Literal["allow", "ask", "block"]
    rule: DecisionRule
    # values are cut after 256 characters
    matched_fields: list[DecisionMatchedFieldsItem]
    rewrites: list[DecisionRewritesItem]
    # rules whose expression was evaluated
    evaluated: int
    # at most 3; failed: the clause as written
    near_misses: list[DecisionNearMissesItem]


class Decision(_DecisionRequired, total=False):
    # protocol that the connection is held to
    protocol: Literal["amqp", "git", "imap", "ldap", "mongodb", "mqtt", "mysql", "nats", "pop3", "postgres", "redis", "smtp", "ssh", "tls"]
    # smallest change that would allow the event; only on a denial
    remedy: str
    # answer to the ask of this event; expired: no answer came in time
    answered: DecisionAnswered


class _DeleteResultRequired(TypedDict):
    id: str
    deleted: Literal[True]


class DeleteResult(_DeleteResultRequired, total=False):
    # absent: it is gone
    restorable_until: str


class _ErrorRequired(TypedDict):
    # message for people
    error: str
    # stable code for programs
    code: str


class Error(_ErrorRequired, total=False):
    # suggested next step
    hint: str


class _EventsRequired(TypedDict):
    events: list[dict[str, Any]]


class Events(_EventsRequired, total=False):
    # ?cursor= of the next page; absent at the end
    next_cursor: str


class ExecLimits(TypedDict, total=False):
    # processes and threads at the same time
    processes: int
    # open files of each process
    open_files: int
    # largest file that is written, in MiB
    file_mb: int


class _ExecRequired(TypedDict):
    # a shell command line, or a list of a program and its arguments
    command: Union[str, list[str]]


class Exec(_ExecRequired, total=False):
    # default: the image's working directory, or /workspace
    cwd: str
    # name or number of a user of the guest, and the group after a colon; default: the image's user, or root
    user: str
    env: dict[str, str]
    # limits of this program, at most its VM's
    limits: ExecLimits
    timeout_secs: float
    stdin: str
    # default: utf8
    stdin_encoding: Literal["utf8", "base64"]


class _ExecResultRequired(TypedDict):
    stdout: str
    stderr: str
    exit_code: int
    # a stream exceeded 10 MiB and was cut
    truncated: bool
    duration_ms: float
    event_id: str


class ExecResult(_ExecResultRequired, total=False):
    # limits that the program has reached; absent: none
    limits_reached: list[Literal["processes", "file_mb"]]


class _FileEntryRequired(TypedDict):
    # relative to the workspace; absolute for other folders of the guest
    path: str
    type: Literal["file", "directory", "symlink", "other"]
    # bytes
    size: int
    # permission bits, octal
    mode: str
    modified_unix_ms: int


class FileEntry(_FileEntryRequired, total=False):
    # target of a symlink, as the guest wrote it
    target: str


class _FileListRequired(TypedDict):
    entries: list[FileEntry]
    # next_cursor has the next page
    truncated: bool
    # paths whose names are not UTF-8, those bytes as \xe9; they cannot be named in requests
    left_out: list[str]
    # all of them; left_out has at most 1,000
    left_out_count: int


class FileList(_FileListRequired, total=False):
    next_cursor: str


class _FileWrittenRequired(TypedDict):
    path: str
    size: int


class FileWritten(_FileWrittenRequired, total=False):
    # secrets of a .env file that the guest has refs for; size is that of the file with refs
    captured: int


class _FindingRequired(TypedDict):
    finding_id: str
    event_id: str
    rule_id: str
    pack_id: str
    title: str
    severity: Literal["info", "low", "medium", "high", "critical"]
    confidence: Literal["low", "medium", "high"]
    tags: list[str]


class Finding(_FindingRequired, total=False):
    sigma_id: str
    # sinks that its pack names; absent: all
    export_routes: list[str]


class ForkedFromEvent(TypedDict):
    id: str
    hash: str


class _ForkedFromRequired(TypedDict):
    session: str


class ForkedFrom(_ForkedFromRequired, total=False):
    # absent: it had no events
    event: ForkedFromEvent


class _JobServiceRequired(TypedDict):
    name: str
    # Waiting: for others, or for policy; Unhealthy: the image's health check fails; Restarting: it has ended, and
    # starts again; Done: it ended well and stays so
    state: Literal["Waiting", "Starting", "Ready", "Unhealthy", "Restarting", "Done", "Failed", "Stopped"]
    # since it was started
    restarts: int


class JobService(_JobServiceRequired, total=False):
    # what it waits for, or why it ended
    reason: str
    # exit code of its program's last end; absent: none yet, or unknown
    last_exit_code: int
    last_ended_at: str


class _JobRequired(TypedDict):
    id: str
    # arguments with refs in place of secrets, as in the record
    argv: list[str]
    tty: bool
    # Waiting: policy asks a person; Paused, Suspended: its VM is
    state: Literal["Waiting", "Running", "Paused", "Suspended", "Ended"]
    started_at: str
    # name of its VM
    vm: str


class Job(_JobRequired, total=False):
    cwd: str
    ended_at: str
    duration_ms: float
    # absent: unknown, or the job has not ended
    exit_code: int
    # reason of its end; absent if its program ended on its own
    reason: str
    # event of its start; absent until policy has decided
    event_id: str
    # absent: it is no service of the VM's profile
    service: JobService


class JobList(TypedDict):
    jobs: list[Job]


class JobLogs(TypedDict):
    stdout: str
    # empty for a job with a terminal
    stderr: str
    # bytes that are gone: the oldest, or ones that the disk had no space for
    missing_bytes: int
    # ?from= for the output after this
    next: int
    job: Job


class _JobStartRequired(TypedDict):
    # a shell command line, or a list of a program and its arguments
    command: Union[str, list[str]]


class JobStart(_JobStartRequired, total=False):
    # default: the image's working directory, or /workspace
    cwd: str
    # name or number of a user of the guest, and the group after a colon; default: the image's user, or root
    user: str
    env: dict[str, str]
    # not allowed with tty
    timeout_secs: float
    # the job runs on a terminal, which WS /terminal/{id}?job= attaches to
    tty: bool


class LogsLogsItem(TypedDict):
    name: str
    size_bytes: int
    truncated: bool
    lines: list[str]


class Logs(TypedDict):
    logs: list[LogsLogsItem]


class Port(TypedDict):
    # port that a program of the VM listens on
    guest_port: int
    # port of 127.0.0.1 on the host
    host_port: int
    # open connections
    connections: int


class _PortListRequired(TypedDict):
    ports: list[Port]


class PortList(_PortListRequired, total=False):
    # ports that the VM's image names, forwarded or not
    named: list[int]


class _PortOpenRequired(TypedDict):
    # port that a program of the VM listens on
    guest_port: int


class PortOpen(_PortOpenRequired, total=False):
    # default: the same, or a free one where that is taken
    host_port: int


class _ProfileInForceProjectItemRequired(TypedDict):
    action: Literal["block", "ask"]
    match: str
    id: str


class ProfileInForceProjectItem(_ProfileInForceProjectItemRequired, total=False):
    name: str
    reason: str
    # line of its table in the file
    line: int


class _ProfileInForceRequired(TypedDict):
    # revision that its events name
    revision: str
    # the profile's files have changed since; this VM still runs with the earlier ones
    outdated: bool


class ProfileInForce(_ProfileInForceRequired, total=False):
    # rules of the project file with which it was made: between corp's and the profile's
    project: list[ProfileInForceProjectItem]


class _RepositoryBringRequired(TypedDict):
    # folder of this host
    dir: str


class RepositoryBring(_RepositoryBringRequired, total=False):
    # its folder in the VM; default: a folder of the same name in /root
    place: str
    # bring files in that look like secrets, too
    with_secrets: bool
    # no changes come back
    is_read_only: bool


class _RepositoryBroughtRequired(TypedDict):
    # name for the routes of work
    name: str
    dir: str
    # its folder in the VM
    place: str
    is_repository: bool
    # uncommitted changes were brought in too
    has_changes: bool
    submodules: list[str]
    # files that look like secrets, and stayed on this host
    secrets_left_out: list[str]
    # files that look like secrets, and are in commits, so in the VM
    secrets_committed: list[str]
    left_out: list[str]


class RepositoryBrought(_RepositoryBroughtRequired, total=False):
    is_read_only: bool
    branch: str
    head: str
    # the VM has no git: the files went in without history
    is_plain: bool


class ServiceStatusVms(TypedDict):
    running: int
    total: int


class ServiceStatus(TypedDict):
    # there are no issues
    ok: bool
    version: str
    pid: int
    uptime_secs: float
    vms: ServiceStatusVms
    # problems, one line each, with the remedy
    issues: list[str]
    # state of each Deno permission of this process
    permissions: dict[str, str]


class _SessionListSessionsItemRequired(TypedDict):
    id: str
    name: str
    profile_id: str
    profile_revision: str
    created_at: str


class SessionListSessionsItem(_SessionListSessionsItemRequired, total=False):
    ended_at: str
    # user of the host; absent, as the next two: made by an older sbx
    user: str
    # name of the host
    device: str
    # program that asked for the VM, as it named itself
    client: str
    # profile of the agent that the VM was made for
    agent: str


class _SessionListRequired(TypedDict):
    sessions: list[SessionListSessionsItem]


class SessionList(_SessionListRequired, total=False):
    # ?cursor= of the next page; absent at the end
    next_cursor: str


class SignedCertificateSignaturesItem(TypedDict):
    keyid: str
    sig: str


class SignedCertificate(TypedDict):
    payloadType: str
    # base64 of the certificate, in JSON
    payload: str
    signatures: list[SignedCertificateSignaturesItem]


class SnapshotLeftOutItem(TypedDict):
    path: str
    why: str


class _SnapshotRequired(TypedDict):
    id: str
    kind: Literal["auto", "manual"]
    actor: Literal["host", "guest"]
    created_unix_ms: int
    files: int
    folders: int
    links: int
    # content of all files, without holes counted
    bytes: int
    # the first 20 entries that it does not have: devices, pipes, sockets, unreadable ones
    left_out: list[SnapshotLeftOutItem]
    left_out_count: int
    # files that changed while they were read
    changing: int
    # of its manifest, which has each path with its attributes and the BLAKE3 of its content
    blake3: str


class Snapshot(_SnapshotRequired, total=False):
    # of the one who made it, or the reason of an automatic one
    label: str


class SnapshotCreate(TypedDict, total=False):
    label: str


class SnapshotList(TypedDict):
    # oldest first
    snapshots: list[Snapshot]


class SnapshotRestore(TypedDict, total=False):
    # only these paths and everything below them; relative to the workspace, or below /workspace
    paths: list[str]


class SnapshotRestoredSnapshot(Snapshot):
    pass


class SnapshotRestoredBefore(Snapshot):
    pass


class _SnapshotRestoredChangesItemRequired(TypedDict):
    # relative to the workspace; bytes that are not UTF-8 as \xe9
    path: str
    change: Literal["created", "deleted", "modified", "mode"]
    # after the change; before it for a deleted entry
    type: Literal["file", "folder", "link", "other"]


class SnapshotRestoredChangesItem(_SnapshotRestoredChangesItemRequired, total=False):
    # bytes of a file
    size_before: int
    size_after: int


class SnapshotRestoredFailedItem(TypedDict):
    path: str
    why: str


class _SnapshotRestoredRequired(TypedDict):
    snapshot: SnapshotRestoredSnapshot
    # the first 10,000, by path
    changes: list[SnapshotRestoredChangesItem]
    changes_count: int
    # paths that were not put back
    failed: list[SnapshotRestoredFailedItem]


class SnapshotRestored(_SnapshotRestoredRequired, total=False):
    before: SnapshotRestoredBefore


class SnapshotUndo(TypedDict, total=False):
    # id of a snapshot, or of an event, before which the newest snapshot is taken; default: the newest snapshot that
    # differs from the workspace
    to: str
    # the newest snapshot that is not later than this; not with to
    before_unix_ms: int
    # only these paths and everything below them; relative to the workspace, or below /workspace
    paths: list[str]
    # report the changes without making them
    dry_run: bool


class Version(TypedDict):
    version: str
    build_hash: str
    build_time: Union[str, None]
    platform: str
    runtime: str


class VmLimits(TypedDict, total=False):
    # processes and threads at the same time
    processes: int
    # open files of each process
    open_files: int
    # largest file that is written, in MiB
    file_mb: int
    # processor time, in percent of one processor
    cpu_percent: int
    # rate of its disk, reads and writes together, in MiB/s
    disk_mb_per_s: int
    # rate of its network, both directions together, in MiB/s
    network_mb_per_s: int


class VmParent(TypedDict):
    id: str
    server: str


class VmDisk(TypedDict):
    # 0: the guest's writes stay in its memory
    size_gb: int
    # space that it takes on the host: blocks that the guest freed still count
    used_bytes: int


class VmResponseActionsItemCause(TypedDict):
    finding_id: str
    # sbx why shows it
    event_id: str
    rule_id: str
    severity: Literal["info", "low", "medium", "high", "critical"]
    title: str


class VmResponseActionsItem(TypedDict):
    action: Literal["snapshot", "ask", "block", "pause", "suspend"]
    # who demands it; default: sbx itself
    by: Literal["corp", "profile", "default"]
    cause: VmResponseActionsItemCause


class VmResponse(TypedDict):
    since_unix_ms: int
    actions: list[VmResponseActionsItem]
    # ids of snapshots, and answers that were not possible
    notes: list[str]


class _VmRequired(TypedDict):
    # also the id of its session
    id: str
    name: str
    profile_id: str
    status: VmStatus
    persistent: bool
    available_actions: list[Literal["exec", "shell", "stop", "start", "pause", "resume", "suspend", "fork", "save", "delete", "set"]]
    cpus: int
    ram_mb: int
    disk: VmDisk


class Vm(_VmRequired, total=False):
    # limits of the VM and of its programs; absent: none
    limits: VmLimits
    # the VM whose stdio MCP server runs in this one
    parent: VmParent
    # OCI image that is its root file system; absent: the profile's own
    image_reference: str
    # profile of the agent that works in it
    agent: str
    last_error: str
    # the health check of its image's program fails
    unhealthy: Literal[True]
    # of a suspended VM: an idle one resumes automatically on the next request
    suspended_by: Literal["person", "idle"]
    # what holds it back after a finding, until it is lifted
    response: VmResponse


class _VmCreateLiveRequired(TypedDict):
    # absolute path of a folder of this host
    dir: str


class VmCreateLive(_VmCreateLiveRequired, total=False):
    # the guest sees files that look like secrets too
    with_secrets: bool


class _VmCreateDevcontainerCommandsItemRunItemRequired(TypedDict):
    command: Union[str, list[str]]


class VmCreateDevcontainerCommandsItemRunItem(_VmCreateDevcontainerCommandsItemRunItemRequired, total=False):
    name: str


class VmCreateDevcontainerCommandsItem(TypedDict):
    name: Literal["onCreateCommand", "updateContentCommand", "postCreateCommand", "postStartCommand", "postAttachCommand"]
    # devcontainer.json, or the feature or image that brought it
    origin: str
    # run at the same time
    run: list[VmCreateDevcontainerCommandsItemRunItem]


class _VmCreateDevcontainerPortsItemRequired(TypedDict):
    port: int


class VmCreateDevcontainerPortsItem(_VmCreateDevcontainerPortsItemRequired, total=False):
    label: str


class _VmCreateDevcontainerRequired(TypedDict):
    # folder of the files, and of commands
    folder: str


class VmCreateDevcontainer(_VmCreateDevcontainerRequired, total=False):
    # user of programs; absent: the image's
    user: str
    # folders that are made for mounts of volumes
    volumes: list[str]
    commands: list[VmCreateDevcontainerCommandsItem]
    # forwarded when the VM starts
    ports: list[VmCreateDevcontainerPortsItem]


class VmCreateLimits(TypedDict, total=False):
    # processes and threads at the same time
    processes: int
    # open files of each process
    open_files: int
    # largest file that is written, in MiB
    file_mb: int
    # processor time, in percent of one processor
    cpu_percent: int
    # rate of its disk, reads and writes together, in MiB/s
    disk_mb_per_s: int
    # rate of its network, both directions together, in MiB/s
    network_mb_per_s: int


class _VmCreateProjectItemRequired(TypedDict):
    action: Literal["block", "ask"]
    match: str
    id: str


class VmCreateProjectItem(_VmCreateProjectItemRequired, total=False):
    name: str
    reason: str
    # line of its table in the file
    line: int


class VmCreateBudget(TypedDict, total=False):
    usd: float
    tokens: int
    requests: int
    bytes_out: int
    minutes: float
    # default ask
    on_limit: Literal["ask", "block"]
    # default block
    uncounted: Literal["block", "ask", "allow"]


class _VmCreateFoldersItemRequired(TypedDict):
    dir: str


class VmCreateFoldersItem(_VmCreateFoldersItemRequired, total=False):
    # the requests of its file are granted here, and a person must have approved them
    with_requests: bool


_VmCreateKeywords = TypedDict("_VmCreateKeywords", {"from": "str"}, total=False)


class VmCreate(_VmCreateKeywords, total=False):
    # default: the first free one of vm-1, vm-2, …
    name: str
    # default: code
    profile_id: str
    cpus: int
    ram_mb: int
    # size of the disk, sparse on the host; a copy's may be larger than its source's
    disk_gb: int
    # default: this machine's; the other one is emulated, and needs an image for it
    arch: Literal["arm64", "x86_64"]
    # default false: removed when it stops
    persistent: bool
    env: dict[str, str]
    # names of the profile's [host] services that the VM gets; default: all
    host_services: list[str]
    # OCI image that this home has (sbx image pull), such as golang:1.25; default: the profile's
    image: str
    # a folder of the host that the guest gets read-write, with masks
    live: VmCreateLive
    # profile of the agent that works in it, by which sbx agent finds it again
    agent: str
    # settings of a devcontainer.json for programs; a copy has its source's
    devcontainer: VmCreateDevcontainer
    # limits of the VM and of its programs, at most its profile's; a copy has its source's
    limits: VmCreateLimits
    # labels of the only keys that it uses, by provider; default: of each provider the one added last
    credentials: dict[str, str]
    # rules of the folder's project file, which can only take away; a copy has its source's
    project: list[VmCreateProjectItem]
    # limits of its session, beside its profile's; a copy has its source's
    budget: VmCreateBudget
    # longest wait for room, where the limits of VMs or of their memory are reached; default 0
    queue_secs: int
    # folders of this host that it will work on: the rules of their project files hold, and corp's word about them
    folders: list[VmCreateFoldersItem]


class VmFork(TypedDict, total=False):
    # name of the new VM; of several, with -1, -2, … behind it
    name: str
    # number of new VMs; default 1
    count: int
    # snapshot whose workspace they have, or number of a state whose repositories they have, with the disk as it is
    # now and without memory; default: the VM as it is
    at: str


class _VmForksRequired(TypedDict):
    vms: list[Vm]


class VmForks(_VmForksRequired, total=False):
    # time that a running source stood still
    still_ms: float


class VmListedFolderUntaken(TypedDict):
    commits: int
    files: int
    at: str


class _VmListedFolderRequired(TypedDict):
    # folder of this host
    dir: str
    # folder in the VM
    place: str


class VmListedFolder(_VmListedFolderRequired, total=False):
    # work that no pull took, as it was last compared; absent: not yet
    untaken: VmListedFolderUntaken


class VmListedRepositoriesItem(TypedDict):
    # name for sbx pull and the routes of work
    name: str
    # folder of this host
    dir: str
    # folder in the VM
    place: str
    # false: a folder without one
    is_repository: bool
    # no changes come back
    is_read_only: bool
    # the VM has the folder itself
    is_live: bool
    # branches that pulls have made or moved
    branches: list[str]


class VmListed(Vm, total=False):
    # absent: none was brought in
    folder: VmListedFolder
    # repositories and folders that were brought in, in that order; absent: none
    repositories: list[VmListedRepositoriesItem]
    # last write to its record; absent: none
    active_at: str
    # its process runs a program that was replaced since
    old_program: Literal[True]


class VmInfoImageBefore(TypedDict, total=False):
    reference: str
    digest: str


class _VmInfoImageRequired(TypedDict):
    version: str


class VmInfoImage(_VmInfoImageRequired, total=False):
    profile_id: str
    # OCI image that is its root file system; absent: the profile's own
    reference: str
    # digest of that image's manifest
    digest: str
    # TCP ports that the image names
    ports: list[int]
    # image that it had before, and can go back to; without a reference, that of its profile
    before: VmInfoImageBefore
    # its first start with another image, whose conflicts are listed
    is_new: Literal[True]


class _VmInfoDevcontainerCommandsItemRunItemRequired(TypedDict):
    command: Union[str, list[str]]


class VmInfoDevcontainerCommandsItemRunItem(_VmInfoDevcontainerCommandsItemRunItemRequired, total=False):
    name: str


class VmInfoDevcontainerCommandsItem(TypedDict):
    name: Literal["onCreateCommand", "updateContentCommand", "postCreateCommand", "postStartCommand", "postAttachCommand"]
    # devcontainer.json, or the feature or image that brought it
    origin: str
    # run at the same time
    run: list[VmInfoDevcontainerCommandsItemRunItem]


class _VmInfoDevcontainerPortsItemRequired(TypedDict):
    port: int


class VmInfoDevcontainerPortsItem(_VmInfoDevcontainerPortsItemRequired, total=False):
    label: str


class _VmInfoDevcontainerRequired(TypedDict):
    # folder of the files, and of commands
    folder: str


class VmInfoDevcontainer(_VmInfoDevcontainerRequired, total=False):
    # user of programs; absent: the image's
    user: str
    # folders that are made for mounts of volumes
    volumes: list[str]
    commands: list[VmInfoDevcontainerCommandsItem]
    # forwarded when the VM starts
    ports: list[VmInfoDevcontainerPortsItem]


class VmInfoLive(TypedDict):
    # folder of the host
    dir: str
    # folder in the guest
    place: str
    is_repository: bool


class _VmInfoRequired(VmListed):
    created_at: str
    session_id: str
    arch: Literal["arm64", "x86_64"]
    hypervisor: str
    features: dict[str, bool]
    # path of the shared folder on the host
    workspace: str
    # path of the VM's log folder on the host
    logs: str
    # stages, in ms since the boot began
    boot_stages: list[BootStage]


class VmInfo(_VmInfoRequired, total=False):
    # image that it booted; without a profile: pinned by its own, or for every profile
    image: VmInfoImage
    devcontainer: VmInfoDevcontainer
    # labels of the only keys that it uses, by provider; default: of each provider the one added last
    credentials: dict[str, str]
    # kvm, tcg, or vz on a Mac; absent before the first boot
    accelerator: str
    forked_from: ForkedFrom
    # absent before the first boot
    started_by: Literal["cold", "template", "resume", "fork"]
    # why it did not start from memory, or the reason a suspended VM resumed
    started_why: str
    # pid of the VM's sbx-process
    pid: int
    # absent: the guest has no folder of the host
    live: VmInfoLive
    profile_in_force: ProfileInForce
    # its profile, image and detection packs, where their publisher deprecated or revoked them, one sentence each
    deprecated: list[str]


VmStatus = Literal["Booting", "Running", "Paused", "Stopped", "Suspended", "Defunct"]


class WhyDecision(Decision):
    pass


class _WhyRequired(TypedDict):
    event: dict[str, Any]
    findings: list[Finding]


class Why(_WhyRequired, total=False):
    decision: WhyDecision


class WorkPatchUnitsItem(TypedDict):
    # name of the repository or folder in the VM
    repository: str
    # the unit on this host
    dir: str
    # path of a submodule in the folder; empty for the folder itself
    path: str
    # base64 of a patch for git apply; empty: nothing changed
    patch: str


class WorkPatch(TypedDict):
    units: list[WorkPatchUnitsItem]
