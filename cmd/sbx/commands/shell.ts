import type { Command } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { writeAll } from "../../../lib/base/wire/mod.ts";
import { RawTerminal } from "../terminal.ts";
import { usageError } from "../usage.ts";

/** Ctrl-], which detaches, as in telnet. */
const DETACH = 0x1d;
/** Ctrl-D, the end of the input; repeated, since a program that is still starting loses it. */
const END_OF_INPUT = new Uint8Array([4]);
const END_INTERVAL_MS = 500;
/** Program of the VM's shared terminal. Input that is not a terminal gets a separate shell, since its end would end the shared one. */
const LOGIN_SHELL = ["/bin/bash", "--login"];

export const command: Command = {
  name: "shell",
  usage: "NAME [-- CMD…]",
  summary: "open a terminal in a running VM; ctrl-] detaches",
  notes: [
    "A second sbx shell joins the first one's terminal. With CMD, or with input that is not a terminal, it opens a separate one, which ends with that input.",
    "The exit code is 0 whatever the shell's own; sbx exec returns that of a program.",
  ],
  options: [],
  words: { min: 1, max: 1 },
  program: true,
  completesNames: true,
  examples: ["sbx shell demo", "sbx shell demo -- top", "sbx shell demo < commands.txt"],
  async run(args) {
    if (args.program?.length === 0) throw usageError(command, "missing program after --");
    const program = args.program ?? (Deno.stdin.isTerminal() ? undefined : LOGIN_SHELL);
    const argv = program && JSON.stringify(program);
    const [name] = args.words;
    const client = await connect();
    // Reports errors that a rejected WebSocket would hide.
    await client.json("GET", `/vms/${segment(name)}/status`);
    const socket = new WebSocket(client.socketUrl(`/terminal/${segment(name)}`, { argv }));
    socket.binaryType = "arraybuffer";
    const { code, reason } = await attach(socket, name);
    if (code === 1000) return 0;
    throw new SbxError("process.gone", reason || `the connection to the terminal of "${name}" was lost`, {
      hint: `sbx info ${name} shows whether the VM is still running`,
    });
  },
};

/** Copies data both ways until the socket closes; restores the terminal on every path. */
async function attach(socket: WebSocket, name: string): Promise<{ code: number; reason: string }> {
  const closed = Promise.withResolvers<{ code: number; reason: string }>();
  let terminal: RawTerminal | undefined;
  socket.onclose = ({ code, reason }) => closed.resolve({ code, reason });
  socket.onmessage = ({ data }) => terminal?.write(new Uint8Array(data));
  try {
    if (!(await waitUntilOpen(socket))) {
      throw new SbxError("terminal.unavailable", `the terminal of "${name}" cannot be opened`, {
        hint: `the VM must be Running; sbx info ${name} shows its status`,
      });
    }
    terminal = new RawTerminal((size) => {
      if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(size));
    }, () => socket.close(1000));
    void sendInput(socket).catch(() => socket.close(1000));
    return await closed.promise;
  } finally {
    terminal?.[Symbol.dispose]();
  }
}

function waitUntilOpen(socket: WebSocket): Promise<boolean> {
  return new Promise((resolve) => {
    socket.onopen = () => resolve(true);
    socket.addEventListener("close", () => resolve(false));
    socket.onerror = () => resolve(false);
  });
}

/** Sends the input, and ctrl-D at its end. */
async function sendInput(socket: WebSocket): Promise<void> {
  for await (const bytes of Deno.stdin.readable) {
    if (socket.readyState !== WebSocket.OPEN) return;
    const end = Deno.stdin.isTerminal() ? bytes.indexOf(DETACH) : -1;
    if (end > 0 || end < 0) socket.send(end < 0 ? bytes : bytes.subarray(0, end));
    if (end < 0) continue;
    await writeAll(Deno.stderr, new TextEncoder().encode("\r\nsbx: detached from the terminal\r\n"));
    return socket.close(1000);
  }
  while (socket.readyState === WebSocket.OPEN) {
    socket.send(END_OF_INPUT);
    await new Promise((resolve) => setTimeout(resolve, END_INTERVAL_MS));
  }
}
