/**
 * Commands of Redis (RESP2 and RESP3): their frames, and the kind of each
 * (docs/design/contracts/05-policy.md §5, "Databases").
 */
import { joinBytes } from "../../base/bytes/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import { MessageFault } from "../fault.ts";
import { ARGUMENTS_MAX, STATEMENT_MAX } from "./limit.ts";
import commands from "./redis_commands.json" with { type: "json" };
import type { Reading, StatementKind } from "./statement.ts";

/** First bytes of answers with a string behind their line: strings, verbatim strings, long errors. */
export const BULK_MARKS = [0x24, 0x3d, 0x21];
/** Longest line with a length, in `bytes`. */
const LENGTH_LINE_MAX = 32;
/** Most arguments that a fingerprint shows. */
const SHOWN_MAX = 4;

/** A command as it came. */
export interface RedisCommand {
  args: Uint8Array[];
  bytes: Uint8Array;
}

/** Takes whole commands from a connection: arrays of strings, nothing else. */
export class CommandReader {
  readonly #connection: BufferedConnection;

  constructor(connection: BufferedConnection) {
    this.#connection = connection;
  }

  /** @returns `undefined` at the end of the connection @throws {MessageFault} */
  async next(): Promise<RedisCommand | undefined> {
    const head = await nextLine(this.#connection, LENGTH_LINE_MAX);
    if (!head) return undefined;
    const count = numberIn(head, 0x2a, ARGUMENTS_MAX);
    if (count === 0) throw new MessageFault("a command without a name");
    const args: Uint8Array[] = [];
    const pieces = [head];
    let size = head.length;
    while (args.length < count) {
      const line = await nextLine(this.#connection, LENGTH_LINE_MAX);
      if (!line) throw new MessageFault("half a command");
      const length = numberIn(line, 0x24, STATEMENT_MAX);
      size += line.length + length + 2;
      if (size > STATEMENT_MAX) throw new MessageFault(`a command of more than ${STATEMENT_MAX} bytes`);
      const piece = await this.#take(length + 2);
      if (piece[length] !== 0x0d || piece[length + 1] !== 0x0a) {
        throw new MessageFault("a string with a false length");
      }
      args.push(piece.subarray(0, length));
      pieces.push(line, piece);
    }
    return { args, bytes: joinBytes(pieces) };
  }

  async #take(count: number): Promise<Uint8Array> {
    const connection = this.#connection;
    while (connection.count < count) if (!await connection.fill()) throw new MessageFault("half a command");
    const bytes = connection.unread.slice(0, count);
    connection.skip(count);
    return bytes;
  }
}

/** Takes a line with its CRLF. @returns `undefined` at the end of the connection @throws {MessageFault} */
export async function nextLine(connection: BufferedConnection, max: number): Promise<Uint8Array | undefined> {
  let seen = 0;
  while (true) {
    const { unread } = connection;
    const end = unread.indexOf(0x0a, seen);
    if (end >= 0 && end < max) {
      if (end === 0 || unread[end - 1] !== 0x0d) throw new MessageFault("a line without CRLF");
      const line = unread.slice(0, end + 1);
      connection.skip(line.length);
      return line;
    }
    if (unread.length >= max) throw new MessageFault(`a line of more than ${max} bytes`);
    seen = unread.length;
    if (await connection.fill()) continue;
    if (connection.count > 0) throw new MessageFault("half a line");
    return undefined;
  }
}

function numberIn(line: Uint8Array, mark: number, max: number): number {
  const digits = new TextDecoder("latin1").decode(line.subarray(1, -2));
  if (line[0] !== mark || !/^(?:0|[1-9][0-9]{0,8})$/.test(digits) || Number(digits) > max) {
    throw new MessageFault("no command in the form of an array of strings");
  }
  return Number(digits);
}

/** Writes a command. */
export function commandBytes(args: readonly Uint8Array[]): Uint8Array {
  const text = (line: string) => new TextEncoder().encode(line);
  return joinBytes([
    text(`*${args.length}\r\n`),
    ...args.flatMap((arg) => [text(`$${arg.length}\r\n`), arg, text("\r\n")]),
  ]);
}

/**
 * Splits a HELLO into its login and the rest.
 * @throws {MessageFault} for one that servers could read in two ways
 */
export function readHello(args: readonly Uint8Array[]): { auth?: Uint8Array[]; others: Uint8Array[] } {
  const others = args.slice(0, 2);
  let auth: Uint8Array[] | undefined;
  for (let at = 2; at < args.length;) {
    const word = new TextDecoder("latin1").decode(args[at]).toUpperCase();
    const length = word === "AUTH" ? 3 : word === "SETNAME" ? 2 : 0;
    if (length === 0 || at + length > args.length || auth && word === "AUTH") {
      throw new MessageFault("a false HELLO");
    }
    if (word === "AUTH") auth = args.slice(at + 1, at + 3);
    else others.push(...args.slice(at, at + length));
    at += length;
  }
  return { ...(auth && { auth }), others };
}

const KINDS = new Map<string, StatementKind>(
  (["read", "write", "ddl"] as const).flatMap((kind) =>
    commands[kind].map((name): [string, StatementKind] => [name, kind])
  ),
);

/** Reads a command, by its name and the one of its subcommand; any that is not listed may do anything. */
export function readCommand(args: readonly Uint8Array[]): Reading {
  const [name, sub] = args.slice(0, 2).map((arg) =>
    new TextDecoder("latin1").decode(arg.subarray(0, 64)).toLowerCase()
  );
  const isWord = (text: string | undefined) => text !== undefined && /^[a-z0-9._-]{1,64}$/.test(text);
  const whole = `${name} ${sub}`;
  const kind = KINDS.get(name) ?? KINDS.get(whole) ?? "admin";
  const isContainer = CONTAINERS.has(name) && isWord(sub);
  const words = isWord(name) ? isContainer ? [name, sub] : [name] : ["?"];
  const others = args.length - words.length;
  const shown = Array.from({ length: Math.min(others, SHOWN_MAX) }, () => "?");
  return {
    kind,
    command: (isWord(name) ? name : "?").toUpperCase(),
    fingerprint: [...words, ...shown, ...(others > SHOWN_MAX ? ["…"] : [])].join(" "),
  };
}

/** Commands whose first argument is the name of a subcommand. */
const CONTAINERS = new Set([
  "acl",
  "client",
  "cluster",
  "command",
  "config",
  "function",
  "latency",
  "memory",
  "module",
  "object",
  "pubsub",
  "script",
  "slowlog",
  "xgroup",
  "xinfo",
]);
