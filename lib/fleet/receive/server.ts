/**
 * HTTP of a receiver: a few routes, each of which reads a bounded body of a possibly hostile machine. No
 * body is read before its head proves an enrolled machine.
 */
import { join } from "node:path";
import { joinBytes } from "../../base/bytes/mod.ts";
import { asSbxError, errorBody, ignore, SbxError, statusOf } from "../../base/error/mod.ts";
import { log } from "../../base/log/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { openUpload, type Upload } from "../ship/mod.ts";
import { type FleetServer, type Place, serveBehindFront } from "./front.ts";
import { enrol, enrolHome, type Machine } from "./machines.ts";
import { Receiver } from "./receiver.ts";
import { Blake3 } from "../../base/hash/mod.ts";
import { writeAll } from "../../base/wire/mod.ts";
import { storePaths } from "../store.ts";
import { z } from "zod";
import { StoreLog } from "../log/mod.ts";
import { HEX64, SEGMENT_BYTES_MAX } from "../segment/mod.ts";
import { formatPublicKey } from "../../release/signing/mod.ts";

/** Largest report and largest request of enrolment, in `bytes`. */
const REPORT_BYTES_MAX = 4 * 1024 * 1024;
const ENROL_BYTES_MAX = 4096;
/** Largest question for the log, in `bytes`. */
const LOG_BYTES_MAX = 1024;

/** State of the log that a machine saw last; size 0: none. */
const Seen = z.strictObject({ size: z.int().min(0), root: z.string().regex(HEX64) });
/** Time for the body of an enrolment, in `ms`. */
const ENROL_MS = timeLimit(10_000);
/**
 * Failed enrolments of one minute, after which others get no reason. A good token is taken after any number
 * of them: otherwise a stranger could keep machines out.
 */
const ENROL_FAILURES_MAX = 20;

export interface ServeOptions extends Place {
  /** the store's folder */
  dir: string;
  /** the store's receiver; absent: a new one */
  receiver?: Receiver;
  /** called after a segment was kept */
  onKept?(events: number): void;
}

/** Serves until it is shut down. */
export async function serveFleet(
  { dir, receiver = new Receiver(dir), onKept, ...place }: ServeOptions,
): Promise<FleetServer> {
  const failures = { minute: 0, count: 0 };
  const intake = await Intake.open(dir);
  const take = async <T>(
    request: Request,
    max: number,
    work: (bytes: Uint8Array) => Promise<T>,
  ) => {
    const path = new URL(request.url).pathname.slice(1);
    const upload = await openUpload(request.headers, path, (id) => receiver.keyOf(id));
    return await intake.take(upload, request.body, max, work);
  };
  const enrolling = async (request: Request, work: (body: unknown) => Promise<Machine>) => {
    const bytes = await readSmall(request, ENROL_BYTES_MAX);
    try {
      const { machine_id } = await work(JSON.parse(new TextDecoder().decode(bytes)));
      log.info(`machine ${machine_id} is enrolled`);
      return Response.json({ machine_id }, { status: 201 });
    } catch (error) {
      const minute = Math.floor(Date.now() / 60_000);
      if (failures.minute !== minute) Object.assign(failures, { minute, count: 0 });
      if (++failures.count > ENROL_FAILURES_MAX) {
        throw new SbxError("auth.too_many_failures", "too many enrolments failed in this minute", {
          hint: "try again in a minute",
        });
      }
      if (error instanceof SyntaxError) {
        throw new SbxError("fleet.machine.invalid", "the request is not JSON");
      }
      throw error;
    }
  };
  const routes: Record<string, (request: Request) => Promise<Response>> = {
    "POST /v1/segments": async (request) => {
      const answer = await take(request, SEGMENT_BYTES_MAX, (bytes) => receiver.take(bytes));
      if (!answer.kept) return Response.json({ position: answer.position }, { status: 409 });
      if (answer.isNew) onKept?.(answer.events);
      return Response.json({ kept: true }, { status: answer.isNew ? 201 : 200 });
    },
    "POST /v1/reports": async (request) => {
      await take(request, REPORT_BYTES_MAX, (bytes) => receiver.report(bytes, signerOf(bytes)));
      return Response.json({ kept: true }, { status: 201 });
    },
    "POST /v1/log": async (request) => {
      const { size, root, proof, signed } = await take(
        request,
        LOG_BYTES_MAX,
        (bytes) => StoreLog.of(dir).signedAnswer(parseSeen(bytes)),
      );
      return Response.json({
        size,
        root,
        ...(proof && { proof }),
        head: signed!.head,
        key: formatPublicKey(signed!.key),
      });
    },
    "POST /v1/machines": (request) => enrolling(request, (body) => enrol(dir, body)),
    "POST /v1/homes": (request) => enrolling(request, (body) => enrolHome(dir, body)),
    "GET /healthz": () => Promise.resolve(new Response("ok\n")),
  };
  return await serveBehindFront(place, async (request) => {
    const { pathname } = new URL(request.url);
    try {
      const route = routes[`${request.method} ${pathname}`];
      if (!route) throw new SbxError("route.not_found", `there is no ${request.method} ${pathname}`);
      return await route(request);
    } catch (cause) {
      const error = asSbxError(cause, `${request.method} ${pathname}`);
      const status = statusOf(error.code);
      if (status >= 500) log.error(`${error.message}${error.cause ? `: ${error.cause}` : ""}`);
      else log.warn(error.message);
      return Response.json(errorBody(error), {
        status,
        headers: status === 429 ? { "retry-after": "60" } : {},
      });
    }
  });
}

/** Machine that signed an envelope, by its own claim. @throws {SbxError} `fleet.report.invalid` */
export function signerOf(bytes: Uint8Array): string {
  try {
    return String(JSON.parse(new TextDecoder().decode(bytes)).signatures[0].keyid);
  } catch (cause) {
    throw new SbxError("fleet.report.invalid", "the report is refused: it is not signed", { cause });
  }
}

/** @throws {SbxError} `fleet.report.invalid` */
function parseSeen(bytes: Uint8Array) {
  try {
    return Seen.parse(JSON.parse(new TextDecoder().decode(bytes)));
  } catch (cause) {
    throw new SbxError("fleet.report.invalid", "the question names no state of the log", { cause });
  }
}

async function readSmall(request: Request, max: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  const reader = request.body?.getReader();
  const timer = setTimeout(() => reader?.cancel().catch(ignore("the sender has left")), ENROL_MS);
  try {
    while (reader && length <= max) {
      const { value, done } = await reader.read();
      if (done) break;
      chunks.push(value);
      length += value.length;
    }
  } finally {
    clearTimeout(timer);
    if (length > max) await reader?.cancel().catch(ignore("the sender has left"));
  }
  if (length > max) throw new SbxError("request.too_large", `the body has more than ${max} bytes`);
  return joinBytes(chunks);
}

// Incoming bodies go to the disk, not into memory, within a time limit and a limit on concurrent bodies.

/** Concurrent bodies, of all machines and of one (docs/design/contracts/14-limits.md §14). */
const UPLOADS_MAX = 64, UPLOADS_PER_MACHINE_MAX = 2;

/** Bodies that are in memory, to be verified. */
const OPEN_MAX = 2;

/** Time for a body: this, and a second for each `BYTES_PER_SECOND`. */
const BODY_MS = 30_000;

const BYTES_PER_SECOND_MIN = 32 * 1024;

/** Age in `ms` at which a killed receiver's file is removed. */
const ABANDONED_MS = 6 * 3_600_000;

/** Files of bodies, and the places for them. */
class Intake {
  readonly #dir: string;
  readonly #ofMachine = new Map<string, number>();
  #count = 0;
  #open = 0;
  readonly #waiting: (() => void)[] = [];

  private constructor(dir: string) {
    this.#dir = dir;
  }

  /**
   * Makes the folder, and removes leftovers of killed receivers.
   *
   * @param store the store's folder
   */
  static async open(store: string): Promise<Intake> {
    const intake = new Intake(storePaths(store).incoming);
    await Deno.mkdir(intake.#dir, { recursive: true, mode: 0o700 });
    await intake.#clear();
    return intake;
  }

  async #clear(): Promise<void> {
    for await (const { name } of Deno.readDir(this.#dir)) {
      const path = join(this.#dir, name);
      const { mtime } = await Deno.stat(path).catch(() => ({ mtime: null }));
      if (mtime && Date.now() - mtime.getTime() > ABANDONED_MS) {
        await Deno.remove(path).catch(ignore("another receiver removed it"));
      }
    }
  }

  /**
   * Receives a body, and passes it to `work`.
   *
   * @throws {SbxError} `fleet.busy`; `request.too_large`; `fleet.upload.invalid`: other bytes than the head
   * says; `request.timeout`; `fleet.store.unavailable`
   */
  async take<T>(
    upload: Upload,
    body: ReadableStream<Uint8Array> | null,
    max: number,
    work: (bytes: Uint8Array) => Promise<T>,
  ): Promise<T> {
    if (upload.length > max) {
      throw new SbxError("request.too_large", `the body has more than ${max} bytes`);
    }
    const { machine_id } = upload;
    const mine = this.#ofMachine.get(machine_id) ?? 0;
    if (this.#count >= UPLOADS_MAX || mine >= UPLOADS_PER_MACHINE_MAX) {
      throw new SbxError("fleet.busy", "the receiver is busy with other uploads", {
        hint: "try again in a minute",
      });
    }
    this.#count++;
    this.#ofMachine.set(machine_id, mine + 1);
    const path = join(this.#dir, crypto.randomUUID());
    try {
      await this.#receive(path, upload, body);
      return await this.#inTurn(async () => work(await Deno.readFile(path)));
    } finally {
      this.#count--;
      const left = this.#ofMachine.get(machine_id)! - 1;
      if (left > 0) this.#ofMachine.set(machine_id, left);
      else this.#ofMachine.delete(machine_id);
      await Deno.remove(path).catch(ignore("a later start removes it"));
    }
  }

  async #receive(path: string, upload: Upload, body: ReadableStream<Uint8Array> | null): Promise<void> {
    const hash = new Blake3();
    let length = 0;
    const reader = body?.getReader();
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      reader?.cancel().catch(ignore("the sender has left"));
    }, timeLimit(BODY_MS + upload.length / BYTES_PER_SECOND_MIN * 1000));
    try {
      using file = await Deno.open(path, { write: true, createNew: true, mode: 0o600 }).catch(unavailable);
      while (reader) {
        const { value, done } = await reader.read().catch(() => ({ value: undefined, done: true }));
        if (done) break;
        length += value!.length;
        if (length > upload.length) break;
        hash.update(value!);
        await writeAll(file, value!).catch(unavailable);
      }
    } finally {
      clearTimeout(timer);
      await reader?.cancel().catch(ignore("the sender has left"));
    }
    if (isLate) throw new SbxError("request.timeout", "the body came too slowly");
    if (length === upload.length && hash.digest() === upload.hash) return;
    throw new SbxError("fleet.upload.invalid", "the body is not the one that its head announced", {
      hint: "the machine sends it again",
    });
  }

  /** Runs work while few others run. */
  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#open >= OPEN_MAX) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#open++;
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#open--;
    }
  }
}

function unavailable(cause: unknown): never {
  throw new SbxError("fleet.store.unavailable", "the store cannot keep an upload", {
    cause,
    hint: "free some space, or check the permissions of the folder; machines send the rest again",
  });
}
