/**
 * Serves the calls that the service sends to the process of a VM (docs/design/contracts/07-guest-wire.md §7).
 */
import { ignore, SbxError } from "../../lib/base/error/mod.ts";
import type { Call, Caller, ExecCall, GuestFileCall, Reply, SingleKind } from "../../lib/session/ipc/mod.ts";
import type { JobRunner, Jobs } from "../../lib/session/job/mod.ts";
import type { ConnectPort, PortRecorder, Ports, PortUser } from "../../lib/session/forward/mod.ts";
import { withdrawAnswer } from "../../lib/session/gate/mod.ts";
import type { Session } from "../../lib/session/mod.ts";
import type { ServiceGuest, Services } from "../../lib/session/services/mod.ts";
import { PORT_PROGRAM, type Viewer } from "../../lib/machine/guest/mod.ts";
import { timeLimit } from "../../lib/base/time/mod.ts";
import { log } from "../../lib/base/log/mod.ts";

type DecideCall = Extract<Call, { t: "DecideFile" }>;
type ForkCall = Extract<Call, { t: "Fork" }>;
type SingleCall = Exclude<Extract<Call, { t: SingleKind }>, DecideCall | ForkCall | JobCall | PortCall>;

/** One VM, and the other tasks of its process. */
interface Served {
  session: Session;
  jobs: Jobs;
  ports: Ports;
  services: Services;
}

/** Serves one call of the service. */
export async function serve(
  { session, jobs, ports, services }: Served,
  call: Call,
  caller: Caller,
): Promise<void> {
  switch (call.t) {
    case "Watch":
      return await serveWatch(session, caller);
    case "Exec":
      return await serveExec(session, call, caller);
    case "GuestFile":
      return await serveGuestFile(session, call, caller);
    case "DecideFile":
      return await serveDecision(session, call, caller);
    case "Terminal":
      return await serveTerminal(session, jobs, call, caller);
    case "Fork":
      return await serveFork(session, call, caller);
    case "JobFollow":
      return await followJob(jobs, call, caller);
    case "Ports":
    case "PortOpen":
    case "PortClose":
      return await caller.reply(await replyToPortCall(ports, call));
    case "Jobs":
    case "JobStart":
    case "JobStop":
    case "ServiceAct":
      return await caller.reply(await replyToJobCall(jobs, services, call));
    case "Stop":
      if (!call.force && session.info.state === "Running") {
        await services.settle().catch((error) => log.error(error));
      }
      return await caller.reply(await replyTo(session, call));
    default:
      await caller.reply(await replyTo(session, call));
      // The services of a new profile may take long to end and to start.
      if (call.t === "Refresh") void useServices(session, services);
  }
}

/** The reply to a call that has one. */
async function replyTo(session: Session, call: SingleCall): Promise<Reply> {
  switch (call.t) {
    case "Boot":
      await session.boot(call);
      return { t: "Info", info: session.info };
    case "Info":
      return { t: "Info", info: session.info };
    case "Pause":
      await session.pause();
      return { t: "Info", info: session.info };
    case "Resume":
      await session.resume();
      return { t: "Info", info: session.info };
    case "Suspend":
      await session.suspend(call.idle_ms);
      return { t: "Info", info: session.info };
    case "Idle":
      return { t: "Idle", ms: await session.idleMs() };
    case "Stop":
      await session.stop(call.force);
      return { t: "Info", info: session.info };
    case "AwaitEnd":
      await session.ended;
      return { t: "Info", info: session.info };
    case "AwaitFile":
      await session.awaitFile(call.path, call.size);
      return { t: "Ok" };
  }
  const enforcement = await session.enforcement;
  switch (call.t) {
    case "Lift":
      enforcement.responder.lift(call.by);
      return { t: "Info", info: session.info };
    case "Asks": {
      const { asks } = enforcement.gate;
      return { t: "Asks", asks: asks.pending(), decided: asks.decidedByRules() };
    }
    case "AsksInForce":
      return { t: "AsksInForce", asks: enforcement.gate.asks.inForce() };
    case "Resolve": {
      const { t: _, ask_id, digest, by, ...answer } = call;
      return { t: "Ask", ask: enforcement.gate.asks.resolve(ask_id, answer, by, digest) };
    }
    case "Withdraw":
      return { t: "Withdrawn", ask: withdrawAnswer(enforcement.gate, call.ask_id, call.by) };
    case "ObserveFile":
      enforcement.observeFile(call);
      return { t: "Ok" };
    case "Flush":
      await enforcement.recording.ledger.flush();
      return { t: "Ok" };
    case "Budgets":
      return { t: "Budgets", budgets: enforcement.gate.budgetUses() };
    case "Counters":
      return { t: "Counters", counters: enforcement.gate.counters() };
    case "Secrets":
      await enforcement.provide(call.secrets);
      return { t: "Ok" };
    case "Refresh":
      await enforcement.refresh();
      return { t: "Ok" };
    case "TurnKept":
      enforcement.turns.kept(call.turn);
      return { t: "Ok" };
    case "McpRefreshTools":
      await enforcement.refresh({ mcp: true });
      return { t: "Ok" };
  }
  const mcp = await enforcement.mcp();
  switch (call.t) {
    case "McpListServers":
      return { t: "McpServers", servers: await mcp.listServers() };
    case "McpListTools":
      return { t: "McpTools", tools: await mcp.listTools() };
    case "McpCallTool":
      return { t: "McpResult", result: await mcp.callTool(call.name, call.arguments, call.trace_id) };
    case "McpRecheck":
      mcp.recheck();
      return { t: "Ok" };
    case "McpProgramVm":
      mcp.assignVm(call.need, call);
      return { t: "Ok" };
  }
}

/** Copies the VM; a copy whose caller is gone is removed. */
async function serveFork(session: Session, { dir }: ForkCall, caller: Caller): Promise<void> {
  const { stillMs, event } = await session.fork(dir);
  await caller.reply({ t: "Forked", still_ms: stillMs, ...(event && { event }) }).catch(async (error) => {
    await Deno.remove(dir, { recursive: true }).catch(
      ignore("the caller has left; what stays is removed with the VMs that are left over"),
    );
    throw error;
  });
}

/** A person's answer may take long: a caller that goes away withdraws the question. */
async function serveDecision(session: Session, { t: _, ...file }: DecideCall, caller: Caller): Promise<void> {
  const gone = new AbortController();
  caller.input().finally(() => gone.abort());
  const decided = await (await session.enforcement).decideFile(file, gone.signal);
  await caller.reply({ t: "FileDecided", ...decided });
}

async function serveGuestFile(session: Session, call: GuestFileCall, caller: Caller): Promise<void> {
  const gone = new AbortController();
  const input = new CallInput(caller, true, gone);
  const { exit_code, truncated } = await session.guestFile(call, {
    output: (stream, data) => caller.reply({ t: "Output", stream, data }).catch(() => gone.abort()),
    input: () => input.next(),
  }, gone.signal);
  await caller.reply({ t: "FileDone", exit_code, truncated });
}

async function serveExec(session: Session, call: ExecCall, caller: Caller): Promise<void> {
  const gone = new AbortController();
  const input = new CallInput(caller, call.acks ?? false, gone);
  const outcome = await session.exec(call, {
    output: (stream, data) => caller.reply({ t: "Output", stream, data }).catch(() => gone.abort()),
    input: () => input.next(),
  }, gone.signal);
  await caller.reply({ t: "Exited", ...outcome });
}

/** Most events that wait for a slow watcher; further ones are dropped, and stay in the ledger. */
const BACKLOG = 1000;

/**
 * `ms` that heads wait for newer ones: with the way to the service, less than the 50 ms of
 * docs/design/contracts/12-ledger.md §12, "Witness".
 */
const HEADS_MS = 20;

/** Streams the news of the session to the service until that goes away. */
async function serveWatch(session: Session, caller: Caller): Promise<void> {
  let sent: Promise<void> = caller.reply({ t: "Info", info: session.info });
  const heads = newestHeads(session, (reply) => {
    sent = sent.then(() => caller.reply(reply())).catch(ignore("the watcher has left"));
  });
  let waiting = 0;
  const stop = session.watch((what) => {
    // The service compares the record once it hears of the end.
    heads.sendNow();
    if (waiting >= BACKLOG) return;
    waiting++;
    const reply = "state" in what
      ? { t: "Info" as const, info: what }
      : "turn" in what
      ? { t: "Turn" as const, ...what }
      : { t: "Notice" as const, type: what.type, payload: { ...what.payload } };
    sent = sent.then(() => caller.reply(reply)).catch(ignore("the watcher has left")).finally(() =>
      waiting--
    );
  });
  await Promise.race([caller.input(), session.ended]);
  stop();
  heads.stop();
  await sent;
}

/**
 * Sends the newest heads of a session's ledger. A service that takes nothing holds up one message, which has
 * the heads of the time when it goes out.
 *
 * @param send queues a message, which is made in its turn
 */
function newestHeads(session: Session, send: (make: () => Reply) => void) {
  let isQueued = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const queue = () => {
    timer = undefined;
    if (isQueued || !session.heads) return;
    isQueued = true;
    send(() => {
      isQueued = false;
      return { t: "Heads", heads: session.heads! };
    });
  };
  const sendNow = () => {
    if (timer === undefined) return;
    clearTimeout(timer);
    queue();
  };
  const unwatch = session.watchHeads(() => timer ??= setTimeout(queue, HEADS_MS));
  queue();
  return {
    sendNow,
    stop() {
      unwatch();
      sendNow();
    },
  };
}

type TerminalCall = Extract<Call, { t: "Terminal" }>;

/** Carries one viewer of the VM's terminal until the viewer leaves or the terminal ends. */
async function serveTerminal(
  session: Session,
  jobs: Jobs,
  { cols, rows, argv, job, trace_id }: TerminalCall,
  caller: Caller,
): Promise<void> {
  const terminal = job
    ? await jobs.terminal(job)
    : await session.terminal({ cols, rows }, argv && { argv }, trace_id);
  const over = Promise.withResolvers<void>();
  const viewer: Viewer = {
    write: (bytes) => caller.reply({ t: "Output", stream: "stdout", data: bytes.toBase64() }),
    end: (reason) => reason ? over.reject(reason) : over.resolve(),
  };
  // Attached: until then a client sends nothing (docs/design/contracts/02-http.md §2, "Terminal").
  await viewer.write(new Uint8Array());
  await terminal.attach(viewer);
  await terminal.resize(cols, rows);
  const typing = async () => {
    for (let input = await caller.input(); input !== null; input = await caller.input()) {
      if (input.t === "Data") await terminal.type(Uint8Array.fromBase64(input.data));
      if (input.t === "Resize") await terminal.resize(input.cols, input.rows);
    }
  };
  await Promise.race([over.promise, typing()]);
  terminal.detach(viewer);
  if (argv) await terminal.hangUp();
}

/**
 * Base64 characters of input that wait for a program (docs/design/contracts/14-limits.md §14); a whole
 * request with input has fewer.
 */
const WAITING_MAX = 16 * 1024 * 1024;

/**
 * Input of a call's program. It is read as it arrives, whether or not the program takes it: only the end of
 * its input shows that a caller has gone away.
 */
class CallInput {
  readonly #caller: Caller;
  /** null is the end of the input */
  readonly #pieces: (string | null)[] = [];
  #waiting = 0;
  #changed = Promise.withResolvers<void>();
  /** `bytes` of the last piece returned */
  #given = 0;
  readonly #acks: boolean;

  /**
   * @param acks sends the caller an acknowledgement of the data taken
   * @param left aborts when the caller has gone away
   */
  constructor(caller: Caller, acks: boolean, left: AbortController) {
    this.#caller = caller;
    this.#acks = acks;
    this.#read().finally(() => {
      left.abort();
      this.#add(null);
    });
  }

  /** The next piece, base64; acknowledges the one before. @returns null at the end */
  async next(): Promise<string | null> {
    if (this.#acks && this.#given > 0) {
      await this.#caller.reply({ t: "Taken", bytes: this.#given }).catch(
        ignore("the caller has left, which ends the input"),
      );
    }
    while (this.#pieces.length === 0) await this.#changed.promise;
    const piece = this.#pieces.shift()!;
    // The end is permanent.
    if (piece === null) this.#pieces.unshift(null);
    this.#given = piece === null ? 0 : Uint8Array.fromBase64(piece).length;
    this.#waiting -= piece?.length ?? 0;
    this.#wake();
    return piece;
  }

  async #read(): Promise<void> {
    for (let input = await this.#caller.input(); input !== null; input = await this.#caller.input()) {
      this.#add(input.t === "Data" ? input.data : null);
      while (this.#waiting > WAITING_MAX) await this.#changed.promise;
    }
  }

  #add(piece: string | null): void {
    this.#pieces.push(piece);
    this.#waiting += piece?.length ?? 0;
    this.#wake();
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}

type JobCall = Extract<Call, { t: "Jobs" | "JobStart" | "JobStop" | "ServiceAct" }>;
type FollowCall = Extract<Call, { t: "JobFollow" }>;

/** Longest wait for policy's decision, in `ms`: a person's answer may take longer. */
const DECISION_MS = timeLimit(5000);
/** Longest wait for the end of a stopped job, in `ms`: SIGKILL comes earlier. */
const STOP_MS = timeLimit(5000);
/** Size of a job's terminal until a person attaches. */
const SIZE = { cols: 80, rows: 24 };

/** Runs the programs of jobs in a session's guest. */
export function jobRunner(session: Session): JobRunner {
  return {
    scrub: async (value) => (await session.enforcement).scrub(value),
    exec: ({ tty: _, ...program }, streams, cancelled) =>
      session.exec({ t: "Exec", ...program, stdin: false }, streams, cancelled),
    async terminal({ argv, cwd, env, trace_id }, { decided, refused }, cancelled) {
      let refusal: string | undefined;
      try {
        return await session.terminal(SIZE, {
          argv,
          cwd,
          env,
          cancelled,
          decided(event_id, line) {
            refusal = line;
            decided(event_id, line === undefined);
          },
        }, trace_id);
      } catch (error) {
        if (!(error instanceof SbxError) || error.code !== "policy.blocked" || !refusal) throw error;
        refused(`${refusal}\n`);
        return undefined;
      }
    },
  };
}

/** The guest of a session's services. */
export function serviceGuest(session: Session): ServiceGuest {
  return {
    exec: jobRunner(session).exec,
    present: () => session.present(),
    listens: (port) => session.listens(port),
  };
}

/** Starts the services of the profile that a session enforces, and ends others. */
export async function useServices({ enforcement }: Session, services: Services): Promise<void> {
  await enforcement.then((each) => services.use(each.services)).catch((error) => log.error(error));
}

async function replyToJobCall(jobs: Jobs, services: Services, call: JobCall): Promise<Reply> {
  switch (call.t) {
    case "Jobs":
      return { t: "Jobs", jobs: await jobs.list() };
    case "JobStart": {
      const { t: _, ...program } = call;
      return { t: "Job", job: await jobs.start(program, DECISION_MS) };
    }
    case "JobStop":
      return { t: "Job", job: await jobs.stop(call.job, STOP_MS) };
    case "ServiceAct":
      return { t: "Job", job: await services.act(call.name, call.action) };
  }
}

/** Sends a job's output until the job ends, then its record; or until the caller leaves. */
async function followJob(jobs: Jobs, { job: id, from }: FollowCall, caller: Caller): Promise<void> {
  const job = await jobs.running(id);
  const gone = new AbortController();
  caller.input().finally(() => gone.abort());
  await job.follow(from, async ({ stream, bytes, missing }) => {
    if (missing > 0) await caller.reply({ t: "Missing", bytes: missing });
    await caller.reply({ t: "Output", stream, data: bytes.toBase64() });
  }, gone.signal);
  if (!gone.signal.aborted) await caller.reply({ t: "Job", job: job.record });
}

type PortCall = Extract<Call, { t: "Ports" | "PortOpen" | "PortClose" }>;

/** Connects to ports of a session's guest: policy decides on each connection, as on a program. */
export function portConnector(session: Session): ConnectPort {
  return async (port, streams, gone) => {
    const call = { t: "Exec" as const, argv: [PORT_PROGRAM, `${port}`], stdin: true };
    return (await session.exec(call, streams, gone)).exit_code;
  };
}

/** Records the ports of a session: rules on `sbx-port` apply from the opening on (docs/guides/ports.md). */
export function portRecorder({ enforcement }: Pick<Session, "enforcement">): PortRecorder {
  return {
    async opening(work) {
      return await (await enforcement).openPort(work);
    },
    closed(work, opened) {
      enforcement.then((each) => each.portClosed(work, opened)).catch((error) => log.warn(error));
    },
  };
}

async function replyToPortCall(ports: Ports, call: PortCall): Promise<Reply> {
  switch (call.t) {
    case "Ports":
      return { t: "Ports", ports: ports.list() };
    case "PortOpen":
      return { t: "Port", port: await ports.open(call.guest_port, userOf(call), call.host_port) };
    case "PortClose":
      return { t: "Port", port: ports.close(call.guest_port, userOf(call)) };
  }
}

function userOf({ client, trace_id }: PortUser): PortUser {
  return { client, ...(trace_id !== undefined && { trace_id }) };
}
