/** The certificate authority of a machine: permissions, signing, and damaged files. */
import { assert, assertEquals, assertNotEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { caFiles, openCa, rotateCa } from "../../../../lib/network/ca/mod.ts";
import { runChild } from "../../../helper/child.ts";
import { fromRoot } from "../../../helper/repo.ts";

/** Runs a test with a home of its own. */
const withHome = (run: (home: { dir: string }) => Promise<void>) => async () => {
  const dir = await Deno.makeTempDir({ prefix: "sbx-ca-" });
  await run({ dir }).finally(() => Deno.remove(dir, { recursive: true }));
};

const mode = (path: string) => Deno.statSync(path).mode! & 0o777;

Deno.test(
  "the first use creates it once, accessible to its user only",
  withHome(async (home) => {
    const made = await Promise.all(Array.from({ length: 5 }, () => openCa(home)));
    assertEquals(new Set(made.map(({ fingerprint }) => fingerprint)).size, 1);
    const { dir, key, certificate } = caFiles(home);
    assertEquals([mode(dir), mode(key), mode(certificate)], [0o700, 0o600, 0o600]);
    assertEquals((await openCa(home)).certificate, made[0].certificate);
  }),
);

Deno.test("accessible or damaged files are refused with a hint", async (t) => {
  const cases: [name: string, harm: (files: ReturnType<typeof caFiles>) => void, code: string][] = [
    ["key open to others", ({ key }) => Deno.chmodSync(key, 0o644), "ca.insecure"],
    ["key open to the group", ({ key }) => Deno.chmodSync(key, 0o640), "ca.insecure"],
    [
      "certificate that others can write",
      ({ certificate }) => Deno.chmodSync(certificate, 0o666),
      "ca.insecure",
    ],
    ["folder open to others", ({ dir }) => Deno.chmodSync(dir, 0o755), "ca.insecure"],
    ["key is a link", ({ key, dir }) => {
      Deno.renameSync(key, join(dir, "elsewhere"));
      Deno.symlinkSync("elsewhere", key);
    }, "ca.insecure"],
    ["no key", ({ key }) => Deno.removeSync(key), "ca.missing"],
    ["no certificate", ({ certificate }) => Deno.removeSync(certificate), "ca.missing"],
    ["key is not a key", ({ key }) => Deno.writeTextFileSync(key, "nothing"), "ca.invalid"],
    [
      "certificate is not a certificate",
      ({ certificate }) => Deno.writeTextFileSync(certificate, "nothing"),
      "ca.invalid",
    ],
    ["key is endless", ({ key }) => Deno.truncateSync(key, 10_000_000), "ca.invalid"],
  ];
  for (const [name, harm, code] of cases) {
    await t.step(
      name,
      withHome(async (home) => {
        const before = await openCa(home);
        harm(caFiles(home));
        const error = await assertRejects(() => openCa(home), SbxError);
        assertEquals(error.code, code);
        assert(error.hint);
        if (name.startsWith("folder") || name.endsWith("link")) return;
        // Rotating is the way out.
        assertNotEquals((await rotateCa(home)).fingerprint, before.fingerprint);
        await openCa(home);
      }),
    );
  }
});

Deno.test(
  "a key of another certificate signs nothing",
  withHome(async (home) => {
    const other = { dir: join(home.dir, "other") };
    await openCa(home);
    await openCa(other);
    await Deno.copyFile(caFiles(other).key, caFiles(home).key);
    const ca = await openCa(home);
    assertEquals((await assertRejects(() => ca.leaf("a.example.com"), SbxError)).code, "ca.invalid");
  }),
);

Deno.test(
  "OpenSSL strictly verifies its certificates, also with a clock that is months behind",
  withHome(async (home) => {
    const ca = await openCa(home);
    const names = ["api.example.com", `${"long-".repeat(12)}name.example.com`, "203.0.113.7", "2001:db8::7"];
    for (const name of names) {
      const leaf = join(home.dir, "leaf.pem");
      await Deno.writeTextFile(leaf, (await ca.leaf(name)).cert);
      const isAddress = /^[\d.]+$/.test(name) || name.includes(":");
      for (const at of [Date.now(), Date.now() - 170 * 86_400_000]) {
        const { stdout, stderr } = await runChild("openssl", {
          args: [
            ...["verify", "-x509_strict", "-purpose", "sslserver", "-attime", `${Math.floor(at / 1000)}`],
            ...[
              "-CAfile",
              caFiles(home).certificate,
              isAddress ? "-verify_ip" : "-verify_hostname",
              name,
              leaf,
            ],
          ],
        });
        assertStringIncludes(new TextDecoder().decode(stdout), "OK", name + new TextDecoder().decode(stderr));
      }
    }
    const { stdout } = await runChild("openssl", {
      args: ["x509", "-noout", "-dates", "-in", join(home.dir, "leaf.pem")],
    });
    const dates = new TextDecoder().decode(stdout);
    const [from, to] = [...dates.matchAll(/=(.*)/g)].map(([, date]) => Date.parse(date));
    assert(to - from <= 398 * 86_400_000, dates);
  }),
);

Deno.test(
  "certificates are cached, also for concurrent requests",
  withHome(async (home) => {
    const ca = await openCa(home);
    const leaves = await Promise.all(Array.from({ length: 10 }, () => ca.leaf("a.example.com")));
    assertEquals(new Set(leaves.map(({ cert }) => cert)).size, 1);
    assertNotEquals((await ca.leaf("b.example.com")).cert, leaves[0].cert);
  }),
);

Deno.test(
  "sbx-admin ca show and rotate",
  withHome(async (home) => {
    const run = async (...args: string[]) => {
      const { code, stdout, stderr } = await runChild(fromRoot("bin/sbx-admin"), {
        args: ["ca", ...args],
        env: { SBX_HOME: home.dir, NO_COLOR: "1" },
      });
      return { code, out: new TextDecoder().decode(stdout), err: new TextDecoder().decode(stderr) };
    };
    const report = JSON.parse((await run("show", "--json")).out);
    assertEquals(report.fingerprint_sha256, (await openCa(home)).fingerprint);
    assertEquals((await run("show", "--pem")).out, (await openCa(home)).certificate);
    const rotated = JSON.parse((await run("rotate", "--json")).out);
    assertNotEquals(rotated.fingerprint_sha256, report.fingerprint_sha256);
    await Deno.chmod(caFiles(home).key, 0o644);
    const refused = await run("show");
    assertEquals(refused.code, 1);
    assertStringIncludes(refused.err, "is accessible to other users");
    assert(![report, rotated].some((each) => JSON.stringify(each).includes("PRIVATE KEY")));
  }),
);
