/** Parts of events for tests: complete and typed, so that a new field is added here only. */
import {
  type EventCommon,
  type EventType,
  type HttpEvent,
  httpPathClass,
  newEventId,
  type ProcessActivity,
} from "../../lib/event/mod.ts";

/** Common fields of an event. */
export function eventCommon(event_type: EventType, overrides: Partial<EventCommon> = {}): EventCommon {
  return {
    event_id: newEventId(),
    event_type,
    session_id: "session-1",
    vm_id: "vm-1",
    profile_id: "code",
    profile_revision: "1.0.0",
    timestamp_unix_ms: 1_700_000_000_000,
    sequence: 0,
    source_engine: "network",
    enforceability: "inline_blockable",
    actor: "vm",
    labels: {},
    ...overrides,
  };
}

/** HTTP request, GET https://example.com/ by default; `url` and `path_class` follow from the other fields. */
export function httpRequest(overrides: Partial<HttpEvent["request"]> = {}): HttpEvent["request"] {
  const { scheme = "https", host = "example.com", path = "/", query = "" } = overrides;
  return {
    method: "GET",
    scheme,
    host,
    port: 443,
    path,
    query,
    url: `${scheme}://${host}${path}${query && `?${query}`}`,
    path_class: httpPathClass(path),
    bytes: 0,
    headers: {},
    body: { state: "missing", truncated: false },
    ...overrides,
  };
}

/** Start of a program, `ls` by default; `command` and `argv` follow from `executable`. */
export function processExec(overrides: Partial<ProcessActivity> = {}): ProcessActivity {
  const { executable = "ls", command = executable } = overrides;
  return { operation: "exec", executable, command, argv: command.split(" "), cwd: "/root", ...overrides };
}
