/** Log of who asked what: a file with one line for each question, each with the hash of the one before. */
import { join } from "node:path";
import { z } from "zod";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { lockWithin } from "../../base/home/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import { plain } from "../../base/print/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { writeAll } from "../../base/wire/mod.ts";
import { GENESIS } from "../../ledger/mod.ts";
import { HEX64 } from "../segment/mod.ts";

const LOCK_MS = timeLimit(10_000);
const text = z.string().max(4096);

/** A question, or a refusal. */
export const Asked = z.strictObject({
  schema: z.literal("sbx.fleet-asked.v1"),
  number: z.int().min(1),
  /** BLAKE3 of the line before */
  previous: z.string().regex(HEX64),
  at: z.iso.datetime(),
  subject: text,
  name: text.optional(),
  groups: z.array(text),
  /** `log in`, `asked` (this log), or a question */
  question: text,
  value: text.optional(),
  since: z.iso.datetime().optional(),
  /** teams that the answer is about; `*`: all */
  teams: z.array(text),
  outcome: z.enum(["allowed", "denied"]),
});
export type Asked = z.infer<typeof Asked>;

function pathOf(dir: string): string {
  return join(dir, "asked.jsonl");
}

/** Appends to the log of a store. */
export class AskedLog {
  readonly #dir: string;
  #tail: Promise<unknown> = Promise.resolve();

  constructor(dir: string) {
    this.#dir = dir;
  }

  /**
   * Appends a question; it is on disk before it is answered.
   *
   * @throws {SbxError} `fleet.store.unavailable`; `fleet.reader.denied`: the account
   * has more groups than a line holds
   */
  append(asked: Omit<Asked, "schema" | "number" | "previous" | "at">): Promise<void> {
    const done = this.#tail.then(() => this.#append(asked));
    this.#tail = done.catch(() => undefined);
    return done;
  }

  async #append(asked: Omit<Asked, "schema" | "number" | "previous" | "at">): Promise<void> {
    const path = pathOf(this.#dir);
    try {
      using file = await Deno.open(path, { create: true, read: true, write: true, mode: 0o600 });
      if (!await lockWithin(file, LOCK_MS)) throw new Error("it is locked");
      const { size } = await file.stat();
      const last = await lastLine(file, size);
      const { number } = last.text === "" ? { number: 0 } : Asked.parse(JSON.parse(last.text));
      const whole = Asked.parse({
        schema: "sbx.fleet-asked.v1",
        number: number + 1,
        previous: last.text === "" ? GENESIS : blake3(last.text),
        at: new Date().toISOString(),
        ...asked,
      });
      const line = new TextEncoder().encode(`${canonicalJson(whole)}\n`);
      // The next question must find all of it at the end of the file.
      if (line.length > LINE_MAX) {
        throw new SbxError(
          "fleet.reader.denied",
          "the account has more groups than the log of questions keeps",
          {
            hint: "let the provider send fewer: groups_claim of reader.toml names the claim",
          },
        );
      }
      // Half a line of a program that was killed was never acknowledged.
      await file.truncate(last.end);
      await file.seek(last.end, Deno.SeekMode.Start);
      try {
        await writeAll(file, line);
        await file.syncData();
      } catch (error) {
        await file.truncate(last.end);
        throw error;
      }
    } catch (cause) {
      if (cause instanceof SbxError) throw cause;
      throw new SbxError("fleet.store.unavailable", `the log of questions ${path} cannot be written`, {
        cause,
        hint: "nothing is answered that is not on record: free some space, or check the file",
      });
    }
  }
}

/** Most bytes of a line. */
const LINE_MAX = 64 * 1024;

/** The last whole line, and where it ends. */
async function lastLine(file: Deno.FsFile, size: number): Promise<{ text: string; end: number }> {
  const from = Math.max(0, size - 2 * LINE_MAX);
  await file.seek(from, Deno.SeekMode.Start);
  const bytes = new Uint8Array(size - from);
  for (let at = 0; at < bytes.length;) {
    const count = await file.read(bytes.subarray(at));
    if (count === null) break;
    at += count;
  }
  const end = bytes.lastIndexOf(10);
  if (end < 0) return { text: "", end: from };
  const start = bytes.subarray(0, end).lastIndexOf(10) + 1;
  return { text: new TextDecoder().decode(bytes.subarray(start, end)), end: from + end + 1 };
}

/** A line for a person. Values come from analysts, and names from accounts, which may choose them. */
export function shownAsked({ at, subject, name, question, value, teams, outcome }: Asked): string {
  const about = [question, value, teams.length > 0 ? `(${teams.join(", ")})` : undefined].filter(Boolean);
  const account = name === undefined ? subject : `${name} (${subject})`;
  return plain(`${at}  ${outcome.padEnd(7)}  ${account}  ${about.join(" ")}`);
}

/** Reads the log. @returns lines up to the first problem, oldest first */
export async function readAsked(dir: string): Promise<{ asked: Asked[]; problem?: string }> {
  const content = await ifFound(Deno.readTextFile(pathOf(dir))) ?? "";
  const asked: Asked[] = [];
  let previous: string = GENESIS;
  for (const line of content.split("\n").slice(0, -1)) {
    const parsed = Asked.safeParse(parse(line)).data;
    if (parsed?.number !== asked.length + 1 || parsed.previous !== previous) {
      return { asked, problem: `line ${asked.length + 1} does not follow the one before` };
    }
    asked.push(parsed);
    previous = blake3(line);
  }
  return { asked };
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
