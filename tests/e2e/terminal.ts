/** A VM's terminal as its clients see it: size, colours, Ctrl-C, replay, and its end. */
import { eventually, type Sbx } from "../helper/sbx.ts";

/** Runs a command in the VM. @returns its result */
type Exec = (body: Record<string, unknown>) => Promise<{ exit_code: number; stdout: string }>;

/** Uses the shared terminal of the VM `id` and one of a program's own, until the shell exits. */
export async function useTerminal(sbx: Sbx, id: string, exec: Exec): Promise<void> {
  const first = await attachTerminal(sbx, id);
  try {
    first.socket.send(JSON.stringify({ cols: 132, rows: 40 }));
    first.type("stty size; tput colors; tty\n");
    await eventually(
      "the terminal has its size",
      () => /40 132[\s\S]*256[\s\S]*\/dev\/pts\//.test(first.text()),
    );
    first.type("cat\n");
    await eventually(
      "the program runs",
      async () => (await exec({ command: "ps -e -o comm | grep -qx cat" })).exit_code === 0,
    );
    first.type("\x03");
    await eventually(
      "Ctrl-C ended it",
      async () => (await exec({ command: "ps -e -o comm | grep -qx cat" })).exit_code === 1,
    );
    first.type("echo $((40 + 2))\n");
    await eventually("the shell goes on", () => /\b42\b/.test(first.text()));
    const own = await attachTerminal(sbx, id, { argv: ["sh", "-c", "echo own; exec sleep 271"] });
    await eventually("a program has a terminal of its own", () => own.text().includes("own"));
    own.socket.close();
    const count = { command: "ps -e -o args | grep -cx 'sleep 271'" };
    await eventually(
      "it is hung up when its window closes",
      async () => (await exec(count)).stdout === "0\n",
    );
  } finally {
    first.socket.close();
  }
  const second = await attachTerminal(sbx, id);
  try {
    await eventually("the replay shows it", () => /\b42\b/.test(second.text()));
    second.type("exit\n");
    await eventually(
      "the terminal closes when its shell exits",
      () => second.socket.readyState === WebSocket.CLOSED,
    );
  } finally {
    second.socket.close();
  }
}

/** A client of a VM's terminal. */
export async function attachTerminal(
  sbx: Sbx,
  id: string,
  { argv, job }: { argv?: string[]; job?: string } = {},
) {
  const query = new URLSearchParams({
    token: sbx.token,
    ...argv && { argv: JSON.stringify(argv) },
    ...job && { job },
  });
  const socket = new WebSocket(`${sbx.base.replace("http", "ws")}/terminal/${id}?${query}`);
  socket.binaryType = "arraybuffer";
  const decoder = new TextDecoder();
  let text = "";
  socket.onmessage = ({ data }) => text += decoder.decode(data, { stream: true });
  await new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onerror = reject;
  });
  return { socket, text: () => text, type: (keys: string) => socket.send(new TextEncoder().encode(keys)) };
}
