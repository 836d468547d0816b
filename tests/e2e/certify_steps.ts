/** The certificate of a real session, verified as another machine would. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import type { Sbx } from "../helper/sbx.ts";

/** @param id of a session whose VM is gone, and whose process was killed once */
export async function certifySession(sbx: Sbx, id: string): Promise<void> {
  const elsewhere = await Deno.makeTempDir();
  try {
    const [cert, key] = ["cert.json", "machine.pem"].map((name) => join(elsewhere, name));
    const summary = await sbx.ok("certify", id, "--out", cert);
    assertStringIncludes(summary, id);
    await sbx.ok("certify", "--public-key", "--out", key);
    const ledger = join(sbx.home, "ledgers", id, "session.db");
    const other = { SBX_HOME: join(elsewhere, "home") };
    const verified = await sbx.run(
      "sbx",
      ["certify", "--verify", cert, ledger, "--key", key, "--json"],
      other,
    );
    assertEquals(verified.code, 0, verified.stderr);
    const { certificate: { predicate: { ledger: heads, facts } } } = JSON.parse(verified.stdout);
    assertEquals(heads.seal, "signed");
    for (const { accelerator, image: { hashes } } of facts.boots.rows) {
      assertMatch(accelerator, /^(kvm|tcg)$/);
      for (const name of ["vmlinuz", "initrd.img", "rootfs.erofs"]) {
        assertMatch(hashes[name], /^[0-9a-f]{64}$/);
      }
    }
    assert(facts.boots.rows.length > 1, "it was stopped and started");
    assert(facts.contracts.rows.length > 0);
    assert(facts.evidence.decisions.rows.some(({ family }: { family: string }) => family === "process"));
    assertMatch(
      await sbx.ok("verify", id, "--head", cert, "--key", key),
      /The seal is signed by [0-9a-f]{64}/,
    );
    const stranger = await sbx.run("sbx", ["certify", "--verify", cert], other);
    assertEquals(stranger.code, 1);
    assertStringIncludes(stranger.stderr, "not trusted");
  } finally {
    await Deno.remove(elsewhere, { recursive: true });
  }
}
