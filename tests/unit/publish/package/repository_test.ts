/**
 * An apt repository: every package is checked whole before a byte is written, and a suite has the packages
 * that were published to it, as they were.
 */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { type RepositoryOptions, writeDeb, writeRepository } from "../../../../lib/publish/package/mod.ts";
import { runChild } from "../../../helper/child.ts";

const missing = (await Promise.all(["apt-ftparchive", "dpkg-deb", "gpg"].map(async (tool) => {
  const found = await runChild("sh", { args: ["-c", `command -v ${tool}`] });
  return found.success ? [] : [tool];
}))).flat();

interface Published {
  dir: string;
  /** a package of sample */
  deb: string;
  /** public key of the archive */
  publicKey: string;
  publish: (...debs: string[]) => ReturnType<typeof writeRepository>;
  publishTo: (
    suite: string,
    debs?: string[],
    more?: Partial<RepositoryOptions>,
  ) => ReturnType<typeof writeRepository>;
  /** makes a secret key, and @returns its file */
  makeKey: (name: string) => Promise<string>;
}

/** A folder with a key, a package of sample, and the repository's place. */
async function withWorld(work: (world: Published) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "sbx-apt-" });
  const gnupg = join(dir, "gnupg"), publicKey = join(dir, "archive.pgp");
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
    const makeKey = async (name: string) => {
      await gpg("--quick-gen-key", name, "ed25519", "sign", "never");
      await Deno.writeFile(join(dir, `${name}.key`), await gpg("--export-secret-keys", name), {
        mode: 0o600,
      });
      return join(dir, `${name}.key`);
    };
    const key = await makeKey("archive");
    await Deno.writeFile(publicKey, await gpg("--export", "archive"));
    const deb = await sampleDeb(join(dir, "dist"), "one");
    const publishTo: Published["publishTo"] = (suite, debs = [], more = {}) =>
      writeRepository({ debs, out: join(dir, "apt"), key, suite, validDays: 30, ...more });
    const publish = (...debs: string[]) => publishTo("stable", debs);
    await work({ dir, deb, publicKey, publish, publishTo, makeKey });
  } finally {
    await runChild("gpgconf", { args: ["--homedir", gnupg, "--kill", "all"] });
    await Deno.remove(dir, { recursive: true });
  }
}

function sampleDeb(out: string, content: string, Architecture = "all", Version = "1.0"): Promise<string> {
  return writeDeb({
    control: {
      Package: "sample",
      Version,
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

const indexOf = async (dir: string, suite: string) =>
  [...(await Deno.readTextFile(join(dir, `apt/dists/${suite}/main/binary-amd64/Packages`)))
    .matchAll(/^Version: (.+)$/gm)].map(([, version]) => version).sort();

Deno.test({
  name: "a suite has the packages that were published to it: signing it again brings none of another suite",
  ignore: missing.length > 0,
  fn: () =>
    withWorld(async ({ dir, deb, publish, publishTo }) => {
      const next = await sampleDeb(join(dir, "dist"), "two", "all", "1.1");
      await publish(deb);
      await publishTo("canary", [deb, next]);
      assertEquals((await publish()).packages, 1);
      assertEquals(await indexOf(dir, "stable"), ["1.0"]);
      assertEquals(await indexOf(dir, "canary"), ["1.0", "1.1"]);
      // The published file itself, for everybody.
      await publish(join(dir, "apt/pool/main/s/sample/sample_1.1_all.deb"));
      assertEquals(await indexOf(dir, "stable"), ["1.0", "1.1"]);
      // A package that was removed from the pool is no longer listed.
      await Deno.remove(join(dir, "apt/pool/main/s/sample/sample_1.0_all.deb"));
      assertEquals((await publishTo("canary")).packages, 1);
    }),
});

Deno.test({
  name: "signing again keeps the origin, which clients of apt do not see change; another one is refused",
  ignore: missing.length > 0,
  fn: () =>
    withWorld(async ({ dir, deb, publishTo }) => {
      const first = await publishTo("stable", [deb], { origin: "example" });
      assertEquals(first.keyring, join(dir, "apt/example-archive-keyring.pgp"));
      assertEquals((await publishTo("stable")).keyring, first.keyring);
      const release = await Deno.readTextFile(join(dir, "apt/dists/stable/InRelease"));
      assertStringIncludes(release, "\nOrigin: example\nLabel: example\n");
      assertEquals(await exists(join(dir, "apt/sbx-archive-keyring.pgp")), false);
      assertEquals((await publishTo("canary", [deb])).keyring, first.keyring);
      const error = await assertRejects(() => publishTo("stable", [], { origin: "other" }), SbxError);
      assertEquals(error.code, "package.origin_changed");
      assertEquals(await Deno.readTextFile(join(dir, "apt/dists/stable/InRelease")), release);
    }),
});

Deno.test({
  name: "changes of the folder by others are not signed: a package, an index, or its signature",
  ignore: missing.length > 0,
  fn: () =>
    withWorld(async ({ dir, deb, publish }) => {
      await publish(deb);
      const other = await sampleDeb(join(dir, "other"), "two", "all", "1.1");
      const pool = join(dir, "apt/pool/main/s/sample"), published = join(pool, "sample_1.0_all.deb");
      const inRelease = join(dir, "apt/dists/stable/InRelease");
      const refusal = async () => (await assertRejects(() => publish(), SbxError)).code;
      // A package beside the published one, listed in an unsigned index.
      await Deno.copyFile(other, join(pool, "sample_1.1_all.deb"));
      await Deno.writeTextFile(
        join(dir, "apt/dists/stable/main/binary-amd64/Packages"),
        "Package: sample\nVersion: 1.1\nFilename: pool/main/s/sample/sample_1.1_all.deb\n",
      );
      assertEquals((await publish()).packages, 1);
      assertEquals(await indexOf(dir, "stable"), ["1.0"]);
      const [bytes, signed] = [await Deno.readFile(published), await Deno.readTextFile(inRelease)];
      await Deno.writeFile(published, await Deno.readFile(await sampleDeb(join(dir, "third"), "three")));
      assertEquals(await refusal(), "package.repository_changed");
      await Deno.writeFile(published, bytes);
      await Deno.writeTextFile(inRelease, signed.replace("Origin: sbx", "Origin: sbX"));
      assertEquals(await refusal(), "package.index_untrusted");
      await Deno.writeTextFile(inRelease, "Origin: sbx\n");
      assertEquals(await refusal(), "package.index_untrusted");
      // A message of OpenPGP without a signature.
      await Deno.remove(inRelease);
      await runChild("gpg", {
        args: [
          "--homedir",
          join(dir, "gnupg"),
          "--batch",
          "--quiet",
          "--output",
          inRelease,
          "--store",
          published,
        ],
      });
      assertEquals(await refusal(), "package.index_untrusted");
      await Deno.writeTextFile(inRelease, signed);
      assertEquals((await publish()).packages, 1);
    }),
});

Deno.test({
  name: "another key signs the index where the public key of the present one is given",
  ignore: missing.length > 0,
  fn: () =>
    withWorld(async ({ dir, deb, publicKey, publish, publishTo, makeKey }) => {
      await publish(deb);
      const key = await makeKey("next");
      const error = await assertRejects(() => publishTo("stable", [], { key }), SbxError);
      assertEquals(error.code, "package.index_untrusted");
      assertStringIncludes(error.hint ?? "", "--old-key");
      assertEquals((await publishTo("stable", [], { key, oldKey: publicKey })).packages, 1);
      assertEquals((await publishTo("stable", [], { key })).packages, 1);
      const missing = join(dir, "nothing.pgp");
      assertEquals(
        (await assertRejects(() => publishTo("stable", [], { key, oldKey: missing }), SbxError)).code,
        "package.key_invalid",
      );
    }),
});

Deno.test({
  name: "two that publish at once both publish",
  ignore: missing.length > 0,
  fn: () =>
    withWorld(async ({ dir, deb, publish }) => {
      const next = await sampleDeb(join(dir, "dist"), "two", "all", "1.1");
      await Promise.all([publish(deb), publish(next)]);
      assertEquals(await indexOf(dir, "stable"), ["1.0", "1.1"]);
    }),
});
