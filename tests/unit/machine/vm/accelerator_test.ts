/** The trial of KVM, with programs in QEMU's place that print, count and end as QEMU does. */
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "node:path";
import { currentArch } from "../../../../lib/base/arch/mod.ts";
import {
  type AcceleratorChoice,
  chooseAccelerator,
  probeAccelerator,
} from "../../../../lib/machine/vm/mod.ts";

const BOOT = { arch: currentArch(), kernel: "/k", initrd: "/i" };
/** Short for a test; a trial that ends by evidence has all the time of a slow machine. */
const PATIENT = { boot: 60_000, still: 60_000, interval: 10 };

/** QEMU's monitor, which counts as KVM does; `counters` gets the number of the question. */
const MONITOR = (counters: string) => `
const path = Deno.args[Deno.args.indexOf("-qmp") + 1].slice("unix:".length).split(",")[0];
const listener = Deno.listen({ transport: "unix", path });
const conn = await listener.accept();
const say = (line) => conn.write(new TextEncoder().encode(JSON.stringify(line) + "\\n"));
await say({ QMP: {} });
const counters = ${counters};
let asked = 0;
for await (const text of conn.readable.pipeThrough(new TextDecoderStream())) {
  for (const line of text.trim().split("\\n")) {
    const { execute } = JSON.parse(line);
    if (execute !== "query-stats") { await say({ return: {} }); continue; }
    const stats = Object.entries(counters(++asked)).map(([name, value]) => ({ name, value }));
    await say({ return: [{ provider: "kvm", stats }] });
  }
}
await new Promise(() => setInterval(() => {}, 1000));
`;

interface Trial {
  runDir: string;
  /** starts of QEMU until now */
  starts(): Promise<number>;
  choose(limits?: typeof PATIENT): Promise<AcceleratorChoice>;
  probe(limits?: typeof PATIENT): Promise<AcceleratorChoice>;
}

/** @param script shell code in QEMU's place */
async function withQemu(script: string, test: (trial: Trial) => Promise<void>, monitor = ""): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    const [qemu, device, count] = ["qemu", "kvm", "starts"].map((name) => join(dir, name));
    await Deno.writeTextFile(join(dir, "monitor.ts"), monitor);
    const run = `exec ${Deno.execPath()} run -A --no-config --quiet ${join(dir, "monitor.ts")} "$@"`;
    await Deno.writeTextFile(
      qemu,
      `#!/bin/sh\necho >>${count}\n${script}\n${monitor ? run : ""}\n`,
      { mode: 0o755 },
    );
    await Deno.writeTextFile(device, "");
    const host = (limits = PATIENT) => ({ device, qemu: () => qemu, limits });
    await test({
      runDir: dir,
      starts: async () => (await Deno.readTextFile(count).catch(() => "")).length,
      choose: (limits) => chooseAccelerator(BOOT, dir, host(limits)),
      probe: (limits) => probeAccelerator(BOOT, dir, host(limits)),
    });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const stored = ({ runDir }: Trial) =>
  Deno.readTextFile(join(runDir, "accelerator.json")).then(JSON.parse).catch(() => undefined);

const READY = "printf 'Booting from ROM..\\nsbx-init: started\\n'";

Deno.test("init's word proves KVM, also where the machine then does not end, and is kept", () =>
  withQemu(`${READY}\nexec sleep 600`, async (trial) => {
    const choice = await trial.choose();
    assertEquals(choice.accelerator, "kvm");
    assertMatch(choice.reason, /^KVM booted a kernel to its first program in \d+\.\d s$/);
    assertEquals(await trial.choose(), choice);
    assertEquals(await trial.starts(), 1);
    await trial.probe();
    assertEquals(await trial.starts(), 2);
  }));

Deno.test("an image without that word proves it by the restart that its init asks for", () =>
  withQemu("echo '[    0.812345] reboot: Restarting system'", async (trial) => {
    assertEquals((await trial.choose()).accelerator, "kvm");
  }));

Deno.test("a kernel that panics has not booted, although QEMU ends with 0, and the next choice tries again", () =>
  withQemu("echo '[ 0.4] Kernel panic - not syncing: Attempted to kill init!'", async (trial) => {
    const choice = await trial.choose();
    assertEquals(choice, {
      accelerator: "tcg",
      reason: "the kernel panicked under KVM: Attempted to kill init!; VMs are emulated",
      isUnsure: true,
    });
    assertEquals(await stored(trial), undefined);
    await trial.choose();
    assertEquals(await trial.starts(), 2);
  }));

Deno.test("a machine that ends with 0 without a word has not booted", () =>
  withQemu("echo 'Booting from ROM..'", async (trial) => {
    const { accelerator, reason, isUnsure } = await trial.choose();
    assertEquals([accelerator, isUnsure], ["tcg", true]);
    assertEquals(reason, "QEMU ended before a kernel had booted under KVM (exit code 0); VMs are emulated");
  }));

Deno.test("QEMU's own message is the reason where it is refused KVM, and no verdict is kept", async () => {
  for (const why of ["Device or resource busy", "Cannot allocate memory"]) {
    const script = `echo "qemu-system-x86_64: failed to initialize kvm: ${why}" >&2\nexit 1`;
    await withQemu(script, async (trial) => {
      const reason = `QEMU cannot use KVM: failed to initialize kvm: ${why}; VMs are emulated`;
      assertEquals(await trial.choose(), { accelerator: "tcg", reason, isUnsure: true });
      assertEquals(await stored(trial), undefined);
    });
  }
});

Deno.test("a message of QEMU is one harmless line", () =>
  withQemu(
    `printf 'first\\nqemu-system-x86_64: \\033[2J%s\\n' ${"x".repeat(5000)} >&2; exit 1`,
    async (trial) => {
      const { reason } = await trial.choose();
      assertMatch(reason, /^QEMU cannot use KVM: \?\[2Jx+; VMs are emulated$/);
      assertEquals(reason.length < 300, true);
    },
  ));

Deno.test("a guest that is late but alive is not called broken", () =>
  withQemu(
    "",
    async (trial) => {
      const { reason, isUnsure } = await trial.choose({ ...PATIENT, boot: 1000 });
      assertEquals(isUnsure, true);
      assertEquals(reason, "KVM did not boot a kernel to its first program in 1 s; VMs are emulated");
      assertEquals(await stored(trial), undefined);
    },
    MONITOR("(n) => ({ exits: 1000 * n, insn_emulation: 300 * n })"),
  ));

Deno.test("a guest that makes no exit stands still, which is no verdict for good", () =>
  withQemu(
    "",
    async (trial) => {
      const { reason, isUnsure } = await trial.choose({ ...PATIENT, still: 300 });
      assertEquals(isUnsure, true);
      assertMatch(reason, /^the guest did nothing under KVM for \d+ s; VMs are emulated$/);
    },
    MONITOR("() => ({ exits: 17, insn_emulation: 3 })"),
  ));

Deno.test("KVM that executes every instruction in software is found by its counters, and is kept", () =>
  withQemu(
    "",
    async (trial) => {
      const choice = await trial.choose();
      assertEquals(choice, {
        accelerator: "tcg",
        reason: "this host's KVM executes guests' instructions in software, slower than QEMU does; " +
          "VMs are emulated",
      });
      assertEquals(await trial.choose(), choice);
      assertEquals(await trial.starts(), 1);
    },
    MONITOR("(n) => ({ exits: 3000 * n, insn_emulation: 1_900_000 * n })"),
  ));

Deno.test("a verdict of another QEMU, of another run of the host or of an earlier sbx does not count", () =>
  withQemu(READY, async (trial) => {
    await trial.choose();
    const path = join(trial.runDir, "accelerator.json");
    const text = await Deno.readTextFile(path);
    for (
      const other of [
        text.replace(/"key":"\w/, '"key":"-'),
        JSON.stringify({ key: JSON.parse(text).key, accelerator: "tcg", reason: "does not boot a kernel" }),
        "{",
      ]
    ) {
      await Deno.writeTextFile(path, other);
      const before = await trial.starts();
      assertEquals((await trial.choose()).accelerator, "kvm");
      assertEquals(await trial.starts(), before + 1);
    }
  }));

Deno.test("a trial that is refused forgets an earlier success", () =>
  withQemu(`[ -e "$0.busy" ] && { echo busy >&2; exit 1; }\n${READY}`, async (trial) => {
    assertEquals((await trial.choose()).accelerator, "kvm");
    await Deno.writeTextFile(join(trial.runDir, "qemu.busy"), "");
    assertEquals((await trial.choose()).accelerator, "kvm");
    assertEquals((await trial.probe()).reason, "QEMU cannot use KVM: busy; VMs are emulated");
    assertEquals((await trial.choose()).accelerator, "tcg");
  }));

Deno.test("a host without the device tries nothing", () =>
  withQemu(READY, async (trial) => {
    await Deno.remove(join(trial.runDir, "kvm"));
    assertEquals((await trial.choose()).reason, "this host has no /dev/kvm");
    assertEquals(await trial.starts(), 0);
  }));
