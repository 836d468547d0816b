/** sbx-process: one VM. It is started by sbx-service, outlives it, and ends with its machine. */
import { ignore, SbxError } from "../../lib/base/error/mod.ts";
import { collectAtRest } from "../../lib/base/heap/mod.ts";
import { home, onRemoval, removeIfThere } from "../../lib/base/home/mod.ts";
import { log, outliveRejections, redactLog } from "../../lib/base/log/mod.ts";
import { runRole, unknownArguments } from "../../lib/base/role/mod.ts";
import { timeLimit } from "../../lib/base/time/mod.ts";
import { call, CallServer, NO_SESSION } from "../../lib/session/ipc/mod.ts";
import { Jobs } from "../../lib/session/job/mod.ts";
import { Ports } from "../../lib/session/forward/mod.ts";
import { reservedPorts } from "../../lib/base/port/mod.ts";
import { hasEnded, makeSockets, readRecord, Session, sessionPaths } from "../../lib/session/mod.ts";
import { hostHypervisor } from "../../lib/machine/vm/mod.ts";
import { Redactor } from "../../lib/base/redact/mod.ts";
import { Services } from "../../lib/session/services/mod.ts";
import { jobRunner, portConnector, portRecorder, serve, serviceGuest, useServices } from "./calls.ts";
import { type AwaitedSession, awaitSession } from "./spare.ts";

/** Longest wait in `ms` for the first `Boot`: a service that died meanwhile must leave no process behind. */
const ORDER_DEADLINE_MS = timeLimit(60_000);

const NAME = "sbx-process";
const USAGE = `${NAME} SESSION

Runs one VM until its end: its policy, network, credentials and record. sbx-service starts it, with the id of a
session that it has written; it is of no use by hand.
`;
/** Form of a session's id. */
const SESSION_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** @param args the id of the session, or `NO_SESSION` for a later one */
export function main(args: string[]): Promise<number> {
  return runRole({ name: NAME, usage: USAGE, doing: "running a VM", run }, args);
}

async function run(args: string[]): Promise<number> {
  if (args.length === 0) {
    throw new SbxError("usage.invalid", "sbx-process is started by sbx-service, with the id of a session", {
      hint: "sbx start starts sbx-service",
    });
  }
  const [argument, ...rest] = args;
  if (rest.length > 0 || !SESSION_ID.test(argument)) throw unknownArguments(NAME, args);
  // Records and sockets are private to their user. virtiofsd sets its own umask, so a guest's
  // files get the modes it asks for.
  Deno.umask(0o077);
  outliveRejections();
  redactLog(new Redactor().text);
  collectAtRest();
  const at = home();
  const hypervisor = hostHypervisor();
  hypervisor.prepare();
  const given: AwaitedSession | undefined = argument === NO_SESSION
    ? await awaitSession(at, hypervisor)
    : { id: argument };
  if (!given) return 0;
  const { id, spare } = given;
  const paths = sessionPaths(at, id);
  await makeSockets(paths);
  const listener = Deno.listen({ transport: "unix", path: paths.socket });
  const session = new Session(await readRecord(paths), at, hypervisor, spare);
  const jobs = new Jobs(paths.jobs, jobRunner(session));
  const ports = new Ports(portConnector(session), portRecorder(session), () => reservedPorts(at));
  const services = new Services({
    jobs,
    guest: serviceGuest(session),
    onFailed: (failed) => void session.servicesFailed(failed).catch((error) => log.error(error)),
  });
  void session.present().then((runs) => runs ? useServices(session, services) : undefined);
  // Before the service learns of the end: the ports of a stopped VM are free.
  session.watch(() => {
    if (hasEnded(session.info)) ports.closeAll();
    else void ports.offer(session.info.dev_ports ?? [], { client: NAME });
  });
  const orphaned = setTimeout(() => session.stop(true), ORDER_DEADLINE_MS);
  const calls = new CallServer(listener, (request, caller) => {
    log.debug(`call ${request.t}`);
    if (request.t === "Boot") clearTimeout(orphaned);
    return serve({ session, jobs, ports, services }, request, caller);
  });
  await onRemoval(paths.dir, () => session.stop(true));
  const { parent } = session.record;
  if (parent) {
    // Answered at its end, and aborted when it is killed: neither needs the service.
    call(sessionPaths(at, parent.id).socket, { t: "AwaitEnd" }).catch(ignore("the parent has ended, however"))
      .then(() => session.stop(true));
  }
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    Deno.addSignalListener(signal, () => session.stop(true));
  }
  await session.ended;
  // The call that ended the session still needs its reply. The socket closes before that: once the caller
  // knows that the session is over, the VM's next process may listen at the same path.
  const closed = calls.close();
  removeIfThere(paths.socket);
  await closed;
  await services.end();
  await jobs.settle();
  return session.info.state === "Defunct" ? 1 : 0;
}
