/** The certificate of a real session, verified as another machine would. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { runInCleanRoot } from "../helper/clean_root.ts";
import type { Sbx } from "../helper/sbx.ts";

/** Bytes of the certificate that are changed, one at a time. */
const FLIPS = 3;

/**
 * Verifies the files as somebody without a home, network or rights, and then the
 * certificate with one other byte.
 */
async function verifyInCleanRoot(dir: string, ledger: string): Promise<void> {
  const given = await Deno.makeTempDir({ dir });
  for (const name of ["cert.json", "machine.pem"]) {
    await Deno.copyFile(join(dir, name), join(given, name));
  }
  await Deno.copyFile(ledger, join(given, "session.db"));
  const bytes = await Deno.readFile(join(dir, "cert.json"));
  for (let at = 0; at < FLIPS; at++) {
    const changed = bytes.slice();
    changed[Math.floor(bytes.length * (at + Math.random()) / FLIPS)] ^= 1 << Math.floor(8 * Math.random());
    await Deno.writeFile(join(given, `changed-${at}.json`), changed);
  }
  const verify = (file: string, record = "") =>
    `sbx certify --verify ${file} ${record} --key machine.pem >/dev/null 2>&1; echo $?`;
  const { stdout, stderr } = await runInCleanRoot(given, [
    "bash",
    "-c",
    `id -u; ls /root /home 2>&1 | wc -l; ${
      verify("cert.json", "session.db")
    }; for file in changed-*.json; do ${verify("$file")}; done; ls -A /nowhere 2>&1 | wc -l`,
  ]);
  assertEquals(stdout.split("\n"), ["65534", "2", "0", ...Array(FLIPS).fill("1"), "1", ""], stderr);
}

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
    await verifyInCleanRoot(elsewhere, ledger);
    const stranger = await sbx.run("sbx", ["certify", "--verify", cert], other);
    assertEquals(stranger.code, 1);
    assertStringIncludes(stranger.stderr, "not trusted");
  } finally {
    await Deno.remove(elsewhere, { recursive: true });
  }
}
