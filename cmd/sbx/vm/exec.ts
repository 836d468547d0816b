import type { ExecResult, PipedRequest, VmSummary } from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { Spinner, usageError } from "../output.ts";
import { printJson } from "../../../lib/base/print/mod.ts";
import {
  type Exit,
  EXIT_NOTE,
  PROGRAM_OPTIONS,
  programRequest,
  reportExit,
  SBX_FAILED,
  serverError,
  startDetached,
  streamProgram,
} from "./program.ts";
import { type ErrorBody, SbxError } from "../../../lib/base/error/mod.ts";
import { PROGRAM_WINDOW, Window } from "../../../lib/base/window/mod.ts";
import { writeAll } from "../../../lib/base/wire/mod.ts";

export const command: Command = {
  name: "exec",
  usage: "[OPTIONS] NAME -- CMD…",
  summary: "run a program in a running VM",
  notes: [EXIT_NOTE],
  options: [
    { name: "command", short: "c", value: "LINE", about: "run a shell line instead of -- CMD…" },
    ...PROGRAM_OPTIONS,
    {
      name: "interactive",
      short: "i",
      about:
        "pass sbx's standard input to the program while it runs; with --json it is read to its end first",
    },
    { name: "detach", short: "d", about: "start a job and print its id; sbx jobs shows it" },
    { name: "tty", short: "t", about: "with --detach: on a terminal, for sbx jobs attach" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  program: true,
  completes: ["vms"],
  failure: SBX_FAILED,
  examples: [
    "sbx exec demo -- ls -la /workspace",
    "sbx exec demo -c 'ls | wc -l'",
    "tar -c src | sbx exec -i demo -- tar -x",
    "sbx exec --detach demo -- make test",
  ],
  async run(args) {
    if (args.has("detach")) return await startJob(args);
    if (args.has("tty")) {
      throw usageError(
        command,
        "--tty needs --detach",
        "sbx shell NAME -- CMD… runs a program on a terminal",
      );
    }
    const takesInput = args.has("interactive");
    const json = await programRequest(command, args, args.text("command"), takesInput && args.has("json"));
    const client = await connect();
    const [name] = args.words;
    const path = `/vms/${segment(name)}/exec`;
    if (args.has("json")) {
      const result = await client.json<ExecResult>("POST", path, { json });
      await printJson(result);
      return result.exit_code;
    }
    if (takesInput) return await pipeProgram(client, name, json);
    return await streamProgram(await client.send("POST", path, { json, accept: "text/event-stream" }));
  },
};

async function startJob(args: Arguments): Promise<number> {
  if (args.has("interactive")) throw usageError(command, "--detach and -i cannot be combined");
  if (args.has("tty") && args.text("timeout") !== undefined) {
    throw usageError(command, "--tty and --timeout cannot be combined");
  }
  const program = await programRequest(command, args, args.text("command"), false);
  return await startDetached(args.words[0], { ...program, tty: args.has("tty") }, args.has("json"));
}

/** First byte of a message with the program's standard error. */
const STDERR = 2;

/** A message in text from the service. */
interface News {
  taken?: number;
  resuming?: string;
  exit?: Exit;
  error?: ErrorBody;
}

/**
 * Runs a program, copies standard input to it while it runs, and its output back.
 *
 * @returns its exit code
 * @throws {SbxError} the service's error; `process.gone`: the connection was lost before the program ended
 */
async function pipeProgram(client: Client, name: string, request: PipedRequest): Promise<number> {
  // Reports errors that a rejected WebSocket would hide.
  await client.json<VmSummary>("GET", `/vms/${segment(name)}/status`);
  const socket = client.socket(`/program/${segment(name)}`);
  socket.binaryType = "arraybuffer";
  const pipe = new Pipe(socket);
  socket.onopen = () => {
    socket.send(JSON.stringify(request));
    // Standard output without a reader, or input that cannot be read, ends the program.
    pipe.sendInput().catch(() => socket.close());
  };
  return reportExit(await pipe.exit);
}

class Pipe {
  readonly #socket: WebSocket;
  readonly #window = new Window(PROGRAM_WINDOW);
  readonly #exit = Promise.withResolvers<Exit>();
  /** output is written in the order of its arrival */
  #written: Promise<void> = Promise.resolve();
  #spinner?: Spinner;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.onmessage = ({ data }) => {
      const work = data instanceof ArrayBuffer ? () => this.#write(new Uint8Array(data)) : this.#hear(data);
      this.#written = this.#written.then(work);
      this.#written.catch((error) => this.#fail(error));
    };
    socket.onclose = () => void this.#written.then(() => this.#fail(lost()), () => {});
    socket.onerror = () => {};
  }

  /** Settles when the program has ended and its output is written. */
  get exit(): Promise<Exit> {
    return this.#exit.promise;
  }

  async sendInput(): Promise<void> {
    for await (const bytes of Deno.stdin.readable) {
      if (!await this.#window.claim(bytes.length)) return;
      if (this.#socket.readyState !== WebSocket.OPEN) return;
      this.#socket.send(bytes);
    }
    this.#post({ end: true });
  }

  async #write(bytes: Uint8Array): Promise<void> {
    this.#endSpinner();
    const output = bytes.subarray(1);
    await writeAll(bytes[0] === STDERR ? Deno.stderr : Deno.stdout, output);
    this.#post({ taken: output.length });
  }

  /** Takes news, which do not wait for output without a reader. @returns the work to do after that output */
  #hear(text: string): () => void {
    const { taken, resuming, exit, error }: News = JSON.parse(text);
    if (taken !== undefined) this.#window.release(taken);
    if (resuming !== undefined) this.#spinner = new Spinner(`resuming ${resuming}`);
    return () => {
      if (!exit && !error) return;
      this.#endSpinner();
      if (error) throw serverError(error);
      this.#exit.resolve(exit!);
      this.#window.close();
    };
  }

  #endSpinner(): void {
    this.#spinner?.[Symbol.dispose]();
    this.#spinner = undefined;
  }

  #fail(error: unknown): void {
    this.#exit.reject(error);
    this.#window.close();
    this.#socket.close();
  }

  #post(message: Record<string, unknown>): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }
}

function lost(): SbxError {
  return new SbxError("process.gone", "the connection was lost before the program ended", {
    hint: "sbx list shows whether the VM is still running",
  });
}
