import type { ExecRequest, ExecResult } from "../api/mod.ts";
import { SbxError } from "../base/error/mod.ts";
import type { CallStream, ExecCall } from "../ipc/mod.ts";
import type { Vm } from "./vm.ts";

/** Sends one event of a program's output; awaiting it is the back-pressure. */
export type Send = (event: string, data: unknown) => Promise<void>;

/** `bytes` of each stream in a buffered reply (docs/contracts.md §2). */
const OUTPUT_LIMIT = 10 * 1024 * 1024;
/** `bytes` of input in one frame. */
const INPUT_CHUNK = 256 * 1024;

type Exit = Omit<ExecResult, "stdout" | "stderr">;

/** Runs a program and collects its output. */
export async function execBuffered(vm: Vm, request: ExecRequest): Promise<ExecResult> {
  const streams = { stdout: new Collector(), stderr: new Collector() };
  const exit = await exec(vm, request, OUTPUT_LIMIT, (stream, data) => {
    streams[stream].add(Uint8Array.fromBase64(data));
    return Promise.resolve();
  });
  return { stdout: streams.stdout.text(), stderr: streams.stderr.text(), ...exit };
}

/** Runs a program and sends its output as events; the last event is `exit`. */
export async function execStreamed(
  vm: Vm,
  request: ExecRequest,
  send: Send,
  gone: AbortSignal,
): Promise<Exit> {
  const exit = await exec(vm, request, undefined, (stream, data) => send(stream, { data }), gone);
  await send("exit", exit);
  return exit;
}

async function exec(
  vm: Vm,
  request: ExecRequest,
  limit: number | undefined,
  output: (stream: "stdout" | "stderr", data: string) => Promise<void>,
  gone?: AbortSignal,
): Promise<Exit> {
  using call = await vm.process.open(execCall(request, limit));
  gone?.addEventListener("abort", () => call.close());
  sendInput(call, request).catch(() => {});
  for (let reply = await call.next(); reply !== null; reply = await call.next()) {
    if (reply.t === "Output") {
      await output(reply.stream, reply.data);
      continue;
    }
    const { t: _, ...exit } = reply;
    return exit;
  }
  throw new SbxError("process.gone", `the VM "${vm.record.name}" ended while the program ran`, {
    hint: "sbx info shows the reason",
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

async function sendInput(call: CallStream<"Exec">, { stdin, stdin_encoding }: ExecRequest): Promise<void> {
  if (stdin === undefined) return;
  const bytes = stdin_encoding === "base64" ? Uint8Array.fromBase64(stdin) : new TextEncoder().encode(stdin);
  for (let at = 0; at < bytes.length; at += INPUT_CHUNK) {
    await call.send({ t: "Data", data: bytes.subarray(at, at + INPUT_CHUNK).toBase64() });
  }
  await call.send({ t: "End" });
}

class Collector {
  readonly #chunks: Uint8Array[] = [];

  add(chunk: Uint8Array): void {
    this.#chunks.push(chunk);
  }

  /** Bytes that are not UTF-8 become U+FFFD: JSON cannot hold them. */
  text(): string {
    const decoder = new TextDecoder();
    return this.#chunks.map((chunk) => decoder.decode(chunk, { stream: true })).join("") + decoder.decode();
  }
}
