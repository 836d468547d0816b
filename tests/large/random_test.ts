/**
 * A hundred VMs (`VMS`) from one template draw different random numbers:
 * `make test-large`. Not part of `make test`.
 */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { Sbx } from "../helper/sbx.ts";

const VMS = Number(Deno.env.get("VMS") ?? 100);
/** One line of each source. */
const DRAW = `
od -An -tx1 -N16 /dev/urandom
python3 -c 'import os; print(os.getrandom(16).hex())'
python3 -c 'import secrets; print(secrets.token_hex(16))'
node -e 'console.log(crypto.randomUUID())'
deno eval 'console.log(crypto.randomUUID())'
openssl rand -hex 16
cat /proc/sys/kernel/random/boot_id /etc/machine-id`;
const SOURCES = 8;

Deno.test(`${VMS} VMs from one template draw different random numbers`, async () => {
  const home = await Deno.makeTempDir({ prefix: "sbx-" });
  const sbx = await Sbx.make({ home, env: { SBX_TEMPLATES_DIR: join(home, "templates") } });
  const drawn = Array.from({ length: SOURCES }, () => new Set<string>());
  try {
    await sbx.ok("template", "make");
    for (let vm = 0; vm < VMS; vm++) {
      const lines = (await sbx.ok("run", "--", "sh", "-c", DRAW)).trim().split("\n");
      assertEquals(lines.length, SOURCES, lines.join("\n"));
      lines.forEach((line, source) => drawn[source].add(line));
    }
    assertEquals(drawn.map(({ size }) => size), Array(SOURCES).fill(VMS));
  } finally {
    await sbx.dispose();
  }
});
