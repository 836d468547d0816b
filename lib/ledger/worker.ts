/**
 * The thread that hashes and writes the rows of one ledger (contracts.md §12), so that nobody who waits for a decision
 * waits for a disk. What could not be written is kept, in order, and is written with the next flush.
 */
import { SbxError } from "../base/error/mod.ts";
import { Chain } from "./chain.ts";
import { type Opened, plainError, type Reply, type Request } from "./message.ts";
import { removeSeal, writeSeal } from "./seal.ts";
import { ledgerError } from "./failure.ts";
import { BATCH_CHARS, BATCH_ROWS } from "./schema.ts";
import { Writer } from "./writer.ts";

/** How long rows wait here for more of them, in milliseconds. */
const GATHER_MS = 15;

const port = self as unknown as {
  postMessage(reply: Reply): void;
  onmessage: (message: { data: Request }) => void;
};

const HASH = /^[0-9a-f]{64}$/;

let path = "";
let writer: Writer;
let chain: Chain;
let progress: Int32Array;
let failed = false;
let timer: ReturnType<typeof setTimeout> | undefined;

port.onmessage = async ({ data }) => {
  if (data.do === "write") return write(data);
  const { id } = data;
  try {
    port.postMessage({ id, value: await answer(data) });
  } catch (error) {
    port.postMessage({ id, error: plainError(ledgerError(error, path)) });
  }
};

function write({ rows }: Request & { do: "write" }): void {
  chain.add(rows);
  if (chain.rows >= BATCH_ROWS || chain.size >= BATCH_CHARS) writeQuietly();
  else timer ??= setTimeout(writeQuietly, GATHER_MS);
  Atomics.add(progress, 0, 1);
  Atomics.notify(progress, 0);
}

/** Once this has failed, only a flush that somebody waits for mends it. */
function writeQuietly(): void {
  if (failed) return;
  try {
    writeAll();
  } catch (error) {
    port.postMessage({ failed: plainError(ledgerError(error, path)) });
  }
}

function answer(request: Exclude<Request, { do: "write" }>): unknown {
  if (request.do === "open") return open(request);
  if (request.do === "limit") return writer.limit(request.maxBytes);
  writeAll();
  if (request.do === "close") return close();
}

function open(request: Request & { do: "open" }): Opened {
  path = request.path;
  progress = new Int32Array(request.progress);
  writer = new Writer(path, request.maxBytes);
  try {
    const { sessionId, heads } = writer.open(request.sessionId);
    if (sessionId !== request.sessionId) {
      throw new SbxError("ledger.conflict", `the ledger ${path} belongs to session ${sessionId}`);
    }
    // On a chain that does not end in a hash nothing could be built that verifies.
    if (!HASH.test(heads.head_hash) || !HASH.test(heads.outcome_hash)) throw { code: "SQLITE_CORRUPT" };
    removeSeal(path);
    chain = new Chain(heads);
    return { events: heads.events, outcomes: heads.outcomes };
  } catch (error) {
    writer.close();
    throw error;
  }
}

async function close(): Promise<void> {
  const folded = writer.fold();
  writer.close();
  await writeSeal(path, chain.heads, folded);
}

/** @throws what the database throws; what was not written is still waiting then */
function writeAll(): void {
  clearTimeout(timer);
  timer = undefined;
  failed = true;
  if (chain.rows > 0) writer.write(chain);
  chain.written();
  failed = false;
}
