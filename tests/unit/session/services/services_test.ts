/** Services of a VM whose programs are promises. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { Services as Definitions } from "../../../../lib/config/profile/services/schema.ts";
import {
  type JobProgram,
  type JobRecord,
  type JobRunner,
  Jobs,
  OutputReader,
} from "../../../../lib/session/job/mod.ts";
import { backOff, type FailedService, FAILURES_MAX, Services } from "../../../../lib/session/services/mod.ts";
import { eventually } from "../../../helper/sbx.ts";

const EVENT = "0123456789ab";

/** A start of a program, which the test ends. */
interface Start {
  program: JobProgram;
  exit(code: number): void;
  lose(error: SbxError): void;
}

/** A guest whose programs the test ends; one that is ended exits with 143. */
class Guest {
  readonly starts: Start[] = [];
  readonly blocked = new Set<string>();
  /** ports, and whether something listens there, which is known once it does */
  readonly #listening = new Map<number, PromiseWithResolvers<boolean>>();
  /** starts before which nothing listens anywhere */
  closedUntil = 0;
  readonly pauses: number[] = [];
  /** exit codes of programs that check */
  checks: number[] = [];
  obeys = true;
  failed: FailedService[] = [];
  readonly runner: JobRunner = {
    scrub: (value) => Promise.resolve(value),
    exec: (program, streams, cancelled) => this.#exec(program, streams, cancelled),
    terminal: () => Promise.reject(new Error("not used")),
  };

  async #exec(
    ...[program, streams, cancelled]: Parameters<JobRunner["exec"]>
  ): Promise<{ exit_code: number }> {
    const isAllowed = !this.blocked.has(program.argv[0]);
    streams.decided(EVENT, isAllowed);
    if (!isAllowed) return { exit_code: 126 };
    if (program.argv[0] === "check") return { exit_code: this.checks.shift() ?? 0 };
    await streams.output("stdout", btoa(`${program.argv[0]}\n`));
    const ended = Promise.withResolvers<number>();
    if (cancelled.aborted) ended.resolve(143);
    cancelled.addEventListener("abort", () => this.obeys && ended.resolve(143));
    this.starts.push({ program, exit: ended.resolve, lose: ended.reject });
    return { exit_code: await ended.promise };
  }

  listens(port: number): Promise<boolean> {
    if (this.starts.length < this.closedUntil) return Promise.resolve(false);
    return this.#port(port).promise;
  }

  listen(port: number): void {
    this.#port(port).resolve(true);
  }

  #port(port: number): PromiseWithResolvers<boolean> {
    const found = this.#listening.get(port) ?? Promise.withResolvers<boolean>();
    this.#listening.set(port, found);
    return found;
  }

  get names(): string[] {
    return this.starts.map(({ program }) => program.service!.name);
  }
}

async function withServices(
  work: (
    world: { guest: Guest; services: Services; jobs: Jobs; dir: string; again(): Services },
  ) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir();
  const guest = new Guest();
  const make = () => {
    const jobs = new Jobs(dir, guest.runner);
    const services = new Services({
      jobs,
      guest: {
        exec: guest.runner.exec,
        present: () => Promise.resolve(true),
        listens: (port) => guest.listens(port),
      },
      onFailed: (failed) => guest.failed = failed,
      pause: async (ms) => {
        guest.pauses.push(ms);
        await new Promise((resolve) => setTimeout(resolve));
      },
    });
    return { jobs, services };
  };
  const { jobs, services } = make();
  const all = [{ jobs, services }];
  try {
    await work({
      guest,
      services,
      jobs,
      dir,
      again: () => {
        const made = make();
        all.push(made);
        return made.services;
      },
    });
  } finally {
    for (const each of all) {
      await each.services.end();
      await each.jobs.settle();
    }
    await Deno.remove(dir, { recursive: true });
  }
}

const of = (definitions: Record<string, unknown>) => Definitions.parse(definitions);

async function statusOf(jobs: Jobs, name: string): Promise<JobRecord> {
  return (await jobs.list()).find(({ service }) => service?.name === name)!;
}

async function reaches(jobs: Jobs, name: string, state: string): Promise<JobRecord> {
  await eventually(`${name} is ${state}`, async () => (await statusOf(jobs, name))?.service?.state === state);
  return await statusOf(jobs, name);
}

Deno.test("services start in order: each once those before it are ready", () =>
  withServices(async ({ guest, services, jobs }) => {
    await services.use(of({
      web: { command: ["web"], after: ["db", "migrate"] },
      migrate: { command: ["migrate"], after: ["db"], restart: "no" },
      db: { command: ["db"], ready: { port: 5432 } },
    }));
    await eventually("the first one runs", () => guest.starts.length === 1);
    assertEquals(guest.names, ["db"]);
    assertEquals((await statusOf(jobs, "web")).service?.reason, "after db, which is Starting");
    guest.listen(5432);
    await eventually("the second one runs", () => guest.starts.length === 2);
    assertEquals(guest.names, ["db", "migrate"]);
    await reaches(jobs, "migrate", "Starting");
    guest.starts[1].exit(0);
    await reaches(jobs, "web", "Ready");
    assertEquals(guest.names, ["db", "migrate", "web"]);
    const { state, exit_code, service } = await statusOf(jobs, "migrate");
    assertEquals([state, exit_code, service?.state], ["Ended", 0, "Done"]);
  }));

Deno.test("one without a check is ready once it runs; its record has the event and no end", () =>
  withServices(async ({ services, jobs }) => {
    await services.use(of({ a: { command: ["a"] } }));
    const { state, event_id, ended_at, service } = await reaches(jobs, "a", "Ready");
    assertEquals([state, event_id, ended_at, service?.restarts], ["Running", EVENT, undefined, 0]);
  }));

Deno.test("one that ends starts again after a wait that grows, and goes on with its output", () =>
  withServices(async ({ guest, services, jobs, dir }) => {
    await services.use(of({ a: { command: ["a"] } }));
    for (let at = 0; at < 3; at++) {
      await eventually("it runs", () => guest.starts.length === at + 1);
      guest.starts[at].exit(at);
    }
    await eventually("it runs again", () => guest.starts.length === 4);
    const { id, service } = await reaches(jobs, "a", "Ready");
    assertEquals([service?.restarts, service?.last_exit_code], [3, 2]);
    assertEquals(guest.pauses, [backOff(1), backOff(2), backOff(3)]);
    using reader = new OutputReader(`${dir}/${id}`);
    const texts = Array.from({ length: 4 }, () => new TextDecoder().decode(reader.read()!.bytes));
    assertEquals(texts.join(""), "a\n".repeat(4));
  }));

Deno.test("the wait has a limit", () => {
  assertEquals([1, 2, 7, 1000].map(backOff), [1000, 2000, 60_000, 60_000]);
});

Deno.test("one that fails again and again is given up, with its reason; those after it wait, and start with it", () =>
  withServices(async ({ guest, services, jobs }) => {
    await services.use(
      of({ a: { command: ["a"], ready: { port: 1 } }, b: { command: ["b"], after: ["a"] } }),
    );
    for (let at = 0; at < FAILURES_MAX; at++) {
      await eventually("it runs", () => guest.starts.length === at + 1);
      guest.starts[at].exit(1);
    }
    const { state, exit_code, reason } = await reaches(jobs, "a", "Failed");
    const why = `exit code 1; it failed ${FAILURES_MAX} times in a row`;
    assertEquals([state, exit_code, reason], ["Ended", 1, why]);
    assertEquals(guest.failed, [{ name: "a", reason: why }]);
    assertEquals((await statusOf(jobs, "b")).service?.reason, "after a, which is Failed");
    guest.listen(1);
    await services.act("a", "start");
    await reaches(jobs, "b", "Ready");
    assertEquals(guest.failed, []);
    assertEquals((await statusOf(jobs, "a")).service?.restarts, 0);
  }));

Deno.test("how it ended decides whether it starts again", () =>
  withServices(async ({ guest, services, jobs }) => {
    await services.use(of({
      good: { command: ["good"], restart: "on-failure" },
      bad: { command: ["bad"], restart: "on-failure" },
      never: { command: ["never"], restart: "no" },
    }));
    await eventually("all run", () => guest.starts.length === 3);
    const codes: Record<string, number> = { good: 0, bad: 2, never: 5 };
    for (const { program, exit } of [...guest.starts]) exit(codes[program.service!.name]);
    await reaches(jobs, "good", "Done");
    assertEquals((await reaches(jobs, "never", "Failed")).reason, "exit code 5");
    await eventually("the bad one runs again", () => guest.starts.length === 4);
    assertEquals(guest.names.at(-1), "bad");
  }));

Deno.test("one that policy blocks is not tried again, and neither is one whose check it blocks", () =>
  withServices(async ({ guest, services, jobs }) => {
    guest.blocked.add("curl").add("blocked-check");
    await services.use(of({
      a: { command: ["curl"] },
      b: { command: ["b"], ready: { command: ["blocked-check"] } },
    }));
    const { exit_code, reason } = await reaches(jobs, "a", "Failed");
    assertEquals([exit_code, reason], [126, "policy blocked it"]);
    assertEquals((await reaches(jobs, "b", "Failed")).reason, "policy blocked the program that checks it");
    assertEquals(guest.pauses.filter((ms) => ms >= backOff(1) && ms < 10_000), []);
  }));

Deno.test("a program that checks is run until it succeeds", () =>
  withServices(async ({ guest, services, jobs }) => {
    guest.checks = [1, 126, 0];
    await services.use(of({ a: { command: ["a"], ready: { command: ["check"] } } }));
    await reaches(jobs, "a", "Ready");
    assertEquals(guest.checks, []);
  }));

Deno.test("one that is not ready in time is ended and tried again", () =>
  withServices(async ({ guest, services, jobs }) => {
    guest.closedUntil = 2;
    guest.listen(1);
    await services.use(of({ a: { command: ["a"], ready: { port: 1, secs: 1 } } }));
    const { service } = await reaches(jobs, "a", "Ready");
    assertEquals([service?.restarts, service?.last_exit_code], [1, 143]);
  }));

Deno.test("orders to stop, start and restart; one that is stopped stays so, and its name is looked up", () =>
  withServices(async ({ guest, services, jobs }) => {
    await services.use(of({ a: { command: ["a"] } }));
    const { id } = await reaches(jobs, "a", "Ready");
    const stopped = await services.act("a", "stop");
    assertEquals([stopped.id, stopped.state, stopped.service?.state, stopped.reason], [
      id,
      "Ended",
      "Stopped",
      "stopped by sbx services stop",
    ]);
    assertEquals(stopped.exit_code, 143);
    await services.act("a", "stop");
    assertEquals(guest.starts.length, 1);
    // Two at once start it once.
    await Promise.all([services.act("a", "start"), services.act("a", "start")]);
    await reaches(jobs, "a", "Ready");
    assertEquals([guest.starts.length, (await statusOf(jobs, "a")).id], [2, id]);
    await services.act("a", "restart");
    await reaches(jobs, "a", "Ready");
    assertEquals(guest.starts.length, 3);
    assertEquals((await assertRejects(() => services.act("b", "stop"), SbxError)).code, "service.not_found");
    const near = await assertRejects(() => services.act("A", "stop"), SbxError);
    assertEquals(near.hint, 'did you mean "a"?');
    for (const name of ["__proto__", "constructor"]) {
      assertEquals(
        (await assertRejects(() => services.act(name, "start"), SbxError)).code,
        "service.not_found",
      );
    }
    // As a job it is stopped too.
    await jobs.stop(id, 1000);
    await reaches(jobs, "a", "Stopped");
  }));

Deno.test("a guest that does not end a program holds up no order", () =>
  withServices(async ({ guest, services, jobs }) => {
    guest.obeys = false;
    await services.use(of({ a: { command: ["a"] } }));
    await reaches(jobs, "a", "Ready");
    assertEquals((await services.act("a", "stop")).service?.state, "Stopped");
    await services.act("a", "start");
    await reaches(jobs, "a", "Ready");
  }));

Deno.test("one that is ended while it waits for its next start is stopped", () =>
  withServices(async ({ guest, services, jobs }) => {
    guest.listen(1);
    await services.use(
      of({
        a: { command: ["a"] },
        b: { command: ["b"], after: ["c"] },
        c: { command: ["c"], ready: { port: 2 } },
      }),
    );
    await reaches(jobs, "b", "Waiting");
    assertEquals((await services.act("b", "stop")).service?.state, "Stopped");
  }));

Deno.test("a new profile starts what is new, restarts what has changed, and ends what is gone", () =>
  withServices(async ({ guest, services, jobs }) => {
    await services.use(
      of({ same: { command: ["same"] }, other: { command: ["other"] }, gone: { command: ["gone"] } }),
    );
    for (const name of ["same", "other", "gone"]) await reaches(jobs, name, "Ready");
    await services.use(
      of({ same: { command: ["same"] }, other: { command: ["changed"] }, more: { command: ["more"] } }),
    );
    for (const name of ["same", "other", "more"]) await reaches(jobs, name, "Ready");
    assertEquals(guest.starts.slice(3).map(({ program }) => program.argv[0]), ["changed", "more"]);
    assertEquals((await jobs.list()).map(({ service }) => service!.name).toSorted(), [
      "more",
      "other",
      "same",
    ]);
  }));

Deno.test("with its VM a service ends, and the next start of the VM starts it again, as the same job", () =>
  withServices(async ({ guest, services, jobs, again }) => {
    const definitions = of({ a: { command: ["a"] } });
    await services.use(definitions);
    const { id } = await reaches(jobs, "a", "Ready");
    await services.end();
    await jobs.settle();
    await again().use(definitions);
    await eventually("it runs again", () => guest.starts.length === 2);
    assertEquals((await statusOf(jobs, "a")).id, id);
  }));

Deno.test("services do not count against the jobs of a VM, nor push them out", () =>
  withServices(async ({ services, jobs, guest }) => {
    await services.use(
      of(Object.fromEntries(Array.from({ length: 16 }, (_, at) => [`s${at}`, { command: ["x"] }]))),
    );
    await eventually("all run", () => guest.starts.length === 16);
    for (let at = 0; at < 64; at++) await jobs.start({ argv: ["job"], tty: false }, 1000);
    assertEquals(
      (await assertRejects(() => jobs.start({ argv: ["job"], tty: false }, 1), SbxError)).code,
      "vm.busy",
    );
    for (const start of guest.starts.slice(16)) start.exit(0);
    await eventually("50 jobs are kept", async () => (await jobs.list()).length === 66);
    assert((await jobs.list()).filter(({ service }) => service).length === 16);
  }));
