/**
 * Wire between sbx-process and the guest's programs (docs/design/contracts/07-guest-wire.md §7). Types of the
 * guest's frames come from `schema.ts`, with which the host validates them.
 */
export type {
  ActivityFrame,
  ActivityHello,
  DnsFrame,
  ExecOutput,
  ExecStarted,
  GuestMessage,
  GuestStage,
  Note,
  PacketRefusal,
  StreamBlocked,
  StreamEnd,
  StreamOpen,
  TerminalAttach,
} from "../schema.ts";
import type { NamedPaths } from "../../../event/mod.ts";

/** vsock ports of the host, CID 2 (docs/design/contracts/07-guest-wire.md §7). */
export const PORTS = {
  control: 5000,
  terminal: 5001,
  mcp: 5002,
  tcp: 5003,
  exec: 5005,
  activity: 5006,
  dns: 5007,
} as const;
/** Most `bytes` of input in one frame. */
export const INPUT_PIECE = 24 * 1024;
/** Pipe on which the agent passes the host's keys on to sbx-activity. */
export const ACTIVITY_KEYS = "/run/sbx/activity-keys";
/** Line on the console of a guest that was copied: it is not the copy, and its programs may run. */
export const GO_ON = "sbx: go on";
/** CID of the host in the guest. */
export const HOST_CID = 2;

/**
 * Control port, host to guest. Ids are secrets of host and agent: no other
 * program of the guest may guess one.
 */
export type HostMessage =
  | {
    t: "BootConfig";
    epoch_ms: number;
    /** base64 of random bytes for the guest's kernel */
    seed: string;
    hostname: string;
    /** 32 hexadecimal digits, for /etc/machine-id */
    machine_id: string;
    /** users without root may make user namespaces */
    user_namespaces?: true;
  }
  | { t: "SetEnv"; key: string; value: string }
  /** One boot file; `content` is base64. */
  | { t: "FileWrite"; path: string; content: string; mode: number }
  | { t: "BootConfigDone" }
  /** Run a program; `limit` is `bytes` kept of each stream. */
  | {
    t: "Exec";
    id: string;
    argv: string[];
    cwd?: string;
    /** name or number, and the group after a colon; absent: root */
    user?: string;
    env?: Record<string, string>;
    timeout_ms?: number;
    limit?: number;
    stdin: boolean;
  }
  /** Report a program again that was left at a `Detach`: its output from here on, and its end. */
  | { t: "ExecAdopt"; id: string }
  /** End a program, also that of a terminal. */
  | { t: "ExecKill"; id: string }
  | {
    t: "PtyOpen";
    id: string;
    argv?: string[];
    cwd?: string;
    /** name or number, and the group after a colon; absent: root */
    user?: string;
    env?: Record<string, string>;
    cols: number;
    rows: number;
  }
  | { t: "PtyResize"; id: string; cols: number; rows: number }
  /** Hang its program up, as a closed window does. */
  | { t: "PtyClose"; id: string }
  /** Wait until a file of the workspace shows this size. */
  | { t: "AwaitFile"; id: string; path: string; size: number }
  /** For sbx-activity: report under this key. */
  | { t: "Activity"; key: string }
  /** Read the clock. */
  | { t: "Clock"; id: string }
  /** Move the clock forward, or back where it is negative. */
  | { t: "ClockShift"; ms: number }
  /** A machine that waits for its VM rehearses a boot, programs and a terminal. */
  | { t: "Rehearse" }
  /**
   * Stop all programs, then eject the vsock: the machine is written down. They go on at {@linkcode GO_ON} on
   * the console, or at the next `BootConfig`.
   */
  | { t: "Detach" }
  /** Write everything out and power off. */
  | { t: "Shutdown" };

/** Test of a file; it passes with one of the values. */
export interface FileProbe {
  field: "path" | "path_class" | "name" | "ext";
  op: "equals" | "prefix" | "suffix" | "contains";
  values: string[];
}

/** Activity port, host to guest; the first one is `Paths`. */
export type ActivityOrder =
  /** Classes of a profile, which decide the file events to report. */
  | { t: "Paths"; paths: NamedPaths }
  /**
   * Programs wait for an answer before they run, or do not, and before they open files to read or to write
   * them: any, none, or the files that pass one of these.
   */
  | { t: "Hold"; exec: boolean; read: boolean | FileProbe[]; write: boolean | FileProbe[] }
  /**
   * Of a `Permission`. With `always` the same file under the same path is allowed until the next `Hold`;
   * `text` is for the user of a program that may not run, or may not open a file.
   */
  | { t: "Answer"; id: number; allow: boolean; always?: boolean; text?: string };

/** Exec port, host to guest: base64 of a program's input, or its end. */
export type ExecInput = { stream: "stdin"; data: string } | { stream: "stdin"; end: true };

/**
 * Program of the agent that connects its streams to a port of the guest, its only argument
 * (docs/guides/ports.md).
 */
export const PORT_PROGRAM = "sbx-port";
/**
 * Program of the agent that reads and writes files of the guest: `stat`, `read`, `list`,
 * `write`, `folder` or `link`, a path.
 */
export const FILE_PROGRAM = "sbx-file";

/**
 * Exit code of a program that cannot run: missing, not executable, or without its directory
 * (docs/design/contracts/02-http.md §2).
 */
export const EXIT_CANNOT_RUN = 126;
/** Exit code of a program that exceeded its time limit (docs/design/contracts/02-http.md §2). */
export const EXIT_TIMED_OUT = 124;
