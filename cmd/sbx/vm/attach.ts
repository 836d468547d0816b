/** The user's terminal, attached to one in a VM. */
import { SbxError } from "../../../lib/base/error/mod.ts";
import { writeAll } from "../../../lib/base/wire/mod.ts";
import type { Banner } from "../banner.ts";
import { Spinner } from "../spinner.ts";
import { RawTerminal } from "./terminal.ts";

/** Ctrl-], which detaches, as in telnet. */
const DETACH = 0x1d;
/** Ctrl-D, the end of the input; repeated, since a program that is still starting loses it. */
const END_OF_INPUT = new Uint8Array([4]);
const END_INTERVAL_MS = 500;

/** The key that detaches, for help. */
export const DETACH_NOTE = "ctrl-] detaches: the program goes on";

/** How an attached terminal ended: the close of its WebSocket. */
export interface Detached {
  code: number;
  reason: string;
}

/**
 * Copies data both ways until the socket closes; restores the terminal on every path.
 *
 * @param what names the terminal in errors
 * @param endsInput the end of the input ends the program's input
 * @param options.doing label of the wait before it opens
 * @param options.banner drawn over the first line
 * @throws {SbxError} `terminal.unavailable`
 */
export async function attach(
  socket: WebSocket,
  what: string,
  endsInput: boolean,
  { doing, banner }: { doing?: string; banner?: Banner } = {},
): Promise<Detached> {
  socket.binaryType = "arraybuffer";
  const closed = Promise.withResolvers<Detached>();
  let terminal: RawTerminal | undefined;
  // A client that sends while the other side closes gets an error for that, and never the reason: so it sends
  // nothing before the first message, which confirms the terminal.
  const opened = Promise.withResolvers<boolean>();
  socket.onclose = ({ code, reason }) => {
    opened.resolve(false);
    closed.resolve({ code, reason });
  };
  const early: Uint8Array<ArrayBuffer>[] = [];
  socket.onmessage = ({ data }) => {
    opened.resolve(true);
    const bytes = new Uint8Array(data);
    if (terminal) terminal.write(bytes);
    else early.push(bytes);
  };
  try {
    if (!(await waitFor(opened.promise, doing))) {
      const end = await closed.promise;
      if (end.reason !== "") return end;
      throw new SbxError("terminal.unavailable", `${what} cannot be opened`, {
        hint: `the VM must be Running; sbx list shows its status`,
      });
    }
    terminal = new RawTerminal(
      (size) => {
        if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(size));
      },
      () => socket.close(1000),
      banner,
    );
    for (const bytes of early) terminal.write(bytes);
    void sendInput(socket, endsInput).catch(() => socket.close(1000));
    return await closed.promise;
  } finally {
    terminal?.[Symbol.dispose]();
  }
}

async function waitFor(opened: Promise<boolean>, doing?: string): Promise<boolean> {
  using _spinner = doing === undefined ? undefined : new Spinner(doing);
  return await opened;
}

/** Sends the input; at its end ctrl-D, or nothing. */
async function sendInput(socket: WebSocket, endsInput: boolean): Promise<void> {
  for await (const bytes of Deno.stdin.readable) {
    if (socket.readyState !== WebSocket.OPEN) return;
    const end = Deno.stdin.isTerminal() ? bytes.indexOf(DETACH) : -1;
    if (end > 0 || end < 0) socket.send(end < 0 ? bytes : bytes.subarray(0, end));
    if (end < 0) continue;
    await writeAll(Deno.stderr, new TextEncoder().encode("\r\nsbx: detached from the terminal\r\n"));
    return socket.close(1000);
  }
  while (endsInput && socket.readyState === WebSocket.OPEN) {
    socket.send(END_OF_INPUT);
    await new Promise((resolve) => setTimeout(resolve, END_INTERVAL_MS));
  }
}
