import type { Call, Caller, ExecCall, GuestFileCall, Reply, SingleKind } from "../../lib/session/ipc/mod.ts";
import type { Jobs } from "../../lib/session/job/mod.ts";
import type { Ports } from "../../lib/session/forward/mod.ts";
import type { Session } from "../../lib/session/mod.ts";
import { CallInput } from "./input.ts";
import { followJob, type JobCall, replyToJobCall } from "./jobs.ts";
import { type PortCall, replyToPortCall } from "./ports.ts";
import { serveTerminal } from "./terminal.ts";
import { serveWatch } from "./watch.ts";

type DecideCall = Extract<Call, { t: "DecideFile" }>;
type ForkCall = Extract<Call, { t: "Fork" }>;
type SingleCall = Exclude<Extract<Call, { t: SingleKind }>, DecideCall | ForkCall | JobCall | PortCall>;

/** One VM, and what its process does beside running it. */
export interface Served {
  session: Session;
  jobs: Jobs;
  ports: Ports;
}

/** Serves one call of the service. */
export async function serve({ session, jobs, ports }: Served, call: Call, caller: Caller): Promise<void> {
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
      return await caller.reply(await replyToJobCall(jobs, call));
    default:
      await caller.reply(await replyTo(session, call));
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
    case "Asks":
      return { t: "Asks", asks: enforcement.gate.asks.pending() };
    case "Resolve": {
      const { t: _, ask_id, digest, by, ...answer } = call;
      return { t: "Ask", ask: enforcement.gate.asks.resolve(ask_id, answer, by, digest) };
    }
    case "ObserveFile":
      enforcement.observeFile(call);
      return { t: "Ok" };
    case "Budgets":
      return { t: "Budgets", budgets: enforcement.gate.budgetUses() };
    case "Counters":
      return { t: "Counters", counters: enforcement.gate.counters() };
    case "Refresh":
      await enforcement.refresh();
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

/** Copies the VM; a copy that nobody waits for is removed. */
async function serveFork(session: Session, { dir }: ForkCall, caller: Caller): Promise<void> {
  const { stillMs, event } = await session.fork(dir);
  await caller.reply({ t: "Forked", still_ms: stillMs, ...(event && { event }) }).catch(async (error) => {
    await Deno.remove(dir, { recursive: true }).catch(() => {});
    throw error;
  });
}

/** A person who is asked may take long: a caller that goes away withdraws the question. */
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
