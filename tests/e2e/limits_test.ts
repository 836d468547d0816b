/** Limits of a VM, of its programs and of one program (docs/guides/limits.md), in one VM. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { join } from "node:path";
import { eventually, Sbx } from "../helper/sbx.ts";

const MIB = 1024 ** 2;

Deno.test("limits", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  const large = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () => new Response(new Uint8Array(3 * MIB)),
  );
  try {
    const override = `large.example:80=127.0.0.1:${large.addr.port}`;
    await sbx.ok("settings", "set", "network.upstream_overrides", JSON.stringify([override]));
    const limits = ["processes=40", "file_mb=8", "open_files=200", "cpu_percent=50", "disk_mb_per_s=2"];
    limits.push("network_mb_per_s=1");
    await sbx.ok("create", "dev", ...limits.flatMap((limit) => ["--limit", limit]));
    const exec = async (line: string, ...options: string[]) => {
      const { stdout } = await sbx.cli("exec", "--json", ...options, "dev", "--", "sh", "-c", line);
      const { exit_code, stderr, limits_reached, event_id, ...rest } = JSON.parse(stdout);
      return { code: exit_code, out: rest.stdout, stderr, reached: limits_reached, event_id };
    };
    const bomb = "for i in $(seq 60); do sleep 20 & done; wait";

    await t.step("the VM's limits hold for each program, and the lower one of a program's own", async () => {
      const blocks = 8 * 2048;
      assertEquals((await exec("ulimit -n; ulimit -f")).out, `200\n${blocks}\n`);
      const own = ["--limit", "open_files=50", "--limit", "file_mb=100"];
      assertEquals((await exec("ulimit -n; ulimit -f", ...own)).out, `50\n${blocks}\n`);
    });

    await t.step(
      "a program that starts too many processes is refused the next, and the record says so",
      async () => {
        const { code, stderr, reached, event_id } = await exec(bomb, "--limit", "processes=10");
        assertEquals([code, reached], [2, ["processes"]]);
        assertStringIncludes(stderr, "Cannot fork");
        const record = JSON.parse(await sbx.ok("events", "dev", "--family", "process", "--json"));
        const limited = record.events.flatMap((
          { common: { labels } }: { common: { labels?: { limit?: string } } },
        ) => labels?.limit === undefined ? [] : [labels]);
        assertEquals(limited, [{ event_id, limit: "processes" }]);
        assertEquals((await exec(bomb)).reached, ["processes"], "the VM's own");
        assertEquals((await exec("sleep 0 & wait")).reached, undefined);
      },
    );

    await t.step("a file that grows too large ends its program", async () => {
      const { code, reached } = await exec("exec dd if=/dev/zero of=/root/large bs=1M count=20");
      assertEquals([code, reached], [153, ["file_mb"]]);
      assertEquals((await exec("stat -c %s /root/large")).out, `${8 * MIB}\n`);
    });

    await t.step("another user has the limit of processes for all of its own", async () => {
      const { code, stderr } = await exec(bomb, "--user", "nobody", "--limit", "processes=5");
      assertEquals(code, 2);
      assertStringIncludes(stderr, "Cannot fork");
    });

    await t.step("the limits are shown, and a wrong one is a usage error", async () => {
      const info = JSON.parse(await sbx.ok("info", "dev", "--json"));
      assertEquals(info.limits.cpu_percent, 50);
      for (const wrong of ["processes=0", "memory=1", "cpu_percent=50", "processes"]) {
        const { code, stderr } = await sbx.cli("exec", "--limit", wrong, "dev", "--", "true");
        assertEquals(code, 2, wrong);
        assertStringIncludes(stderr, `invalid value "${wrong}" of --limit`);
      }
    });

    const { session_id } = JSON.parse(await sbx.ok("info", "dev", "--json"));
    const isStated = (limit: string) => {
      using db = new DatabaseSync(join(sbx.home, "ledgers", session_id, "session.db"), { readOnly: true });
      const rows = db.prepare("SELECT record FROM statements WHERE kind = 'limit'").all();
      return rows.some(({ record }) => JSON.parse(String(record)).limit === limit);
    };

    await t.step(
      "a VM with its share of a processor stands still, which is stated",
      () =>
        eventually("the statement", async () => {
          await exec("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done");
          return isStated("cpu_percent");
        }),
    );

    await t.step(
      "a disk at its rate makes its program wait, which is stated",
      () =>
        eventually("the statement", async () => {
          const write = "dd if=/dev/zero of=/root/slow bs=256k count=24 oflag=direct 2>&1";
          const { code, out } = await exec(write);
          assertEquals(code, 0, out);
          // QEMU lets a tenth of a second pass at once.
          const seconds = Number(/copied, ([\d.]+) s/.exec(out)![1]);
          assert(seconds > 6 / 2 - 0.5, out);
          return isStated("disk_mb_per_s");
        }),
    );

    await t.step("a network at its rate makes its program wait, which is stated", async () => {
      const load = "curl -sS -o /dev/null -w '%{size_download} %{time_total}' http://large.example/";
      const [size, seconds] = (await exec(load)).out.split(" ").map(Number);
      assertEquals(size, 3 * MIB);
      assert(seconds > 2, `${seconds} s`);
      await eventually("the statement", () => isStated("network_mb_per_s"));
    });
  } finally {
    await large.shutdown();
    await sbx.dispose();
  }
});
