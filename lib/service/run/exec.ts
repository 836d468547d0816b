/** Runs a program in a VM for a client of the API, with its output at once, as events or as a stream. */
import type { ExecRequest, ExecResult } from "../../client/api/mod.ts";
import { ignore, SbxError } from "../../base/error/mod.ts";
import type { CallStream, ExecCall } from "../../session/ipc/mod.ts";
import { repositoryWork } from "../../repo/mod.ts";
import type { Vm } from "../vm/vm.ts";

/** Ends of a program's streams, as bytes. */
export interface Pipes {
  input: AsyncIterable<Uint8Array>;
  /** awaited for back-pressure */
  output(stream: "stdout" | "stderr", bytes: Uint8Array): Promise<void>;
  /** the program has so many `bytes` of input more */
  taken(bytes: number): void;
}

/** Sends one event of a program's output; awaiting it is the back-pressure. */
export type Send = (event: string, data: unknown) => Promise<void>;

/** `bytes` of each stream in a buffered reply (docs/design/contracts/02-http.md §2). */
const OUTPUT_LIMIT = 10 * 1024 * 1024;
/** `bytes` of input in one frame. */
const INPUT_CHUNK = 256 * 1024;

/** Trace that a request claims. */
export interface Trace {
  trace_id?: string;
}

/** A program to run; `look`: sbx reads the VM's work for a person. */
export type TracedExec = ExecRequest & Trace & { look?: true };

type Exit = Omit<ExecResult, "stdout" | "stderr">;

/** Runs a program and collects its output. */
export async function execBuffered(vm: Vm, request: TracedExec): Promise<ExecResult> {
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
  request: TracedExec,
  send: Send,
  gone: AbortSignal,
): Promise<Exit> {
  const exit = await exec(vm, request, undefined, (stream, data) => send(stream, { data }), gone);
  await send("exit", exit);
  return exit;
}

/** Runs a program whose input comes while it runs. Its end, or the end of `gone`, ends the wait for more. */
export async function execPiped(
  vm: Vm,
  request: Omit<TracedExec, "stdin" | "stdin_encoding">,
  pipes: Pipes,
  gone: AbortSignal,
): Promise<Exit> {
  const output = (stream: "stdout" | "stderr", data: string) =>
    pipes.output(stream, Uint8Array.fromBase64(data));
  return await exec(vm, request, undefined, output, gone, pipes);
}

async function exec(
  vm: Vm,
  request: TracedExec,
  limit: number | undefined,
  output: (stream: "stdout" | "stderr", data: string) => Promise<void>,
  gone?: AbortSignal,
  pipes?: Pipes,
): Promise<Exit> {
  const input = pipes?.input ?? givenInput(request);
  const acks = pipes !== undefined;
  using call = await vm.process.open({ ...execCall(request, limit), stdin: input !== undefined, acks });
  gone?.addEventListener("abort", () => call.close());
  if (input) sendInput(call, input).catch(ignore("the program has ended, or the client is gone"));
  for (let reply = await call.next(); reply !== null; reply = await call.next()) {
    if (reply.t === "Output") {
      await output(reply.stream, reply.data);
    } else if (reply.t === "Taken") {
      pipes?.taken(reply.bytes);
    } else {
      const { t: _, ...exit } = reply;
      return exit;
    }
  }
  throw new SbxError("process.gone", `the VM "${vm.record.name}" ended while the program ran`, {
    hint: "sbx info NAME shows the reason",
  });
}

function execCall(
  { command, cwd, user, env, limits, timeout_secs, trace_id, look }: TracedExec,
  limit: number | undefined,
): Omit<ExecCall, "stdin"> {
  const argv = typeof command === "string" ? ["/bin/sh", "-c", command] : command;
  const repository = repositoryWork(argv);
  return {
    t: "Exec",
    argv,
    cwd,
    user,
    env,
    ...limits && { limits },
    timeout_ms: timeout_secs === undefined ? undefined : timeout_secs * 1000,
    limit,
    ...(trace_id !== undefined && { trace_id }),
    ...look && { look },
    ...repository && { repository },
  };
}

function givenInput({ stdin, stdin_encoding }: ExecRequest): AsyncIterable<Uint8Array> | undefined {
  if (stdin === undefined) return undefined;
  const bytes = stdin_encoding === "base64" ? Uint8Array.fromBase64(stdin) : new TextEncoder().encode(stdin);
  return ReadableStream.from([bytes]);
}

async function sendInput(call: CallStream<"Exec">, input: AsyncIterable<Uint8Array>): Promise<void> {
  for await (const bytes of input) {
    for (let at = 0; at < bytes.length; at += INPUT_CHUNK) {
      await call.send({ t: "Data", data: bytes.subarray(at, at + INPUT_CHUNK).toBase64() });
    }
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
