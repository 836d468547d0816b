/**
 * Copies of VMs. Those of a stopped VM work on every host; `make test-large` runs this file again in Debian
 * trixie, whose QEMU can copy a VM that runs.
 */
import {
  assert,
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertObjectMatch,
  assertStringIncludes,
} from "@std/assert";
import { join } from "node:path";
import { eventually, Sbx } from "../helper/sbx.ts";
import { requireClock } from "./clock_steps.ts";
import { KeyUpstream } from "./key_upstream.ts";
import { attachTerminal } from "./terminal.ts";

/**
 * Counts into a file that stays open, and leaves no number out; beside each the
 * host's name and a random number.
 */
const COUNT = `import itertools, os, socket, time
with open("/workspace/count", "w", 1) as file:
  for n in itertools.count(1):
    print(n, socket.gethostname(), os.urandom(8).hex(), file=file)
    time.sleep(0.05)`;
/** Everything by which machines are told apart. */
const IDENTITY = "hostname; cat /etc/machine-id /etc/hostname; od -An -N16 -tx1 /dev/urandom; " +
  "python3 -c 'import secrets; print(secrets.token_hex())'";

/** A home with what the steps need to know of its VMs. */
class Forks {
  constructor(readonly sbx: Sbx) {}

  exec(vm: string, command: string): Promise<string> {
    return this.sbx.ok("exec", vm, "--", "sh", "-c", command);
  }

  async info(vm: string) {
    return JSON.parse(await this.sbx.ok("info", vm, "--json"));
  }

  async names(): Promise<string[]> {
    return JSON.parse(await this.sbx.ok("list", "--json")).vms.map(({ name }: { name: string }) => name);
  }

  /** What is in the folder of VMs and in that of ledgers. */
  async files(): Promise<string[]> {
    const dirs = ["sessions", "ledgers"].map((name) => join(this.sbx.home, name));
    const all = await Promise.all(dirs.map((dir) => Array.fromAsync(Deno.readDir(dir), ({ name }) => name)));
    return all.flat().sort();
  }

  /** Lines of the counting program. */
  async lines(vm: string): Promise<string[]> {
    const { workspace } = await this.info(vm);
    return (await Deno.readTextFile(join(workspace, "count")).catch(() => "")).split("\n").slice(0, -1);
  }

  async counted(vm: string): Promise<number[]> {
    return (await this.lines(vm)).map((line) => Number(line.split(" ")[0]));
  }

  /** Waits until a program counts on, and finds that no number is missing. */
  async countsOn(vm: string): Promise<void> {
    const before = (await this.counted(vm)).length;
    await eventually(`${vm} counts on`, async () => (await this.counted(vm)).length > before + 5);
    const numbers = await this.counted(vm);
    assertEquals(numbers, numbers.map((_, at) => at + 1));
  }
}

Deno.test("a VM is forked", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  const forks = new Forks(sbx);
  const keys = await KeyUpstream.make(sbx);
  try {
    await sbx.ok("create", "dev", "-e", "WHO=me");
    const dev = await forks.info("dev");
    await forks.exec("dev", "echo kept >/root/kept; echo shared >shared");
    await keys.capture("dev");
    await keys.works("dev");

    if (Deno.env.has("SBX_REQUIRE_SUSPEND")) assert(dev.features.live_fork, "this host can fork running VMs");
    if (dev.features.live_fork) await runningVm(t, forks, keys, dev.id);
    else {
      await t.step("a host that cannot copy a running VM says what is missing", async () => {
        const { status, body } = await sbx.api("POST", "/vms/dev/fork", {});
        assertEquals([status, body.code], [409, "vm.not_supported"]);
        assertMatch(body.error, /needs QEMU 8\.2 and virtiofsd 1\.11 or later; this host has QEMU \d/);
        assertStringIncludes(body.hint, "sbx stop dev");
        assertEquals(await forks.exec("dev", "cat /root/kept"), "kept\n");
      });
    }

    await t.step("a running VM is forked with the workspace of a snapshot, and goes on", async () => {
      const { id } = JSON.parse(await sbx.ok("snapshots", "create", "dev", "--json"));
      await forks.exec("dev", "echo later >shared; echo new >new; echo disk >/root/disk");
      await sbx.ok("fork", "dev", "earlier", "--at", id);
      assertEquals(await forks.exec("earlier", "cat shared /root/disk; ls"), "shared\ndisk\nshared\n");
      assertEquals(await forks.exec("dev", "cat shared new"), "later\nnew\n");
      assertEquals((await forks.info("dev")).status, "Running");
      const { body } = await sbx.api("POST", "/vms/dev/fork", { at: "s00000000" });
      assertEquals(body.code, "snapshot.not_found");
      await sbx.ok("delete", "earlier");
      await forks.exec("dev", "echo shared >shared; rm new");
    });

    await t.step("a stopped VM is forked twice, each with disk, workspace and variables", async () => {
      await sbx.ok("stop", "dev");
      await sbx.ok("fork", "dev", "copy", "-n", "2");
      for (const name of ["copy-1", "copy-2"]) {
        assertEquals(
          await forks.exec(name, 'cat /root/kept shared; echo "$WHO $(hostname)"'),
          `kept\nshared\nme ${name}\n`,
        );
        await requireClock(sbx, name);
        const { forked_from, started_by } = await forks.info(name);
        assertEquals([forked_from.session, started_by === "fork"], [dev.id, false]);
        assertEquals(forked_from.event.id, await lastEvent(sbx, dev.id));
      }
      await keys.isRefused("copy-1");
    });

    await t.step("a fork that cannot be made leaves nothing behind", async () => {
      const before = [await forks.names(), await forks.files()];
      const refused = async (json: unknown) => (await sbx.api("POST", "/vms/dev/fork", json)).body.code;
      assertEquals(await refused({ name: "copy-2" }), "vm.name_taken");
      // The first of the names is free.
      assertEquals(await refused({ name: "copy", count: 3 }), "vm.name_taken");
      assertEquals(await refused({ name: "x".repeat(63), count: 2 }), "request.invalid");
      assertEquals(await refused({ count: 17 }), "request.invalid");
      assertEquals(await refused({ count: 16 }), "vm.limit");
      assertEquals([await forks.names(), await forks.files()], before);
    });
  } finally {
    await sbx.dispose();
    await keys.close();
  }
});

async function lastEvent(sbx: Sbx, session: string): Promise<string> {
  const { body } = await sbx.api("GET", `/sessions/${session}/events?limit=1000`);
  return body.events.at(-1).common.event_id;
}

async function runningVm(t: Deno.TestContext, forks: Forks, keys: KeyUpstream, dev: string): Promise<void> {
  const { sbx } = forks;

  await t.step(
    "source and fork go on with the same program, and no number is missing in either",
    async () => {
      await forks.exec("dev", `nohup python3 -c '${COUNT}' >/dev/null 2>&1 &`);
      await eventually("it counts", async () => (await forks.counted("dev")).length > 5);
      const terminal = await attachTerminal(sbx, dev);
      terminal.type("here=before; echo set-$here\n");
      await eventually("the shell has the variable", () => terminal.text().includes("set-before"));
      terminal.socket.close();
      const last = await lastEvent(sbx, dev);
      const made = JSON.parse(await sbx.ok("fork", "dev", "two", "--json"));
      assert(made.still_ms > 0);
      const { forked_from, started_by, cpus, ram_mb } = await forks.info("two");
      const source = await forks.info("dev");
      assertEquals([cpus, ram_mb, started_by], [source.cpus, source.ram_mb, "fork"]);
      assertEquals(forked_from.session, dev);
      // Ids grow with time; the guest's programs are events meanwhile.
      assert(forked_from.event.id >= last, `${forked_from.event.id} is before ${last}`);
      await forks.countsOn("dev");
      await forks.countsOn("two");
      assertEquals(
        await forks.exec("two", 'cat /root/kept shared; echo "$WHO $(hostname)"'),
        "kept\nshared\nme two\n",
      );
      for (const name of ["dev", "two"]) {
        const { id } = await forks.info(name);
        const after = await attachTerminal(sbx, id);
        await eventually("its last output is shown again", () => after.text().includes("set-before"));
        after.type("echo shell-$here-again\n");
        await eventually(`the shell of ${name} goes on`, () => after.text().includes("shell-before-again"));
        after.socket.close();
      }
    },
  );

  await t.step("several forks of one moment, and forks of forks, are machines of their own", async () => {
    await sbx.ok("fork", "two", "many", "-n", "2");
    await sbx.ok("suspend", "many-2");
    await sbx.ok("fork", "many-2", "four");
    await forks.countsOn("four");
    // Until it is another machine, no program of a copy runs: not one number is drawn by the source's kernel.
    const before = await forks.lines("many-2");
    const after = await forks.lines("four");
    assertEquals(after.slice(0, before.length), before);
    assertEquals(after.slice(before.length).filter((line) => line.split(" ")[1] !== "four"), []);
    const names = ["dev", "two", "many-1", "four"];
    const lines: string[] = [];
    for (const name of names) lines.push(...(await forks.exec(name, IDENTITY)).trim().split("\n"));
    // A name is there twice, everything else once.
    assertEquals(new Set(lines).size, lines.length - names.length);
    for (const name of names) await forks.countsOn(name);
    assertEquals((await forks.info("four")).forked_from.session, (await forks.info("many-2")).id);
    assertEquals((await forks.info("many-2")).status, "Suspended");
    await sbx.ok("delete", "many-1", "many-2", "four");
  });

  await t.step("every event of a fork names its parent, and all records verify", async () => {
    const { id, forked_from } = await forks.info("two");
    const { body } = await sbx.api("GET", `/sessions/${id}/events`);
    assertObjectMatch(body.events[0].common.labels, {
      forked_from: dev,
      forked_event: forked_from.event.id,
      forked_hash: forked_from.event.hash,
    });
    const { body: { events } } = await sbx.api("GET", `/sessions/${dev}/events?limit=1000`);
    assert(
      events.some(({ common }: { common: { event_id: string } }) => common.event_id === forked_from.event.id),
    );
    await sbx.ok("delete", "two");
    assertStringIncludes(await sbx.ok("verify", id), "valid");
  });

  await t.step("a program that is started in the source meanwhile waits for it", async () => {
    const forking = sbx.cli("fork", "dev", "five");
    let abandoned = 0;
    for (let at = 0; at < 10; at++) {
      const { code, stdout, stderr } = await sbx.cli("exec", "dev", "--", "echo", `${at}`);
      // One that runs at the moment of the copy goes on without its client.
      if (code === 125 && stderr.includes("was suspended or forked")) abandoned++;
      else assertEquals([code, stdout], [0, `${at}\n`], stderr);
    }
    assert(abandoned <= 1, `${abandoned} programs lost their client`);
    assertEquals((await forking).stderr, "");
    assertNotEquals(await forks.exec("five", "hostname"), "dev\n");
  });

  await t.step("a ref that the source got for a key of its own is refused in a copy", async () => {
    await keys.isRefused("five");
    await keys.works("dev");
  });

  await t.step("a copy that cannot be written leaves the source as it was, and no file", async () => {
    const before = [await forks.names(), await forks.files()];
    // The guest can go deeper, one folder at a time, than a path on the host may be long.
    const deep = "d".repeat(250);
    await forks.exec("dev", `cd /workspace; for i in $(seq 16); do mkdir ${deep}; cd ${deep}; done`);
    const { body } = await sbx.api("POST", "/vms/dev/fork", { name: "six" });
    assertEquals(body.code, "vm.fork_failed");
    assertEquals([await forks.names(), await forks.files()], before);
    await forks.exec("dev", "rm -rf /workspace/d*");
    await forks.countsOn("dev");
  });

  await t.step("a throw-away VM is kept with its memory", async () => {
    await sbx.ok("create", "--rm", "brief");
    await forks.exec("brief", "echo here >/dev/shm/note");
    await sbx.ok("save", "brief", "long");
    await sbx.ok("suspend", "long");
    await sbx.ok("resume", "long");
    assertEquals(await forks.exec("long", "cat /dev/shm/note"), "here\n");
    await sbx.ok("stop", "long");
    assert((await forks.names()).includes("long"));
    await sbx.ok("delete", "long");
  });
}
