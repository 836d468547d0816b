/** An apt repository: every package is checked whole before a byte is written. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { writeDeb, writeRepository } from "../../../../lib/publish/package/mod.ts";
import { runChild } from "../../../helper/child.ts";

const missing = (await Promise.all(["apt-ftparchive", "dpkg-deb", "gpg"].map(async (tool) => {
  const found = await runChild("sh", { args: ["-c", `command -v ${tool}`] });
  return found.success ? [] : [tool];
}))).flat();

/** A folder with a key, a package of sample, and the repository's place. */
async function withWorld(
  work: (
    world: { dir: string; deb: string; publish: (...debs: string[]) => ReturnType<typeof writeRepository> },
  ) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "sbx-apt-" });
  const gnupg = join(dir, "gnupg"), key = join(dir, "archive.key");
  try {
    await Deno.mkdir(gnupg, { mode: 0o700 });
    const gpg = async (...args: string[]) => {
      const all = [
        "--homedir",
        gnupg,
        "--batch",
        "--quiet",
        "--pinentry-mode",
        "loopback",
        "--passphrase",
        "",
        ...args,
      ];
      const { success, stdout, stderr } = await runChild("gpg", { args: all });
      assert(success, new TextDecoder().decode(stderr));
      return stdout;
    };
    await gpg("--quick-gen-key", "archive", "ed25519", "sign", "never");
    await Deno.writeFile(key, await gpg("--export-secret-keys", "archive"), { mode: 0o600 });
    const deb = await sampleDeb(join(dir, "dist"), "one");
    const publish = (...debs: string[]) =>
      writeRepository({ debs, out: join(dir, "apt"), key, suite: "stable", origin: "sbx", validDays: 30 });
    await work({ dir, deb, publish });
  } finally {
    await runChild("gpgconf", { args: ["--homedir", gnupg, "--kill", "all"] });
    await Deno.remove(dir, { recursive: true });
  }
}

function sampleDeb(out: string, content: string, Architecture = "all"): Promise<string> {
  return writeDeb({
    control: {
      Package: "sample",
      Version: "1.0",
      Architecture,
      Maintainer: "a <a@example.com>",
      Description: "a\n b",
    },
    files: [{ path: "usr/share/sample/data", content: { text: content.repeat(5000) } }],
    sourceDateEpoch: 1_764_000_000,
  }, out);
}

const exists = (path: string) => Deno.lstat(path).then(() => true, () => false);

Deno.test({
  name: "a damaged package is refused before anything is written, and its name can be published right",
  ignore: missing.length > 0,
  fn: () =>
    withWorld(async ({ dir, deb, publish }) => {
      const bytes = await Deno.readFile(deb);
      const bad = join(dir, "sample_1.0_all.deb");
      for (const damaged of [bytes.subarray(0, bytes.length - 100), new Uint8Array(9), new Uint8Array()]) {
        await Deno.writeFile(bad, damaged);
        const error = await assertRejects(() => publish(deb, bad), SbxError);
        assertEquals(error.code, "package.file_invalid");
        assertStringIncludes(error.message, `${bad} is damaged or incomplete`);
        assertEquals(await exists(join(dir, "apt")), false);
      }
      const { packages } = await publish(deb);
      assertEquals(packages, 1);
    }),
});

Deno.test({
  name: "a damaged file that an earlier sbx put into the pool gives way, and a published one does not",
  ignore: missing.length > 0,
  fn: () =>
    withWorld(async ({ dir, deb, publish }) => {
      const pool = join(dir, "apt/pool/main/s/sample");
      await Deno.mkdir(pool, { recursive: true });
      await Deno.writeFile(join(pool, "sample_1.0_all.deb"), new Uint8Array(100));
      assertEquals((await publish(deb)).packages, 1);
      const other = await sampleDeb(join(dir, "other"), "two");
      assertEquals((await assertRejects(() => publish(other), SbxError)).code, "package.repository_conflict");
      assertEquals((await publish(deb)).packages, 1);
    }),
});

Deno.test({
  name: "packages are counted once for all architectures, and a wrong name or architecture is refused",
  ignore: missing.length > 0,
  fn: () =>
    withWorld(async ({ dir, deb, publish }) => {
      const amd64 = await sampleDeb(join(dir, "dist"), "one", "amd64");
      const { packages, architectures } = await publish(deb, amd64);
      assertEquals([packages, architectures], [2, ["amd64", "arm64"]]);
      const renamed = join(dir, "sample_2.0_all.deb");
      await Deno.copyFile(deb, renamed);
      const error = await assertRejects(() => publish(renamed), SbxError);
      assertStringIncludes(error.message, "has the content of sample_1.0_all.deb");
      const riscv = await sampleDeb(join(dir, "dist"), "one", "riscv64");
      assertStringIncludes(
        (await assertRejects(() => publish(riscv), SbxError)).message,
        "architecture riscv64",
      );
      assertEquals(
        (await assertRejects(() => publish(join(dir, "no_1_all.deb")), SbxError)).code,
        "package.file_missing",
      );
    }),
});
