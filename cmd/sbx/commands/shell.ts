import { segment } from "../../../lib/client/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { usage } from "../arguments.ts";
import type { Command } from "../command.ts";
import { connect } from "../connect.ts";
import { note } from "../output.ts";
import { RawTerminal } from "../terminal.ts";

/** Ctrl-]: leaves the terminal, as in telnet. */
const DETACH = 0x1d;
/** Ctrl-D: the end of the input. A program that is only just starting loses it, so it is said again until it is heard. */
const END_OF_INPUT = new Uint8Array([4]);
const END_AGAIN_MS = 500;
/** What the VM's own terminal runs. Input that is no terminal gets a shell of its own: its end would end everybody's. */
const LOGIN_SHELL = ["/bin/bash", "--login"];

export const command: Command = {
  name: "shell",
  usage: "NAME [-- CMD…]",
  summary: "a terminal in a running VM; ctrl-] leaves it",
  notes: [
    "A second sbx shell joins the first one's terminal. With CMD, or with input that is no terminal, it gets one of its own, which ends with that input.",
    "The exit code is 0 however the shell ended; sbx exec passes on that of a program.",
  ],
  options: [],
  words: { min: 1, max: 1 },
  program: true,
  completesNames: true,
  examples: ["sbx shell demo", "sbx shell demo -- top", "sbx shell demo < commands.txt"],
  async run(given) {
    if (given.program?.length === 0) throw usage(command, "there is no program after --");
    const program = given.program ?? (Deno.stdin.isTerminal() ? undefined : LOGIN_SHELL);
    const argv = program && JSON.stringify(program);
    const [name] = given.words;
    const client = await connect();
    // A WebSocket that is refused does not say why; this does.
    await client.json("GET", `/vms/${segment(name)}/status`);
    const socket = new WebSocket(client.socketUrl(`/terminal/${segment(name)}`, { argv }));
    socket.binaryType = "arraybuffer";
    const { code, reason } = await attach(socket, name);
    if (code === 1000) return 0;
    throw new SbxError("process.gone", reason || "the terminal's connection broke off", {
      hint: `sbx info ${name} shows whether the VM still runs`,
    });
  },
};

/** Copies both ways until the socket closes; the terminal is as it was before, whatever happens. */
async function attach(socket: WebSocket, name: string): Promise<{ code: number; reason: string }> {
  const closed = Promise.withResolvers<{ code: number; reason: string }>();
  let terminal: RawTerminal | undefined;
  socket.onclose = ({ code, reason }) => closed.resolve({ code, reason });
  socket.onmessage = ({ data }) => terminal?.write(new Uint8Array(data));
  try {
    if (!(await opened(socket))) {
      throw new SbxError("terminal.unavailable", `"${name}" has no terminal to open`, {
        hint: `sbx info ${name} shows its state: it must be Running`,
      });
    }
    terminal = new RawTerminal((size) => {
      if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(size));
    }, () => socket.close(1000));
    void type(socket).catch(() => socket.close(1000));
    return await closed.promise;
  } finally {
    terminal?.[Symbol.dispose]();
  }
}

function opened(socket: WebSocket): Promise<boolean> {
  return new Promise((resolve) => {
    socket.onopen = () => resolve(true);
    socket.addEventListener("close", () => resolve(false));
    socket.onerror = () => resolve(false);
  });
}

/** Sends what is typed; the end of the input is ctrl-D, which ends whatever reads it. */
async function type(socket: WebSocket): Promise<void> {
  for await (const bytes of Deno.stdin.readable) {
    if (socket.readyState !== WebSocket.OPEN) return;
    const end = Deno.stdin.isTerminal() ? bytes.indexOf(DETACH) : -1;
    if (end > 0 || end < 0) socket.send(end < 0 ? bytes : bytes.subarray(0, end));
    if (end < 0) continue;
    note("\r\nsbx: left the terminal\r");
    return socket.close(1000);
  }
  while (socket.readyState === WebSocket.OPEN) {
    socket.send(END_OF_INPUT);
    await new Promise((resolve) => setTimeout(resolve, END_AGAIN_MS));
  }
}
