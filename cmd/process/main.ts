/** sbx-process: one VM. It is started by sbx-service, outlives it, and ends with its machine. */
import { SbxError } from "../../lib/base/error/mod.ts";
import { home } from "../../lib/base/home/mod.ts";
import { CallServer } from "../../lib/ipc/mod.ts";
import { outliveRejections } from "../../lib/base/log/mod.ts";
import { makeSockets, readRecord, Runner, sessionPaths } from "../../lib/session/mod.ts";
import { Qemu } from "../../lib/vm/mod.ts";
import { answer } from "./calls.ts";

/** Longest wait for the first `Boot` after the start: a service that died in between must leave nothing behind. */
const ORDER_DEADLINE_MS = 60_000;

/** @param args the id of the session */
export async function main([id]: string[]): Promise<number> {
  if (!id) {
    throw new SbxError("process.invalid", "sbx-process is started by sbx-service, with the id of a session");
  }
  // Records and sockets are their user's only. What a guest writes has the modes that it asks for: virtiofsd sets a umask of its own.
  Deno.umask(0o077);
  outliveRejections();
  const at = home();
  const paths = sessionPaths(at, id);
  await makeSockets(paths);
  const listener = Deno.listen({ transport: "unix", path: paths.socket });
  const runner = new Runner(await readRecord(paths), at, new Qemu());
  const orphaned = setTimeout(() => runner.stop(true), ORDER_DEADLINE_MS);
  const calls = new CallServer(listener, (call, caller) => {
    if (call.t === "Boot") clearTimeout(orphaned);
    return answer(runner, call, caller);
  });
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    Deno.addSignalListener(signal, () => runner.stop(true));
  }
  await runner.ended;
  // The call that ended it still has to be answered.
  await calls.close();
  await Deno.remove(paths.socket).catch(() => {});
  return runner.info.state === "Defunct" ? 1 : 0;
}
