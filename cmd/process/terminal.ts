import type { Viewer } from "../../lib/machine/guest/mod.ts";
import type { Call, Caller } from "../../lib/session/ipc/mod.ts";
import type { Jobs } from "../../lib/session/job/mod.ts";
import type { Session } from "../../lib/session/mod.ts";

type TerminalCall = Extract<Call, { t: "Terminal" }>;

/** Carries one viewer of the VM's terminal until the viewer leaves or the terminal ends. */
export async function serveTerminal(
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
  // It is there: until then a client sends nothing (docs/design/contracts/02-http.md §2, "Terminal").
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
