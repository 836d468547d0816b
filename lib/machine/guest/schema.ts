/**
 * Frames of the guest (docs/design/contracts/07-guest-wire.md §7), schemas and types. Its bytes are hostile:
 * any other frame closes the connection.
 */
import { z } from "zod";
import { isAddress } from "../../base/address/mod.ts";
import {
  ACTIVITY_LIMITS,
  CONTAINER_ID,
  CONTAINER_NAME,
  ERROR_CHARACTERS,
  IMAGE_NAME,
  INLINE_BYTES,
  INPUT_WINDOW,
} from "./wire/limit.ts";

/** Longest base64 of a piece of output on the control port, in characters. */
const INLINE_CHARACTERS = Math.ceil(INLINE_BYTES / 3) * 4;

const id = z.int().nonnegative();
/** id of a program, a terminal or a wait for a file, made by the host */
const secretId = z.string().regex(/^[0-9a-f]{32}$/);

/** One stage of the boot; `ms` of the guest's uptime. */
const GuestStage = z.strictObject({ name: z.string().max(64), ms: z.number() });
export type GuestStage = z.infer<typeof GuestStage>;

/** Control port, guest to host. */
export const GuestMessage = z.discriminatedUnion("t", [
  z.strictObject({ t: z.literal("Ready"), version: z.string().max(64) }),
  z.strictObject({ t: z.literal("BootReady"), stages: z.array(GuestStage).max(32) }),
  z.strictObject({ t: z.literal("BootFailed"), error: z.string().max(ERROR_CHARACTERS) }),
  /** it ended; `inline`: it had no connection of its own; `error`: it could not be run */
  z.strictObject({
    t: z.literal("ExecExited"),
    id: secretId,
    exit_code: z.int().min(0).max(255),
    truncated: z.boolean(),
    duration_ms: z.number(),
    inline: z.boolean().optional(),
    error: z.string().max(ERROR_CHARACTERS).optional(),
  }),
  /** a piece of its output, base64; at most 4096 bytes of a program */
  z.strictObject({
    t: z.literal("ExecInline"),
    id: secretId,
    stream: z.enum(["stdout", "stderr"]),
    data: z.base64().max(INLINE_CHARACTERS),
  }),
  /** the program, or that of a terminal, is this process */
  z.strictObject({ t: z.literal("Running"), id: secretId, pid: id }),
  z.strictObject({ t: z.literal("PtyExited"), id: secretId, exit_code: z.int().min(0).max(255) }),
  z.strictObject({ t: z.literal("FileVisible"), id: secretId, visible: z.boolean() }),
  /** as it was when the question came */
  z.strictObject({ t: z.literal("Clock"), id: secretId, epoch_ms: z.number() }),
]);
export type GuestMessage = z.infer<typeof GuestMessage>;

/**
 * Exec port: the guest's first frame; {@linkcode ExecOutput} follows after
 * `inline` pieces on the control port.
 */
export const ExecStarted = z.strictObject({
  t: z.literal("ExecStarted"),
  id: secretId,
  inline: z.int().min(0).max(INLINE_BYTES).optional(),
});
export type ExecStarted = z.infer<typeof ExecStarted>;

/**
 * Output of a program, base64. `end` marks the end of both streams: a vhost-user vsock may lose the end of
 * the connection. `taken` are `bytes` of input that the program has, or never will.
 */
export const ExecOutput = z.union([
  z.strictObject({ stream: z.literal("stdin"), taken: z.int().positive().max(INPUT_WINDOW) }),
  z.strictObject({ stream: z.enum(["stdout", "stderr"]), data: z.base64() }),
  z.strictObject({ stream: z.literal("stdout"), end: z.literal(true) }),
]);
export type ExecOutput = z.infer<typeof ExecOutput>;

/** Terminal port: the guest's only frame, before raw bytes. */
export const TerminalAttach = z.strictObject({ t: z.literal("Attach"), id: secretId });
export type TerminalAttach = z.infer<typeof TerminalAttach>;

const port = z.int().min(1).max(65_535);
/** empty for an unknown process; its pid is 0 then */
const processName = z.string().max(64);
/** of a process, as its engine names it */
const container = z.strictObject({
  id: z.string().regex(CONTAINER_ID),
  name: z.string().regex(CONTAINER_NAME).optional(),
  image: z.string().regex(IMAGE_NAME).optional(),
}).optional().describe("absent: it is in none, or that is not known");
/** no name: `face.cc` has the letters of an address too, and would be looked up */
const address = z.string().max(45).refine(isAddress);

/** TCP port: the guest's only frame, before the raw bytes of one connection to `host_ip`. */
export const StreamOpen = z.strictObject({
  t: z.literal("Open"),
  host_ip: address,
  port,
  process_name: processName,
  pid: id,
  container,
  stream: id.describe("names the connection in StreamEnd"),
});
export type StreamOpen = z.infer<typeof StreamOpen>;

/**
 * TCP port, on a separate connection for notes: a program has closed its side of connection `stream` after
 * `bytes`. A vhost-user vsock signals no half-close, and a full close would lose the answer; a connection
 * that ends without this was broken off. May arrive before its {@linkcode StreamOpen}.
 */
export const StreamEnd = z.strictObject({ t: z.literal("End"), stream: id, bytes: id });
export type StreamEnd = z.infer<typeof StreamEnd>;

/**
 * TCP port, on the connection for notes: the guest's kernel has refused a packet that belongs neither to a
 * TCP connection nor to DNS, so that the attempt leaves a record.
 */
export const PacketRefusal = z.strictObject({
  t: z.literal("Refused"),
  protocol: z.int().min(0).max(255).describe("IP protocol number of IANA"),
  host_ip: address.describe("destination"),
  port: z.int().min(0).max(65_535).optional(),
  process_name: processName,
  pid: id,
  container,
});
export type PacketRefusal = z.infer<typeof PacketRefusal>;

/**
 * TCP port, on the connection for notes, to the guest: policy refuses connection `stream`, which the guest
 * resets; it writes `text` into its log.
 */
export const StreamBlocked = z.strictObject({
  t: z.literal("Blocked"),
  stream: id,
  text: z.string().max(1024).describe("one line"),
});
export type StreamBlocked = z.infer<typeof StreamBlocked>;

/** Frames of the connection for notes. */
export const Note = z.discriminatedUnion("t", [StreamEnd, PacketRefusal]);
export type Note = z.infer<typeof Note>;

/** DNS port, both ways: a query or its answer with the same id. */
export const DnsFrame = z.strictObject({
  id,
  raw: z.base64().max(88_000).describe("packet of 64 KB at most"),
  proto: z.enum(["udp", "tcp"]),
  process_name: processName,
  container,
});
export type DnsFrame = z.infer<typeof DnsFrame>;

/** Activity port: the guest's first frame, with the key that the host gave its agent. */
export const ActivityHello = z.strictObject({ t: z.literal("Activity"), key: secretId });
export type ActivityHello = z.infer<typeof ActivityHello>;

const words = z.string().max(ACTIVITY_LIMITS.characters);
/** A process, and its program as it was started. */
const program = {
  pid: id,
  ppid: id.describe("nearest ancestor that runs a program of its own"),
  uid: id.describe("user that it acts as"),
  executable: words,
  argv: z.array(z.string().max(ACTIVITY_LIMITS.argvCharacters)).max(ACTIVITY_LIMITS.args),
  cwd: words.describe("empty where it is not known"),
  container,
  truncated: z.literal(true).optional().describe("`argv` lacks some of its end"),
};

/** Activity port, guest to host: the guest kernel's reports on its programs. */
export const ActivityFrame = z.discriminatedUnion("t", [
  z.strictObject({ t: z.literal("Process"), ...program }).describe("it ran before the report began"),
  z.strictObject({ t: z.literal("Started"), processes: id, files: z.boolean().describe("files are told of") })
    .describe("from here on the report is whole"),
  z.strictObject({ t: z.literal("Exec"), ...program, started_ms: z.number() }),
  z.strictObject({
    t: z.literal("Exit"),
    pid: id,
    exit_code: z.int().min(0).max(255),
    signal: z.int().min(0).max(127).describe("0: it ended by itself"),
    duration_ms: z.number().optional().describe(
      "since its first exec; absent: it ran before the report began",
    ),
  }),
  z.strictObject({
    t: z.literal("File"),
    operation: z.enum(["create", "write", "delete", "rename", "read"]),
    path: words.describe("of a rename the new one; begins with … where it is not whole"),
    from: words.optional().describe("path before a rename"),
    pid: id,
    bytes: z.int().min(0).optional().describe("size of what was written"),
  }),
  z.strictObject({ t: z.literal("Listen"), port: z.int().min(1).max(65_535) }).describe(
    "a program listens on a TCP port, told once",
  ),
  z.strictObject({ t: z.literal("Holding"), exec: z.boolean(), open: z.boolean() }).describe(
    "answers `Hold`: it is so from here on",
  ),
  z.discriminatedUnion("kind", [
    z.strictObject({
      t: z.literal("Permission"),
      id,
      kind: z.literal("exec"),
      ...program,
      opened: words.optional().describe(
        "the file itself, where `executable` is a link to it, or a script that it runs",
      ),
      hidden: z.literal(true).optional().describe(
        "a file that rules may name was opened by a mount that does not say which one",
      ),
    }).describe("a program waits to be run; sent again to another host"),
    z.strictObject({
      t: z.literal("Permission"),
      id,
      kind: z.literal("open"),
      ...program,
      operations: z.array(z.enum(["read", "write"])).min(1).max(2).describe("both where it may be either"),
      path: words,
      hidden: z.literal(true).optional().describe(
        "a file that rules may name was opened by a mount that does not say which one",
      ),
    }).describe("a program waits to open a file; sent again to another host"),
  ]),
  z.strictObject({ t: z.literal("Gap"), why: words }).describe("something is missing in the report"),
]);
export type ActivityFrame = z.infer<typeof ActivityFrame>;
