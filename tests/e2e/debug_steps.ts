/** Commands for whoever helps, on a home with a running VM: its report, its bundle and its checks. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { zstdDecompressSync } from "node:zlib";
import { deviceName, userName } from "../../lib/base/user/mod.ts";
import type { Sbx } from "../helper/sbx.ts";

/**
 * Secrets by the place that the steps put them into; one looks like a key, the others have a telling name.
 */
const PLANTED = {
  argument: `sk-ant-api03-${"Zq7w".repeat(20)}`,
  variable: "hunter2hunter2",
  settings: "swordfish99",
  log: `glpat-${"k3Jd9".repeat(5)}`,
};

/** Steps for a running VM `dev`. */
export async function debugSteps(t: Deno.TestContext, sbx: Sbx, id: string): Promise<void> {
  const elsewhere = await Deno.makeTempDir();
  const [report, bundle] = ["report.json", "bundle.tar.zst"].map((name) => join(elsewhere, name));
  const line = `echo ${PLANTED.argument} >/dev/null; MY_PASSWORD=${PLANTED.variable} true`;
  await sbx.ok("exec", "dev", "-c", line);
  await Deno.writeTextFile(join(sbx.home, "settings.toml"), `\n# password = "${PLANTED.settings}"\n`, {
    append: true,
  });
  await Deno.writeTextFile(join(sbx.home, "logs/service.log"), `Bearer ${PLANTED.log}\n`, { append: true });
  const secrets = { ...PLANTED, token: sbx.token };
  const assertClean = (text: string) => {
    for (const [place, secret] of Object.entries(secrets)) {
      assert(!text.includes(secret), `the ${place}'s secret is in it`);
    }
  };
  try {
    await t.step("a session tells the user, the machine and the program that made it", async () => {
      const { sessions } = JSON.parse(await sbx.ok("sessions", "--json"));
      const { user, device, client } = sessions.find((session: { id: string }) => session.id === id);
      assertEquals([user, device], [userName(), deviceName()]);
      assertMatch(client, /^sbx\/\d/);
    });

    await t.step("sbx debug writes the report of the service, without secrets", async () => {
      const { code, stderr } = await sbx.cli("debug", "--out", report);
      assertEquals([code, stderr], [0, `wrote ${report}\n`]);
      const text = await Deno.readTextFile(report);
      const { schema, runtime, setup, status } = JSON.parse(text);
      assertEquals([schema, setup.vm_verified, status.defunct_sessions], ["sbx.debug.v2", true, []]);
      assertEquals([runtime.running_vm_count, runtime.gateway_token_file.contents], [1, null]);
      assertClean(text);
      const missing = await sbx.cli("debug", "--out", join(elsewhere, "no/such/folder/report.json"));
      assertEquals(missing.code, 1);
      assertStringIncludes(missing.stderr, "cannot write the report");
    });

    await t.step("sbx support-bundle writes the record of a VM by its name, without secrets", async () => {
      const { files } = JSON.parse(
        await sbx.ok("support-bundle", "--session", "dev", "--out", bundle, "--json"),
      );
      const archive = join(elsewhere, "bundle.tar");
      await Deno.writeFile(archive, zstdDecompressSync(await Deno.readFile(bundle)));
      const { success } = await new Deno.Command("tar", { args: ["-xf", archive, "-C", elsewhere] }).output();
      assert(success);
      const texts = new Map<string, string>();
      for (const { path } of files as { path: string }[]) {
        texts.set(path, await Deno.readTextFile(join(elsewhere, "sbx-support", path)));
      }
      for (const text of texts.values()) assertClean(text);
      assertStringIncludes(texts.get("README.txt")!, id);
      assertStringIncludes(texts.get("session/events.json")!, "process.exec");
      assertStringIncludes([...texts.values()].join("\n"), "Bearer [redacted]");
    });

    await t.step("sbx doctor --fix closes a folder that is open to others", async () => {
      const run = join(sbx.home, "run");
      await Deno.chmod(run, 0o755);
      const doctor = async (...options: string[]) => {
        const { checks, fixed } = JSON.parse((await sbx.cli("doctor", "--json", ...options)).stdout);
        const { state, fixable } = checks.find(({ id }: { id: string }) => id === "home");
        return { state, fixable, fixed };
      };
      assertEquals(await doctor(), { state: "failed", fixable: true, fixed: [] });
      assertEquals(await doctor("--fix"), { state: "ok", fixable: undefined, fixed: [`chmod 700 ${run}`] });
      assertEquals((await Deno.stat(run)).mode! & 0o777, 0o700);
    });
  } finally {
    await Deno.remove(elsewhere, { recursive: true });
  }
}
