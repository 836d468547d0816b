/** The service that is an image's program: its health check and its signal. Programs are promises. */
import { assertEquals } from "@std/assert";
import { timeLimit } from "../../../../lib/base/time/mod.ts";
import { imagePorts, imageProgram } from "../../../../lib/release/environment/mod.ts";
import type { JobProgram, JobRecord } from "../../../../lib/session/job/mod.ts";
import { type JobRunner, Jobs } from "../../../../lib/session/job/mod.ts";
import {
  type FailedService,
  imageService,
  newlyFailed,
  Services,
} from "../../../../lib/session/services/mod.ts";
import { eventually } from "../../../helper/sbx.ts";

const PID = 4711;
/** Time that a program has to end after its image's signal, in `ms`. */
const STOP_MS = timeLimit(10_000);
/** Time between health checks: no whole multiple of the other. */
const INTERVAL_MS = 61_000;
const CONFIG = {
  env: {},
  entrypoint: ["/serve"],
  cmd: ["all"],
  stop_signal: "SIGQUIT",
  healthcheck: { Test: ["CMD-SHELL", "probe"], Interval: INTERVAL_MS * 1e6, Timeout: 5e9, Retries: 2 },
};

/** Programs that run, which the test ends. */
class Guest {
  readonly running: { program: JobProgram; end(code: number, output?: string): void }[] = [];
  readonly pauses: number[] = [];
  /** resolves the wait for the program's end by its signal */
  waited = Promise.withResolvers<void>();
  failed: FailedService[] = [];
  /** ends of the checks to come, which the test does not end itself */
  codes: number[] = [];
  readonly exec: JobRunner["exec"] = async (program, streams, cancelled) => {
    streams.decided("0123456789ab", true);
    const [code] = program.service?.isKept ? [] : this.codes.splice(0, 1);
    if (code !== undefined) return { exit_code: code };
    const ended = Promise.withResolvers<number>();
    streams.started?.(PID);
    this.running.push({
      program,
      async end(code, output) {
        if (output !== undefined) await streams.output("stderr", btoa(output));
        ended.resolve(code);
      },
    });
    cancelled.addEventListener("abort", () => ended.resolve(143));
    if (cancelled.aborted) ended.resolve(143);
    return { exit_code: await ended.promise };
  };

  /** The next program that starts. */
  async next(): Promise<Guest["running"][number]> {
    await eventually("a program starts", () => this.running.length > 0);
    return this.running.shift()!;
  }
}

async function withImage(
  config: Parameters<typeof imageProgram>[0],
  work: (
    world: { guest: Guest; services: Services; reaches(state: string): Promise<JobRecord> },
  ) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir();
  const guest = new Guest();
  const jobs = new Jobs(dir, {
    exec: guest.exec,
    scrub: (value) => Promise.resolve(value),
    terminal: () => Promise.reject(),
  });
  const services = new Services({
    jobs,
    guest: { exec: guest.exec, present: () => Promise.resolve(true), listens: () => Promise.resolve(false) },
    onFailed: (failed) => guest.failed = failed,
    async pause(ms) {
      guest.pauses.push(ms);
      await (ms === STOP_MS ? guest.waited.promise : new Promise((resolve) => setTimeout(resolve)));
    },
  });
  const ofImage = async () => (await jobs.list()).find(({ service }) => service?.name === "image");
  try {
    await services.use({ image: imageService(imageProgram(config)!) });
    await work({
      ...{ guest, services },
      async reaches(state) {
        await eventually(`it is ${state}`, async () => (await ofImage())?.service?.state === state);
        return (await ofImage())!;
      },
    });
  } finally {
    guest.waited.resolve();
    await services.end();
    await jobs.settle();
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("a person starts an image's program; its health check sets its state, and ends nothing", () =>
  withImage(CONFIG, async ({ guest, services, reaches }) => {
    assertEquals(guest.running, [], "it does not start with the VM");
    await services.act("image", "start");
    assertEquals((await guest.next()).program.argv, ["/serve", "all"]);
    const check = async () => {
      const { program, end } = await guest.next();
      assertEquals([program.argv, program.timeout_ms], [["/bin/sh", "-c", "probe"], 5000]);
      assertEquals(program.service, { name: "image", isKept: false });
      return end;
    };
    (await check())(1, "not yet");
    const second = await check();
    await reaches("Starting");
    second(0);
    await reaches("Ready");
    // Twice in a row make it unhealthy.
    (await check())(1);
    (await check())(0);
    (await check())(1);
    const last = await check();
    await reaches("Ready");
    last(7, "line\nno \x1b[2Jdatabase\n");
    const { state, service } = await reaches("Unhealthy");
    assertEquals([state, service?.restarts, service?.reason?.includes("\x1b")], ["Running", 0, false]);
    assertEquals(guest.failed, [{ name: "image", reason: service!.reason!, is_unhealthy: true }]);
    assertEquals(service!.reason!.startsWith("exit code 7: no "), true, service!.reason);
    (await check())(0);
    await reaches("Ready");
    assertEquals(guest.failed, []);
    assertEquals(guest.pauses.slice(0, 3), [5000, INTERVAL_MS, INTERVAL_MS]);
  }));

Deno.test("the record has a service that failed for good, once, and none that is unhealthy", () => {
  const [failed, unhealthy]: FailedService[] = [
    { name: "image", reason: "exit code 1" },
    { name: "image", reason: "exit code 1", is_unhealthy: true },
  ];
  assertEquals(newlyFailed([], [failed]), [failed]);
  assertEquals(newlyFailed([], [unhealthy]), []);
  assertEquals(newlyFailed([unhealthy], [failed]), [failed]);
  assertEquals(newlyFailed([failed], [failed]), []);
  assertEquals(newlyFailed([{ name: "web", reason: "" }], [failed]), [failed]);
});

Deno.test("failures in the start period of an image's program do not count, until a check succeeds", () =>
  withImage(
    {
      ...CONFIG,
      healthcheck: {
        Test: ["CMD", "probe"],
        Interval: INTERVAL_MS * 1e6,
        Retries: 1,
        StartPeriod: 3600e9,
        StartInterval: 2e9,
      },
    },
    async ({ guest, services, reaches }) => {
      await services.act("image", "start");
      await guest.next();
      for (let at = 0; at < 5; at++) (await guest.next()).end(1);
      const { end } = await guest.next();
      await reaches("Starting");
      end(0);
      await reaches("Ready");
      (await guest.next()).end(1);
      await reaches("Unhealthy");
      assertEquals(guest.pauses.slice(0, 8), [...Array(6).fill(2000), INTERVAL_MS, INTERVAL_MS]);
    },
  ));

Deno.test("checks that an image wants every second become rare while they bring nothing new", () =>
  withImage(
    {
      ...CONFIG,
      healthcheck: { Test: ["CMD", "probe"], Interval: 1e9, StartInterval: 1e9, Retries: 2 },
    },
    async ({ guest, services, reaches }) => {
      await services.act("image", "start");
      await guest.next();
      /** @param codes ends of the next checks. @returns the pauses after them, in `s` */
      const pausesAfter = async (...codes: number[]) => {
        const { end } = await guest.next();
        const from = guest.pauses.length;
        guest.codes = codes.slice(1);
        end(codes[0]);
        await eventually("each has a pause", () => guest.pauses.length === from + codes.length);
        return guest.pauses.slice(from).map((ms) => ms / 1000);
      };
      assertEquals(await pausesAfter(0, 0, 0, 0, 0, 0, 0, 0), [1, 2, 4, 8, 16, 30, 30, 30]);
      assertEquals(await pausesAfter(1, 1, 1, 1), [1, 1, 2, 4], "a failure makes it look at once");
      await reaches("Unhealthy");
      // A program whose health comes and goes.
      const often = await pausesAfter(...Array.from({ length: 200 }, (_, at) => at % 2));
      const seconds = often.reduce((sum, wait) => sum + wait, 0);
      assertEquals([often.slice(0, 100).every((wait) => wait === 1), seconds > 1000], [true, true]);
    },
  ));

Deno.test("the image's signal comes first when its program is stopped, and SIGTERM when it does not end by it", () =>
  withImage({ ...CONFIG, healthcheck: undefined }, async ({ guest, services, reaches }) => {
    await services.act("image", "start");
    const own = await guest.next();
    await reaches("Ready");
    const stopped = services.settle();
    const { program, end } = await guest.next();
    assertEquals(program.argv.slice(1), ["kill", "-s", "3", `${PID}`]);
    assertEquals([program.user, program.service?.isKept], ["0", false]);
    end(0);
    own.end(0);
    await stopped;
    assertEquals((await reaches("Stopped")).exit_code, 0);

    await services.act("image", "start");
    await guest.next();
    await reaches("Ready");
    const late = services.act("image", "stop");
    (await guest.next()).end(0);
    await eventually("it has time to end", () => guest.pauses.includes(STOP_MS));
    guest.waited.resolve();
    await late;
    assertEquals((await reaches("Stopped")).exit_code, 143);
  }));

Deno.test("an image's program is stopped without an answer to policy's question about its signal", () =>
  withImage({ ...CONFIG, healthcheck: undefined }, async ({ guest, services, reaches }) => {
    await services.act("image", "start");
    await guest.next();
    await reaches("Ready");
    const stopped = services.settle();
    // The program that sends the signal waits.
    await guest.next();
    guest.waited.resolve();
    await stopped;
    assertEquals((await reaches("Stopped")).exit_code, 143);
  }));

Deno.test("what an image says of its program is read as Docker does, and left out where it is wrong", () => {
  const program = (parts: Record<string, unknown>) => imageProgram({ env: {}, cmd: ["a"], ...parts });
  assertEquals(imageProgram({ env: {} }), undefined);
  assertEquals(imageProgram({ env: {}, cmd: ["a\0b"] }), undefined);
  assertEquals(imageProgram({ env: {}, cmd: Array(300).fill("a") }), undefined);
  const signals: [string, number | undefined][] = [
    ...([["SIGTERM", 15], ["quit", 3], ["9", 9], ["SIGWINCH", 28]] as [string, number][]),
    ...([["SIGRTMIN+3", 37], ["RTMAX-1", 63]] as [string, number][]),
    ...["SIGNONE", "0", "65", "RTMIN-40", "3; reboot", "-9", ""].map((
      text,
    ): [string, undefined] => [text, undefined]),
  ];
  for (const [stop_signal, number] of signals) {
    assertEquals(program({ stop_signal })?.stop_signal, number, stop_signal);
  }
  const healthy = (healthcheck: unknown) => program({ healthcheck })?.health;
  for (
    const wrong of [
      { Test: ["NONE"] },
      { Test: [] },
      { Test: ["CMD"] },
      { Test: ["CMD-SHELL", "a", "b"] },
      { Test: ["sh"] },
      { Test: "curl" },
      { Test: ["CMD", "a"], Interval: "1s" },
      { Test: ["CMD", "a"], Retries: -1 },
      [],
      "x",
    ]
  ) assertEquals(healthy(wrong), undefined, JSON.stringify(wrong));
  const usual = { interval_ms: 30_000, timeout_ms: 30_000, start_ms: 0, start_interval_ms: 5000, retries: 3 };
  assertEquals(healthy({ Test: ["CMD", "a"], Interval: 0, Retries: 0 }), { command: ["a"], ...usual });
  const bounded = healthy({ Test: ["CMD", "a"], Interval: 1, Timeout: 1e30, Retries: 1e9 });
  assertEquals([bounded?.interval_ms, bounded?.timeout_ms, bounded?.retries], [1000, 3_600_000, 100]);
  const exposed_ports = ["80/tcp", "53/udp", "443", "0/tcp", "70000", "x", "9000-9002/tcp", "9-1", "80"];
  assertEquals(imagePorts({ env: {}, exposed_ports }), [80, 443, 9000, 9001, 9002]);
  assertEquals(imagePorts({ env: {}, exposed_ports: ["1-65535"] }).length, 64);
});
