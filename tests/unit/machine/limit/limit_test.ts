/** Limits of a VM and of its programs (docs/guides/limits.md). */
import { assert, assertEquals } from "@std/assert";
import {
  CpuShare,
  DiskRate,
  limitCpu,
  limitedProgram,
  narrowLimits,
  ProgramLimits,
  Rate,
  reachedLimits,
  VmLimits,
  watchDisk,
} from "../../../../lib/machine/limit/mod.ts";

Deno.test("of each limit the lower one holds", () => {
  assertEquals(narrowLimits(undefined, undefined), undefined);
  assertEquals(narrowLimits({}, { processes: undefined }), undefined);
  assertEquals(narrowLimits({ processes: 5, file_mb: 1 }, { processes: 9, open_files: 20 }), {
    processes: 5,
    file_mb: 1,
    open_files: 20,
  });
});

Deno.test("a limit of 0, below zero, of a fraction, and an unknown one are refused", () => {
  for (
    const wrong of [{ processes: 0 }, { file_mb: -1 }, { open_files: 1.5 }, { memory: 1 }, {
      cpu_percent: 50,
    }]
  ) {
    assertEquals(ProgramLimits.safeParse(wrong).success, false, JSON.stringify(wrong));
  }
  for (const wrong of [{ cpu_percent: 4 }, { disk_mb_per_s: 0 }, { network_mb_per_s: "1" }]) {
    assertEquals(VmLimits.safeParse(wrong).success, false, JSON.stringify(wrong));
  }
});

/**
 * Runs a limited program with this machine's own shell. No limit of processes: that needs a guest's cgroups.
 */
async function run(argv: string[], limits: ProgramLimits) {
  const [program, ...args] = limitedProgram(argv, limits, undefined, "id").argv;
  const { code, signal, stdout, stderr } = await new Deno.Command(program, { args }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, signal, stdout: text(stdout), stderr: text(stderr) };
}

Deno.test("a limited program has its arguments, its exit code and its limits", async () => {
  const words = ["-n", "a  b", "$HOME", "'\"", ""];
  const echoed = await run(["printf", "%s|", ...words], { open_files: 64 });
  assertEquals([echoed.code, echoed.stdout], [0, words.map((word) => `${word}|`).join("")]);
  assertEquals(await run(["sh", "-c", "ulimit -n; exit 7"], { open_files: 64 }), {
    code: 7,
    signal: null,
    stdout: "64\n",
    stderr: "",
  });
  const missing = await run(["no-such-program"], { open_files: 64 });
  assertEquals([missing.code, missing.stderr], [
    126,
    "sbx: cannot run no-such-program: the program was not found\n",
  ]);
});

Deno.test("a program that writes a larger file is ended by SIGXFSZ", async () => {
  const path = await Deno.makeTempFile();
  try {
    const { signal } = await run(["dd", "if=/dev/zero", `of=${path}`, "bs=65536", "count=64"], {
      file_mb: 1,
    });
    assertEquals([signal, (await Deno.stat(path)).size], ["SIGXFSZ", 1024 ** 2]);
  } finally {
    await Deno.remove(path);
  }
});

Deno.test("processes are counted for root alone, and a limit that was reached is named", () => {
  const counters = [undefined, "root", "0", "0:0", "app", "1000:0"].map((user) =>
    limitedProgram(["true"], { processes: 5 }, user, "f00").counter
  );
  const counter = "/sys/fs/cgroup/sbx/f00/pids.events";
  assertEquals(counters, [counter, counter, counter, counter, undefined, undefined]);
  assertEquals(limitedProgram(["true"], { file_mb: 5 }, undefined, "f00").counter, undefined);
  assertEquals(reachedLimits({ processes: 5 }, 0, "max 0\n"), []);
  assertEquals(reachedLimits({ processes: 5 }, 2, "max 3\n"), ["processes"]);
  assertEquals(reachedLimits({ file_mb: 5 }, 153), ["file_mb"]);
  assertEquals(reachedLimits({ open_files: 50 }, 153), [], "the program's own exit code");
  assertEquals(reachedLimits({ processes: 5 }, 0, "the guest says nonsense"), []);
});

Deno.test("a share of a processor: time in excess is stood still for, and idle time is saved up for a moment", () => {
  const share = new CpuShare(50, 0, 0);
  assertEquals(share.look(20, 10), 0, "just its share");
  assertEquals(share.look(40, 50), 60, "30 ms too much at half a processor");
  assertEquals(share.look(100, 50), 0, "stood still, and may go on");
  assertEquals(share.look(10_000, 50), 0, "idle");
  assertEquals(share.look(10_020, 150), 0, "what it saved up: 100 ms, whatever the time");
  assertEquals(share.look(10_040, 190), 40);
  assertEquals(new CpuShare(5, 0, 0).look(20, 4000), 400, "never long without a break");
});

Deno.test("a machine of many processors keeps to a small share of one over time", () => {
  for (const [percent, processors] of [[5, 4], [5, 16], [100, 64]]) {
    const share = new CpuShare(percent, 0, 0);
    let [now, used] = [0, 0];
    while (now < 100_000) {
      used += processors * share.runMs;
      now += share.runMs;
      now += share.look(now, used);
    }
    assert(used < now * percent / 100 * 1.1, `${used} of ${now} ms, ${percent} % of ${processors}`);
  }
});

/** Waits for a promise behind timers that keep no process alive. */
async function awaited(promise: Promise<void>): Promise<void> {
  const alive = setInterval(() => {}, 1000);
  await promise.finally(() => clearInterval(alive));
}

Deno.test("a machine that uses too much stands still, goes on, and is left alone after its end", async () => {
  const calls: string[] = [];
  let used = 0;
  const machine = {
    cpuMs: () => Promise.resolve(used += 1000),
    stop: () => void calls.push("stop"),
    go: () => void calls.push("go"),
    onReached: () => void calls.push("reached"),
    get isOver() {
      return calls.filter((call) => call === "reached").length === 2;
    },
  };
  await awaited(limitCpu(machine, 100));
  assertEquals(calls, ["reached", "stop", "go", "reached", "stop"], "an ended machine is not let go");
});

Deno.test("a machine whose use cannot be read for a moment is limited again after that", async () => {
  const calls: string[] = [];
  let used = 0;
  let reads = 0;
  const machine = {
    cpuMs: () =>
      reads++ % 2 === 0 ? Promise.reject(new Error("too many open files")) : Promise.resolve(used += 1000),
    stop: () => void calls.push("stop"),
    go: () => void calls.push("go"),
    onReached: () => {},
    get isOver() {
      return calls.length === 4 || reads > 100;
    },
  };
  await awaited(limitCpu(machine, 100));
  assertEquals(calls, ["stop", "go", "stop", "go"]);
});

Deno.test("a machine that is written down is not stood still for, and owes nothing of that time", async () => {
  const calls: string[] = [];
  let used = 0;
  let looks = 0;
  const machine = {
    // 1 s of use a look while it is written down, and none after that.
    cpuMs: () => Promise.resolve(looks++ < 5 ? used += 1000 : used),
    stop: () => void calls.push("stop"),
    go: () => void calls.push("go"),
    onReached: () => void calls.push("reached"),
    isExempt: () => looks <= 5,
    get isOver() {
      return looks > 10;
    },
  };
  await awaited(limitCpu(machine, 5));
  assertEquals([calls, looks], [[], 11]);
});

Deno.test("bytes of all streams share a rate, in the order in which they come", () => {
  const rate = new Rate(1000, () => {});
  assertEquals(rate.reserve(100, 0), 0, "a burst");
  assertEquals(rate.reserve(500, 0), 500);
  assertEquals(rate.reserve(100, 0), 600, "the next stream waits for the one before");
  assertEquals(rate.reserve(100, 700), 0, "their time is over");
  assertEquals(rate.reserve(100, 10_000), 0, "time without bytes is not saved up");
  assert(rate.reserve(200, 10_000) > 0);
});

Deno.test("a rate reports that it holds bytes back", async () => {
  let reached = 0;
  const rate = new Rate(1_000_000, () => reached++);
  await awaited(rate.take(1));
  assertEquals(reached, 0);
  await awaited(rate.take(200_000));
  assertEquals(reached, 1);
});

Deno.test("a disk is held back where it was as fast as it may since the last look", () => {
  const rate = new DiskRate(1_000_000);
  const look = (at: number, bytes: number, operations: number) => rate.look(at, { bytes, operations });
  assertEquals(look(5_000, 90_000_000, 1_000), false, "nothing to compare with");
  assertEquals(look(6_000, 90_500_000, 1_100), false);
  assertEquals(look(7_000, 91_500_000, 1_200), true);
  assertEquals(look(9_000, 92_500_000, 1_300), false);
  assertEquals(look(10_000, 93_250_000, 1_303), true, "three operations of 250,000, and one under way");
  assertEquals(look(11_000, 93_250_000, 1_303), false, "idle");
  assertEquals(look(12_000, 93_850_000, 1_304), false, "a lone operation, which nothing made wait");
  assertEquals(look(13_000, 94_850_000, 1_305), true, "one that took the whole second");
});

Deno.test("a disk at its rate is reported once, and one whose machine has ended is left alone", async () => {
  const looksOf = async (bytes: (look: number) => number) => {
    let [reached, looks] = [0, 0];
    const disk = {
      use: () =>
        looks++ === 1
          ? Promise.reject(new Error("no answer"))
          : Promise.resolve({ bytes: bytes(looks), operations: looks }),
      onReached: () => void reached++,
      get isOver() {
        return looks === 6;
      },
    };
    await awaited(watchDisk(disk, 1_000_000, 1));
    return [reached, looks];
  };
  assertEquals(await looksOf((look) => look * 1e12), [1, 3]);
  assertEquals(await looksOf(() => 1e12), [0, 6]);
});
