/**
 * What sbx-process and sbx-pty-agent say to each other (contracts.md §7). Types only, so that the guest's bundle
 * carries nothing for them; the host validates what comes from the guest with `schema.ts`.
 */

/** vsock ports of the host, CID 2 (contracts.md §7). */
export const PORTS = {
  control: 5000,
  terminal: 5001,
  mcp: 5002,
  tcp: 5003,
  exec: 5005,
  activity: 5006,
  dns: 5007,
} as const;
/** CID of the host as the guest sees it. */
export const HOST_CID = 2;

/** One stage of the boot; milliseconds of the guest's uptime. */
export interface GuestStage {
  name: string;
  ms: number;
}

/** Control port, host to guest. */
export type HostMessage =
  | { t: "BootConfig"; epoch_ms: number }
  | { t: "SetEnv"; key: string; value: string }
  | { t: "FileWrite"; path: string; content: string; mode: number }
  | { t: "BootConfigDone" }
  | {
    t: "Exec";
    id: number;
    argv: string[];
    cwd?: string;
    env?: Record<string, string>;
    timeout_ms?: number;
    limit?: number;
    stdin: boolean;
  }
  | { t: "ExecKill"; id: number }
  | { t: "PtyOpen"; id: number; argv?: string[]; cols: number; rows: number }
  | { t: "PtyResize"; id: number; cols: number; rows: number }
  | { t: "AwaitFile"; id: number; path: string; size: number }
  | { t: "Shutdown" };

/** Control port, guest to host. */
export type GuestMessage =
  | { t: "Ready"; version: string }
  | { t: "BootReady"; stages: GuestStage[] }
  | { t: "BootFailed"; error: string }
  | {
    t: "ExecExited";
    id: number;
    exit_code: number;
    truncated: boolean;
    duration_ms: number;
    error?: string;
  }
  | { t: "PtyExited"; id: number; exit_code: number }
  | { t: "FileVisible"; id: number; visible: boolean };

/** Exec port: the guest's first frame, then frames of output one way and of stdin the other. */
export interface ExecStarted {
  t: "ExecStarted";
  id: number;
}

/**
 * A piece of a program's input or output. `end` closes stdin one way; the other way it says that no more output comes:
 * the end is told and not left to the connection's own, which a vhost-user vsock may lose.
 */
export interface StreamFrame {
  stream: "stdin" | "stdout" | "stderr";
  /** base64 */
  data?: string;
  end?: boolean;
}

/** Terminal port: the guest's one frame before raw bytes. */
export interface Attach {
  t: "Attach";
  id: number;
}

/** TCP port: the guest's one frame before the raw bytes of one connection. */
export interface Open {
  t: "Open";
  /** where the program connects to */
  host_ip: string;
  port: number;
  /** empty and 0 where it is not known */
  process_name: string;
  pid: number;
  /** names the connection in {@linkcode End} */
  stream: number;
}

/**
 * TCP port: on a connection of its own that holds nothing but this and {@linkcode Refused}, the guest says that a
 * program has ended its side of a connection after so many bytes. A vhost-user vsock tells no half-close, and a whole
 * one would lose the answer; a connection that ends without this was broken off.
 */
export interface End {
  t: "End";
  /** of {@linkcode Open}; the frame of that may come later */
  stream: number;
  bytes: number;
}

/**
 * TCP port, on the same connection as {@linkcode End}: the guest's kernel has refused a packet that is of no TCP
 * connection and no DNS. An addition to contracts.md §7, so that a try to get out leaves a record.
 */
export interface Refused {
  t: "Refused";
  /** IP protocol number, as IANA assigns them */
  protocol: number;
  /** where the packet was to go */
  host_ip: string;
  /** of protocols that have ports */
  port?: number;
  /** empty and 0 where it is not known */
  process_name: string;
  pid: number;
}

/** DNS port, both ways: queries, and their answers with the same id. */
export interface DnsFrame {
  id: number;
  /** base64 of the packet */
  raw: string;
  proto: "udp" | "tcp";
  /** empty where it is not known */
  process_name: string;
}

/** A program cannot be run: not there, not executable, or its directory is not there (contracts.md §2). */
export const EXIT_CANNOT_RUN = 126;
/** A program ran longer than it was given (contracts.md §2). */
export const EXIT_TIMED_OUT = 124;
