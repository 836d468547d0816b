/**
 * A service whose program, or whose guest's agent, is hostile: it ends in a loop,
 * lies, floods, or does not end.
 */
import { assert, assertEquals } from "@std/assert";
import { Services as Definitions } from "../../../lib/config/profile/services/schema.ts";
import { Jobs, OutputReader } from "../../../lib/session/job/mod.ts";
import { FAILURES_MAX, Services } from "../../../lib/session/services/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { eventually } from "../../helper/sbx.ts";

const MIB = 1024 * 1024;

/**
 * Runs a hostile service of one start or many.
 * @param run a start of its program
 * @returns its job, at its end
 */
async function service(
  definition: Record<string, unknown>,
  run: (output: (text: string) => Promise<void>) => Promise<number>,
) {
  const dir = await Deno.makeTempDir();
  let starts = 0;
  const exec = async (
    _: unknown,
    streams: {
      decided(id: string, allowed: boolean): void;
      output(stream: "stdout", data: string): Promise<void>;
    },
  ) => {
    starts++;
    streams.decided("0123456789ab", true);
    return {
      exit_code: await run((text) => streams.output("stdout", new TextEncoder().encode(text).toBase64())),
    };
  };
  const jobs = new Jobs(dir, {
    exec,
    scrub: (value) => Promise.resolve(value),
    terminal: () => Promise.reject(new Error("not used")),
  });
  const reasons: string[] = [];
  const services: Services = new Services({
    jobs,
    guest: { exec, present: () => Promise.resolve(true), listens: () => Promise.resolve(true) },
    onFailed: () => {},
    pause: async () => {
      reasons.push((await jobs.list())[0].service?.reason ?? "");
      await new Promise((resolve) => setTimeout(resolve));
    },
  });
  try {
    await services.use(Definitions.parse({ evil: { command: ["evil"], ...definition } }));
    await eventually("it is given up", async () => (await jobs.list())[0].state === "Ended");
    const [job] = await jobs.list();
    // Its record is written beside the output.
    await jobs.settle();
    const files = Array.from(Deno.readDirSync(`${dir}/${job.id}`), ({ name }) => `${dir}/${job.id}/${name}`);
    const bytes = files.reduce((sum, file) => sum + Deno.statSync(file).size, 0);
    using reader = new OutputReader(`${dir}/${job.id}`);
    const first = reader.read();
    return { job, reasons, starts, bytes, first };
  } finally {
    await services.end();
    await jobs.settle();
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("a program, or an agent, that claims ends in a loop is started ten times, and no more", async () => {
  const { job, starts } = await service({}, () => Promise.resolve(0));
  assertEquals([starts, job.service?.state, job.service?.restarts], [
    FAILURES_MAX,
    "Failed",
    FAILURES_MAX - 1,
  ]);
});

Deno.test("output of a service takes the space of its limit, over all of its starts", async () => {
  const line = "x".repeat(MIB);
  const { bytes, first } = await service({ log_mb: 1 }, async (output) => {
    for (let at = 0; at < 3; at++) await output(line);
    return 1;
  });
  assert(bytes <= 1.1 * MIB, `${bytes}`);
  assert(first!.missing > 0);
});

Deno.test("a failure of the guest is the reason without control characters, and short", async () => {
  const evil = () => {
    throw new SbxError("guest.failed", `\x1b[2J\x1b]0;owned\x07${"A".repeat(10_000)}\r\nfake: line`);
  };
  const { job, reasons } = await service({}, evil);
  for (const each of reasons) assert(each.length <= 200 && !/\p{Cc}/u.test(each), each);
  const { reason } = job.service!;
  assertEquals(job.service?.state, "Failed");
  assert(reason!.length <= 200 && !/\p{Cc}/u.test(reason!), reason);
  assertEquals(job.reason, reason);
});
