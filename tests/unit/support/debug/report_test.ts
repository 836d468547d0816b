import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { DebugReport } from "../../../../lib/client/api/debug.ts";
import { formatReport } from "../../../../cmd/sbx/admin/debug.ts";
import type { Home } from "../../../../lib/base/home/mod.ts";
import { ROLE_PROGRAMS } from "../../../../lib/base/spawn/mod.ts";
import { CredentialStore, storePath } from "../../../../lib/credential/mod.ts";
import { debugReport, stateFromDisk } from "../../../../lib/support/debug/mod.ts";
import { BREAKAGES, withHealthyHome, writeFile } from "../../../helper/debug_home.ts";
import { fromRoot } from "../../../helper/repo.ts";

const schema = JSON.parse(await Deno.readTextFile(fromRoot("schemas/sbx.debug.v2.schema.json")));
const ajv = new Ajv2020({ strict: false });
addFormats.default(ajv);
const isValid = ajv.compile(schema);

function requireValid(report: unknown): DebugReport {
  assert(isValid(JSON.parse(JSON.stringify(report))), JSON.stringify(isValid.errors));
  return DebugReport.parse(report);
}

/** Issues of a machine that tests run on, not of a home. */
const OF_MACHINE =
  /^(virtualization|QEMU|vsock device|virtiofsd|subordinate ids|memory|disk|proxies|company CA|clock):/;

Deno.test("a healthy home with a service: no issue, every part filled", () =>
  withHealthyHome(async (home) => {
    const report = requireValid(await debugReport(home, { running: 1, total: 2, issues: [], defunct: [] }));
    assertEquals(report.status, { issues: [], defunct_sessions: [] });
    assertEquals([report.runtime.running_vm_count, report.runtime.total_vm_count], [1, 2]);
    assertEquals(Object.values(report.assets.files).map((file) => file.actual_hash_matches_manifest), [
      true,
      true,
      true,
    ]);
    assertEquals(report.assets.manifest.hash.length, 64);
    const { present, install_completed, vm_verified, providers_done } = report.setup;
    assertEquals([present, install_completed, vm_verified, providers_done], [true, true, true, false]);
    assertEquals(report.logs[0].tail, ["2026-11-24T10:00:00.000Z info ready"]);
    for (const name of ROLE_PROGRAMS) {
      const { path, exists, size_bytes, mode_octal, executable, hash } = report.host_binaries[name];
      assertEquals([path, exists, executable], [fromRoot(`bin/${name}`), true, true], name);
      assertEquals([size_bytes > 0, mode_octal.length, hash.length], [true, 4, 64], name);
    }
    assertEquals(report.host_binaries.deno.path, Deno.execPath());
    assert(report.disk.home.total_bytes > report.disk.home.available_bytes);
    assert(formatReport(report).includes("matches the manifest"));
  }));

Deno.test("a healthy home without a service says so, and nothing else", () =>
  withHealthyHome(async (home) => {
    const report = requireValid(await debugReport(home, await stateFromDisk(home)));
    const issues = report.status.issues.filter((issue) => !OF_MACHINE.test(issue));
    assertEquals(issues.length, 1, issues.join("\n"));
    assert(issues[0].includes("the service does not answer"));
  }));

/** What a report of a home without a service says is wrong, one line each. */
async function told(home: Home): Promise<string[]> {
  const { status, setup } = requireValid(await debugReport(home, await stateFromDisk(home)));
  const failed = status.defunct_sessions.map(({ name, last_error }) => `VM ${name}: ${last_error}`);
  return [
    ...status.issues,
    ...failed,
    ...setup.parse_error === null ? [] : [`${setup.path}: ${setup.parse_error}`],
  ];
}

for (const [what, spoil, says] of BREAKAGES) {
  Deno.test(`a report says that ${what}`, () =>
    withHealthyHome(async (home) => {
      const before = new Set(await told(home));
      await spoil(home);
      // What a healthy home is told too names nothing.
      const named = (await told(home)).filter((line) => !before.has(line));
      assert(named.some((line) => says.test(line)), named.join("\n"));
    }));
}

Deno.test("a home that is not there, a file in its place, and a pipe as a log make reports", async () => {
  await withHealthyHome(async (home) => {
    await Deno.remove(join(home.logsDir, "service.log"));
    await new Deno.Command("mkfifo", { args: [join(home.logsDir, "service.log")] }).output();
    const piped = requireValid(await debugReport(home, await stateFromDisk(home)));
    assertEquals(piped.logs[0].exists, false);
    await Deno.remove(home.dir, { recursive: true });
    requireValid(await debugReport(home, await stateFromDisk(home)));
    await Deno.writeTextFile(home.dir, "");
    requireValid(await debugReport(home, await stateFromDisk(home)));
    await Deno.remove(home.dir);
    await Deno.mkdir(home.dir);
  });
});

Deno.test("a report has neither the gateway's token nor a secret of the store, in any log", () =>
  withHealthyHome(async (home) => {
    const secret = `sk-ant-api03-${"Zq7".repeat(20)}`;
    const token = "Tk".repeat(32);
    await new CredentialStore(storePath(home)).add([{ provider: "anthropic", secret }]);
    await writeFile(home.gatewayTokenFile, token);
    for (const name of ["service", "gateway", "mcp", "doctor"]) {
      await writeFile(
        join(home.logsDir, `${name}.log`),
        `key ${secret}\n${btoa(secret)}\n${secret.slice(0, 30)}\n${
          secret.slice(30)
        }\nAuthorization: Bearer ${token}\n`,
      );
    }
    const report = requireValid(await debugReport(home, await stateFromDisk(home)));
    const text = JSON.stringify(report);
    for (const part of [secret, btoa(secret), token, secret.slice(30)]) assert(!text.includes(part), part);
    const { exists, size_bytes, contents } = report.runtime.gateway_token_file;
    assertEquals({ exists, size_bytes, contents }, { exists: true, size_bytes: 64, contents: null });
  }));

Deno.test("the ends of logs have less than 256 KiB, whatever is in them", () =>
  withHealthyHome(async (home) => {
    for (const name of ["service", "gateway", "mcp", "doctor", "tray"]) {
      await writeFile(join(home.logsDir, `${name}.log`), "a line of a log that is long\n".repeat(100_000));
    }
    const { logs } = requireValid(await debugReport(home, await stateFromDisk(home)));
    assert(logs.every(({ truncated }) => truncated));
    assert(logs.flatMap(({ tail }) => tail).join("\n").length < 256 * 1024);
  }));

Deno.test("the golden report is valid, and one with another field is not", async () => {
  const golden = JSON.parse(await Deno.readTextFile(fromRoot("schemas/fixtures/debug-v2-valid.json")));
  requireValid(golden);
  const extra = JSON.parse(
    await Deno.readTextFile(fromRoot("schemas/fixtures/debug-v2-invalid-extra-field.json")),
  );
  assertEquals(isValid(extra), false);
  assertEquals(DebugReport.safeParse(extra).success, false);
});
