/**
 * The thread that hashes and writes the rows of one ledger (docs/design/contracts/12-ledger.md §12), so that
 * no decision waits for a disk. Rows that could not be written are kept in order, and written by the next
 * flush.
 */
import { SbxError } from "../base/error/mod.ts";
import { Chain, removeSeal, writeSeal } from "./chain.ts";
import { fullError, ledgerError } from "./failure.ts";
import { type Opened, type Reply, type Request, toPlainError } from "./batch.ts";
import { BATCH_CHARS, BATCH_ROWS } from "./schema.ts";
import { Writer } from "./writer.ts";

/** `ms` that rows wait here for more rows. */
const GATHER_MS = 15;

const port = self as unknown as {
  postMessage(reply: Reply): void;
  onmessage: (message: { data: Request }) => void;
};

const HASH = /^[0-9a-f]{64}$/;

let path = "";
/** session that the ledger belongs to */
let owner = "";
let writer: Writer;
let chain: Chain;
let progress: Int32Array;
let failed = false;
let timer: ReturnType<typeof setTimeout> | undefined;

port.onmessage = async ({ data }) => {
  if (data.do === "write") return write(data);
  const { id } = data;
  try {
    port.postMessage({ id, value: await handle(data) });
  } catch (error) {
    port.postMessage({ id, error: toPlainError(ledgerError(error, path)) });
  }
};

function write({ rows }: Request & { do: "write" }): void {
  chain.add(rows);
  if (chain.rows >= BATCH_ROWS || chain.size >= BATCH_CHARS) writeOrReport();
  else timer ??= setTimeout(writeOrReport, GATHER_MS);
  Atomics.add(progress, 0, 1);
  Atomics.notify(progress, 0);
}

/** Does nothing after a failure until a requested flush succeeds. */
function writeOrReport(): void {
  if (failed) return;
  try {
    writeAll();
  } catch (error) {
    port.postMessage({ failed: toPlainError(ledgerError(error, path)) });
  }
}

function handle(request: Exclude<Request, { do: "write" }>): unknown {
  if (request.do === "open") return open(request);
  if (request.do === "limit") return writer.limit(request.maxBytes);
  if (request.do === "close") return close();
  writeAll();
  if (request.do === "last") return writer.last();
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
    // A chain that does not end in a hash cannot be continued to one that verifies.
    const ends = [heads.head_hash, heads.outcome_hash, heads.journal_hash];
    if (!ends.every((hash) => HASH.test(hash))) throw { code: "SQLITE_CORRUPT" };
    owner = sessionId;
    removeSeal(path);
    chain = new Chain(heads);
    reportHeads();
    return { events: heads.events, outcomes: heads.outcomes };
  } catch (error) {
    writer.close();
    throw error;
  }
}

/** @returns the text of the seal */
async function close(): Promise<string> {
  try {
    writeAll();
  } catch (error) {
    // A full ledger with all of its rows is sealed like any other.
    if (chain.rows > 0) throw error;
  }
  const folded = writer.fold();
  writer.close();
  return await writeSeal(path, owner, chain.heads, folded);
}

/** Reports the ends of the chains, all of whose rows are in the file. */
function reportHeads(): void {
  port.postMessage({ heads: chain.heads });
}

/**
 * @throws {SbxError} `ledger.full`: every row is written, and there is room for no more
 * @throws the database's error; unwritten rows stay in `chain`
 */
function writeAll(): void {
  clearTimeout(timer);
  timer = undefined;
  failed = true;
  if (chain.rows > 0) {
    writer.write(chain);
    reportHeads();
  }
  chain.clear();
  if (writer.isFull()) throw fullError(path);
  failed = false;
}
