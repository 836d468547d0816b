import type { ExecRequest, ExecResult } from "../../lib/api/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { type ExecCall, IpcCall } from "../../lib/ipc/mod.ts";
import type { Vm } from "../../lib/service/mod.ts";
import type { Send } from "./sse.ts";

/** Bytes of each stream that a buffered answer keeps (contracts.md §2). */
const OUTPUT_LIMIT = 10 * 1024 * 1024;
/** Input is sent on in pieces that fit a frame. */
const INPUT_CHUNK = 256 * 1024;

type Exited = Omit<ExecResult, "stdout" | "stderr">;

/** Runs a program and keeps what it prints. */
export async function execBuffered(vm: Vm, request: ExecRequest): Promise<ExecResult> {
  const streams = { stdout: new Collector(), stderr: new Collector() };
  const exited = await exec(vm, request, OUTPUT_LIMIT, (stream, data) => {
    streams[stream].add(Uint8Array.fromBase64(data));
    return Promise.resolve();
  });
  return { stdout: streams.stdout.text(), stderr: streams.stderr.text(), ...exited };
}

/** Runs a program and sends what it prints as events, the last of which is `exit`. */
export async function execStreamed(
  vm: Vm,
  request: ExecRequest,
  send: Send,
  gone: AbortSignal,
): Promise<Exited> {
  const exited = await exec(vm, request, undefined, (stream, data) => send(stream, { data }), gone);
  await send("exit", exited);
  return exited;
}

async function exec(
  vm: Vm,
  request: ExecRequest,
  limit: number | undefined,
  output: (stream: "stdout" | "stderr", data: string) => Promise<void>,
  gone?: AbortSignal,
): Promise<Exited> {
  using call = await IpcCall.open(vm.paths.socket, execCall(request, limit));
  gone?.addEventListener("abort", () => call.close());
  feed(call, request).catch(() => {});
  for (let reply = await call.next(); reply !== null; reply = await call.next()) {
    if (reply.t === "Output") await output(reply.stream, reply.data);
    if (reply.t === "Exited") {
      const { t: _, ...exited } = reply;
      return exited;
    }
  }
  throw new SbxError("process.gone", `the VM "${vm.record.name}" ended while the program ran`, {
    hint: "sbx info shows why",
  });
}

function execCall(
  { command, cwd, env, timeout_secs, stdin }: ExecRequest,
  limit: number | undefined,
): ExecCall {
  return {
    t: "Exec",
    argv: typeof command === "string" ? ["/bin/sh", "-c", command] : command,
    cwd,
    env,
    timeout_ms: timeout_secs === undefined ? undefined : timeout_secs * 1000,
    limit,
    stdin: stdin !== undefined,
  };
}

async function feed(call: IpcCall, { stdin, stdin_encoding }: ExecRequest): Promise<void> {
  if (stdin === undefined) return;
  const bytes = stdin_encoding === "base64" ? Uint8Array.fromBase64(stdin) : new TextEncoder().encode(stdin);
  for (let at = 0; at < bytes.length; at += INPUT_CHUNK) {
    await call.send({ t: "Data", data: bytes.subarray(at, at + INPUT_CHUNK).toBase64() });
  }
  await call.send({ t: "End" });
}

class Collector {
  #chunks: Uint8Array[] = [];

  add(chunk: Uint8Array): void {
    this.#chunks.push(chunk);
  }

  /** Bytes that are not UTF-8 become U+FFFD: JSON has no place for them. */
  text(): string {
    const decoder = new TextDecoder();
    return this.#chunks.map((chunk) => decoder.decode(chunk, { stream: true })).join("") + decoder.decode();
  }
}
