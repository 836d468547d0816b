/** sbx doctor and sbx bench on a VM that runs, that is broken from inside, and that lies. */
import { COMMANDS_PATH } from "../../lib/machine/guest/wire/mod.ts";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Sbx } from "../helper/sbx.ts";
import { requireClock } from "./clock_steps.ts";

interface Check {
  id: string;
  state: string;
  detail: string;
  remedy?: string;
}

/** Steps for a running VM `dev` with a network, which they leave as it was. */
export async function doctorSteps(t: Deno.TestContext, sbx: Sbx): Promise<void> {
  const sh = (line: string) => sbx.ok("exec", "dev", "-c", line);
  const doctor = async () => {
    const { code, stdout, stderr } = await sbx.cli("doctor", "dev", "--json");
    assert(stdout !== "", stderr);
    const { ok, checks } = JSON.parse(stdout);
    assertEquals(code, ok ? 0 : 1);
    // Whether a name is found depends on the resolver of the machine that tests.
    return (checks as Check[]).filter(({ id }) => id !== "dns" && id !== "activity");
  };
  const failedOf = (checks: Check[]) => checks.filter(({ state }) => state !== "ok").map(({ id }) => id);

  await t.step("sbx doctor finds a VM in order, and asks nobody outside for that", async () => {
    const checks = await doctor();
    assertEquals(failedOf(checks), [], JSON.stringify(checks));
    for (const id of ["clock", "mounts", "disk", "memory", "entropy", "proxy", "npm", "mcp"]) {
      assert(checks.some((check) => check.id === id), id);
    }
    for (const client of ["curl", "python", "node", "git", "deno"]) {
      assert(checks.some(({ id }) => id === `ca-${client}`), client);
    }
    const names = JSON.parse(await sbx.ok("events", "dev", "--family", "dns", "--json")).events
      .map(({ dns }: { dns: { request: { qname: string } } }) => dns.request.qname);
    assert(!names.includes("dl.deno.land"), "sbx's own programs look for no newer Deno");
  });

  await t.step("node-gyp of every user has the headers of Node, and downloads none", async () => {
    // What it does before it configures or builds anything.
    const gyp = "node /usr/local/lib/node_modules/npm/node_modules/node-gyp/bin/node-gyp.js install --ensure";
    for (const user of ["sh -c", "su -s /bin/sh nobody -c", "su -s /bin/bash -l nobody -c"]) {
      await sh(`${user} '${gyp}'`);
    }
    const names = JSON.parse(await sbx.ok("events", "dev", "--family", "dns", "--json")).events
      .map(({ dns }: { dns: { request: { qname: string } } }) => dns.request.qname);
    assert(!names.includes("nodejs.org"), "node-gyp asks for headers");
  });

  await t.step("it names what is broken, and what to do", async () => {
    await sh("mv /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/away");
    const checks = await doctor();
    await sh("mv /etc/ssl/certs/away /etc/ssl/certs/ca-certificates.crt; date -s '+1 hour' >/dev/null");
    assertEquals(failedOf(checks), ["ca-curl", "ca-python", "ca-git"], JSON.stringify(checks));
    assert(checks.every(({ state, remedy }) => (state === "failed") === (remedy !== undefined)));
  });

  await t.step("a guest that lies gets no line of its own onto the terminal", async () => {
    const lie =
      `#!/bin/sh\\nprintf '{"schema":"sbx.guest-doctor.v1","unix_ms":0,"checks":[],"advice":"\\033[2J"}'`;
    await sh(
      `printf '${
        lie.replaceAll("'", `'\\''`)
      }' >/root/lie; chmod +x /root/lie; mount --bind /root/lie ${COMMANDS_PATH}/sbx-doctor`,
    );
    const { code, stdout, stderr } = await sbx.cli("doctor", "dev");
    await sh(`umount ${COMMANDS_PATH}/sbx-doctor`);
    assertEquals([code, stdout], [1, ""]);
    assertStringIncludes(stderr, "printed no report");
  });

  await t.step("sbx bench measures the VM and the host in one run", async () => {
    const { measures, rounds } = JSON.parse(await sbx.ok("bench", "dev", "--rounds", "1", "--json"));
    assertEquals([rounds, measures.length], [1, 8]);
    for (const { vm_ms, host_ms, ratio } of measures) assert(vm_ms > 0 && host_ms > 0 && ratio > 0);
    assertEquals(await sh("ls -A /workspace /var/tmp | grep sbx-bench | wc -l"), "0\n");
  });

  await t.step(
    "a clock that was set by a program of the VM is the host's again",
    () => requireClock(sbx, "dev"),
  );
}
