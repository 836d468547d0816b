import { bundleFromJSON } from "@sigstore/bundle";
import { toSignedEntity, Verifier } from "@sigstore/verify";
import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { createPublicKey } from "node:crypto";
import { join } from "node:path";
import { attestationCheck, attestRelease } from "../../../../lib/release/attest/mod.ts";
import { readPublisherKeys } from "../../../../lib/publish/mod.ts";
import { generateSigningKey, type PublicKey, verifyTree } from "../../../../lib/release/mod.ts";
import { ReleaseWorkspace } from "../../../helper/release_workspace.ts";
import type { Parsed } from "../../../helper/json.ts";

const BUILD = {
  source: "git+https://example.com/sbx",
  commit: "0123456789abcdef0123456789abcdef01234567",
  builder: "https://example.com/ci",
  materials: [{ name: "deno.lock", digest: { sha256: "ab".repeat(32) } }],
};
const RELEASE = "assets/stable/1.0.0";
const DEB = `${RELEASE}/sbx_1.0.0_amd64.deb`;
const OBOM = `${RELEASE}/code/x86_64-obom.cdx.json`;

async function attested(): Promise<ReleaseWorkspace> {
  const publisher = await ReleaseWorkspace.make();
  await publisher.release("1.0.0");
  await attest(publisher);
  return publisher;
}

async function attest(publisher: ReleaseWorkspace): Promise<void> {
  const { signing } = await readPublisherKeys(publisher.dir);
  const options = {
    channel: "stable",
    version: "1.0.0",
    build: BUILD,
    signing,
    keys: await publisher.keys(),
  };
  await attestRelease(publisher.dir, options);
  await publisher.publish();
}

async function problems(publisher: ReleaseWorkspace): Promise<string> {
  const { report } = await verifyTree(publisher.out, {
    keys: await publisher.keys(),
    checks: [attestationCheck],
  });
  return report.results.filter(({ ok }) => !ok).map(({ subject, detail }) => `${subject}: ${detail}`).join(
    "\n",
  );
}

Deno.test("a release is attested, published and verified offline", async () => {
  await using publisher = await attested();
  const { report } = await verifyTree(publisher.out, {
    keys: await publisher.keys(),
    checks: [attestationCheck],
  });
  assertEquals(report.results.filter(({ ok }) => !ok), []);
  const kinds = report.results.filter(({ subject }) => subject.endsWith(".sigstore.json"));
  assertEquals(kinds.map(({ check, subject }) => `${check} ${subject.slice(RELEASE.length + 1)}`).sort(), [
    "obom code/x86_64-obom.cdx.json.obom.sigstore.json",
    "provenance code/x86_64-initrd.img.sigstore.json",
    "provenance code/x86_64-obom.cdx.json.sigstore.json",
    "provenance code/x86_64-rootfs.erofs.sigstore.json",
    "provenance code/x86_64-vmlinuz.sigstore.json",
    "provenance sbx_1.0.0_amd64.deb.sigstore.json",
    "sbom sbx_1.0.0_amd64.deb.sbom.sigstore.json",
  ]);
});

Deno.test("Sigstore's own library accepts the bundles, and refuses a changed one", async () => {
  await using publisher = await attested();
  const { trusted: [{ raw }] } = await publisher.keys();
  const der = new Uint8Array([...Uint8Array.fromHex("302a300506032b6570032100"), ...raw]);
  const publicKey = createPublicKey({ key: Buffer.from(der), format: "der", type: "spki" });
  const trust = { publicKey: () => ({ publicKey, validFor: () => true }) };
  const verifier = new Verifier(trust as never, {
    tlogThreshold: 0,
    ctlogThreshold: 0,
    timestampThreshold: 0,
  });
  for (const ending of [".sigstore.json", ".sbom.sigstore.json"]) {
    const text = await Deno.readTextFile(join(publisher.out, `${DEB}${ending}`));
    const bundle = bundleFromJSON(JSON.parse(text));
    verifier.verify(toSignedEntity(bundle));
    const changed = JSON.parse(text);
    const payload = atob(changed.dsseEnvelope.payload).replace("1.0.0", "1.0.1");
    changed.dsseEnvelope.payload = btoa(payload);
    assertThrows(() => verifier.verify(toSignedEntity(bundleFromJSON(changed))));
  }
});

Deno.test("while keys rotate, a release is attested by each of them, and what is published stays", async () => {
  await using publisher = await attested();
  const [old] = (await publisher.keys()).trusted;
  const before = await publisher.published();
  // Sorts before the old one, and so becomes the first key.
  await Deno.writeTextFile(join(publisher.dir, "keys/1.pem"), await generateSigningKey(), { mode: 0o600 });
  await publisher.sign();
  await attest(publisher);
  const after = await publisher.published();
  for (const [name, bytes] of before) {
    if (!name.startsWith("channels.json")) assertEquals(after.get(name), bytes);
  }
  const { hmac, trusted } = await publisher.keys();
  const [fresh] = trusted.filter(({ id }) => id !== old.id);
  const found = async (...trusted: PublicKey[]) => {
    const { report } = await verifyTree(publisher.out, {
      keys: { hmac, trusted },
      checks: [attestationCheck],
    });
    const results = report.results.filter(({ check }) => check === "provenance");
    return results.map((
      { ok, subject },
    ) => [ok, subject.endsWith(`.${fresh.id.slice(0, 16)}.sigstore.json`)]);
  };
  assertEquals(await found(old), Array(5).fill([true, false]));
  assertEquals(await found(fresh), Array(5).fill([true, true]));
  // A bundle that nobody trusts, beside a good one, changes nothing.
  await Deno.writeTextFile(join(publisher.out, `${DEB}.${"0".repeat(16)}.sigstore.json`), "{}");
  assertEquals(await problems(publisher), "");
  await attest(publisher);
});

Deno.test("provenance names source, commit, builder and materials", async () => {
  await using publisher = await attested();
  const bundle = JSON.parse(await Deno.readTextFile(join(publisher.out, `${DEB}.sigstore.json`)));
  const statement = JSON.parse(atob(bundle.dsseEnvelope.payload));
  assertEquals(statement.predicateType, "https://slsa.dev/provenance/v1");
  const { buildDefinition, runDetails } = statement.predicate;
  assertEquals(buildDefinition.externalParameters, { source: BUILD.source, commit: BUILD.commit });
  assertEquals(buildDefinition.resolvedDependencies[0].digest, { gitCommit: BUILD.commit });
  assertEquals(buildDefinition.resolvedDependencies[1], BUILD.materials[0]);
  assertEquals(runDetails, { builder: { id: BUILD.builder } });
});

Deno.test("provenance of an image names what it was made of beside Debian's packages", async () => {
  await using publisher = await ReleaseWorkspace.make();
  const h1 = new Uint8Array(32).fill(0xab);
  publisher.record = {
    profile: "code",
    packages: {
      suite: "trixie",
      apt: [],
      npm: [],
      bin: {},
      added: [`script:setup.sh@sha256:${"1".repeat(64)}`, "pip_index:https://pypi.example.com/simple"],
    },
    npm_lock: { "left@1.0.0": `sha512-${"A".repeat(86)}==` },
    lock: { "go:corp.example/x@v1.0.0": `h1:${h1.toBase64()}`, "pip:a@1.0": `sha256:${"2".repeat(64)}` },
  };
  await publisher.release("1.0.0");
  await attest(publisher);
  const path = join(publisher.out, RELEASE, "code/x86_64-rootfs.erofs.sigstore.json");
  const { predicate } = JSON.parse(atob(JSON.parse(await Deno.readTextFile(path)).dsseEnvelope.payload));
  assertEquals(predicate.buildDefinition.resolvedDependencies.slice(2), [
    { name: "script:setup.sh", digest: { sha256: "1".repeat(64) } },
    { name: "npm:left@1.0.0", digest: { sha512: "00".repeat(64) } },
    { name: "go:corp.example/x@v1.0.0", digest: { dirHash: "ab".repeat(32) } },
    { name: "pip:a@1.0", digest: { sha256: "2".repeat(64) } },
  ]);
});

for (
  const [what, change, reason] of [
    ["a missing attestation", (out) => Deno.remove(join(out, `${DEB}.sigstore.json`)), "is missing"],
    [
      "that of another file",
      (out) => copy(out, `${OBOM}.sigstore.json`, `${DEB}.sigstore.json`),
      "is about x86_64-obom",
    ],
    [
      "that of another kind",
      (out) => copy(out, `${DEB}.sbom.sigstore.json`, `${DEB}.sigstore.json`),
      "is a https://spdx",
    ],
    ["no JSON", (out) => Deno.writeTextFile(join(out, `${DEB}.sigstore.json`), "{"), "is not valid"],
    ["an unknown field", (out) => edit(out, (bundle) => bundle.extra = 1), "is not valid"],
    [
      "two signatures",
      (out) => edit(out, ({ dsseEnvelope: { signatures } }) => signatures.push(signatures[0])),
      "one signature",
    ],
    [
      "a changed payload",
      (out) => edit(out, ({ dsseEnvelope }) => dsseEnvelope.payload = btoa("{}")),
      "did not sign this",
    ],
    [
      "an unknown key",
      (out) => edit(out, ({ dsseEnvelope: { signatures } }) => signatures[0].keyid = "other"),
      "none of them trusted",
    ],
    [
      "an entry of a log",
      (out) => edit(out, ({ verificationMaterial }) => verificationMaterial.tlogEntries = [{}]),
      "is not valid",
    ],
  ] as [string, (out: string) => Promise<void>, string][]
) {
  Deno.test(`verification refuses ${what}`, async () => {
    await using publisher = await attested();
    await change(publisher.out);
    const found = await problems(publisher);
    assertStringIncludes(found, reason);
    assertEquals(found.split("\n").length, 1, found);
  });
}

Deno.test("verification refuses an SBOM other than the published one", async () => {
  await using publisher = await attested();
  const path = join(publisher.out, RELEASE, "sbx-sbom.spdx.json");
  await Deno.writeTextFile(path, (await Deno.readTextFile(path)).replace("SPDXRef-sbx", "SPDXRef-other"));
  assertStringIncludes(await problems(publisher), "a document other than the published one");
});

async function copy(out: string, from: string, to: string): Promise<void> {
  await Deno.copyFile(join(out, from), join(out, to));
}

async function edit(out: string, change: (bundle: Parsed) => void): Promise<void> {
  const path = join(out, `${DEB}.sigstore.json`);
  const bundle = JSON.parse(await Deno.readTextFile(path));
  change(bundle);
  await Deno.writeTextFile(path, JSON.stringify(bundle));
}
