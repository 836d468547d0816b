import { assert, assertEquals, assertRejects } from "@std/assert";
import { Ajv2020 } from "ajv/dist/2020.js";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { writeDeb } from "../../../lib/publish/package/mod.ts";
import {
  addEntries,
  checkWorkspace,
  describePackage,
  describeProfile,
  initWorkspace,
  markRelease,
  openRelease,
  Workspace,
} from "../../../lib/publish/mod.ts";
import {
  checkChannel,
  generateSigningKey,
  parseChannelManifest,
  parseTrust,
  ReleaseMemory,
  verifyTree,
} from "../../../lib/release/mod.ts";
import { fromRoot } from "../../helper/repo.ts";
import { ReleaseWorkspace } from "../../helper/release_workspace.ts";

Deno.test("a release is added, signed, checked, published, verified, and read by a client", async () => {
  await using publisher = await ReleaseWorkspace.make();
  await publisher.release("1.0.0");
  const keys = await publisher.keys();
  assertEquals((await checkWorkspace(publisher.dir, keys)).ok, true);
  const { added, replaced } = await publisher.publish();
  assertEquals(replaced, []);
  assertEquals(added.sort(), [
    "assets/stable/1.0.0/code.toml",
    "assets/stable/1.0.0/code/manifest.json",
    "assets/stable/1.0.0/code/x86_64-initrd.img",
    "assets/stable/1.0.0/code/x86_64-obom.cdx.json",
    "assets/stable/1.0.0/code/x86_64-rootfs.erofs",
    "assets/stable/1.0.0/code/x86_64-vmlinuz",
    "assets/stable/1.0.0/manifest.json",
    "assets/stable/1.0.0/sbx-sbom.spdx.json",
    "assets/stable/1.0.0/sbx_1.0.0_amd64.deb",
    "assets/stable/manifest.json",
    "channels.json",
    "channels.json.dsse",
  ]);
  const { report } = await verifyTree(publisher.out, { keys });
  assertEquals([report.ok, report.results.filter(({ ok }) => !ok)], [true, []]);
  const { manifest } = await checkChannel({
    index: new URL("https://releases.example/channels.json"),
    channel: "stable",
    keys,
    memory: new ReleaseMemory({ dir: publisher.root }),
    fetch: publisher.fetch,
    now: publisher.now,
  });
  const { size } = await Deno.stat(join(publisher.root, "sbx_1.0.0_amd64.deb"));
  assertEquals(manifest.packages.map(({ name, kind, bytes }) => [name, kind, bytes]), [
    ["sbx_1.0.0_amd64.deb", "deb", size],
  ]);
  assertEquals(manifest.binaries.map(({ name, path, sbom_component }) => [name, path, sbom_component]), [
    ["sbx", "/usr/bin/sbx", "SPDXRef-sbx"],
  ]);
});

Deno.test("adding a release changes the index, its signature and the channel's newest manifest, and no other file", async () => {
  await using publisher = await ReleaseWorkspace.make();
  await publisher.release("1.0.0");
  await publisher.release("1.0.0", "nightly");
  await publisher.publish();
  const before = await publisher.published();
  await publisher.release("1.1.0");
  const { replaced } = await publisher.publish();
  const after = await publisher.published();
  const changed = [...before].filter(([name, bytes]) => after.get(name) !== bytes).map(([name]) => name)
    .sort();
  assertEquals(changed, ["assets/stable/manifest.json", "channels.json", "channels.json.dsse"]);
  assertEquals(replaced.sort(), changed);
  const newest = parseChannelManifest(
    await Deno.readFile(join(publisher.out, "assets/stable/manifest.json")),
    "newest",
  );
  assertEquals(newest.version, "1.1.0");
});

Deno.test("a release that is signed never changes; one that is not is neither published nor hidden", async () => {
  await using publisher = await ReleaseWorkspace.make();
  await publisher.release("1.0.0");
  await assertRejects(() => publisher.add("1.0.0"), SbxError, "is signed and never changes");
  await publisher.add("1.1.0");
  await publisher.add("1.1.0");
  const report = await checkWorkspace(publisher.dir, await publisher.keys());
  const problems = report.results.filter(({ ok }) => !ok);
  assertEquals(problems.map(({ subject, detail }) => [subject, detail]), [
    ["assets/stable/1.1.0/manifest.json", "not signed: sbx-admin release sign"],
    [
      "channels.json.dsse",
      "channels.json.dsse is of another channels.json",
    ],
  ]);
  await assertRejects(() => publisher.publish(), SbxError, "cannot be published");
  await publisher.sign();
  assertEquals((await publisher.publish()).added.length, 12 + 9);
});

Deno.test("a status moves forward only, and must be signed again", async () => {
  await using publisher = await ReleaseWorkspace.make();
  await publisher.release("1.0.0");
  const mark = async (status: "supported" | "revoked" | "current") =>
    await markRelease(await Workspace.open(publisher.dir), "stable", "1.0.0", status);
  await mark("revoked");
  await assertRejects(() => publisher.publish(), SbxError, "cannot be published");
  await assertRejects(() => mark("supported"), SbxError, "is revoked, and cannot become supported");
  await assertRejects(() => mark("current"), SbxError, "is revoked, and cannot become current");
  const open = () => Workspace.open(publisher.dir);
  await assertRejects(
    async () => await markRelease(await open(), "stable", "2.0.0", "revoked"),
    SbxError,
    "no release",
  );
  await publisher.sign();
  await publisher.publish();
});

Deno.test("a folder with a newer state is not replaced by an older one, and a published file by no other", async () => {
  await using publisher = await ReleaseWorkspace.make();
  await publisher.release("1.0.0");
  await publisher.publish();
  const old = await publisher.published(publisher.dir);
  await publisher.release("1.1.0");
  await publisher.publish();
  for (const name of ["channels.json", "channels.json.dsse"]) {
    await Deno.writeFile(join(publisher.dir, name), Uint8Array.fromHex(old.get(name)!));
  }
  await assertRejects(() => publisher.publish(), SbxError, "has a newer state than the workspace");
  await Deno.writeTextFile(join(publisher.out, "assets/stable/1.0.0/code.toml"), "changed");
  await publisher.sign();
  await assertRejects(() => publisher.publish(), SbxError, "is published, and would change");
});

Deno.test("a changed workspace is found: manifest, package, image, profile", async () => {
  await using publisher = await ReleaseWorkspace.make();
  await publisher.release("1.0.0");
  const keys = await publisher.keys();
  for (
    const name of [
      "manifest.json",
      "sbx_1.0.0_amd64.deb",
      "code.toml",
      "code/x86_64-rootfs.erofs",
      "code/x86_64-obom.cdx.json",
    ]
  ) {
    const path = join(publisher.dir, "assets/stable/1.0.0", name);
    const bytes = await Deno.readFile(path);
    await Deno.writeFile(path, bytes.with(3, bytes[3] ^ 1));
    const { ok, results } = await checkWorkspace(publisher.dir, keys);
    assert(!ok && results.some((result) => !result.ok && result.subject.endsWith(name)), name);
    await Deno.writeFile(path, bytes);
  }
  assertEquals((await checkWorkspace(publisher.dir, keys)).ok, true);
});

Deno.test("a binary that is not the one in its package is not released", async () => {
  await using publisher = await ReleaseWorkspace.make();
  const workspace = await Workspace.open(publisher.dir);
  const folder = await openRelease(workspace, { channel: "stable", version: "1.0.0" });
  const binary = join(publisher.root, "sbx");
  await Deno.writeTextFile(binary, "of the package");
  const deb = await writeDeb({
    control: {
      Package: "sbx",
      Version: "1.0.0",
      Architecture: "amd64",
      Maintainer: "t <t@example.com>",
      Description: "sbx",
    },
    files: [
      { path: "usr/bin/sbx", content: { copyOf: binary }, mode: 0o755 },
      { path: "usr/bin/sbx-service", content: { linkTo: "sbx" } },
      { path: "usr/bin/loop", content: { linkTo: "loop" } },
    ],
    sourceDateEpoch: 1_764_000_000,
  }, publisher.root);
  const sbom = join(publisher.root, "sbom.json");
  const packages = ["sbx", "sbx-service"].map((name) => ({ SPDXID: `SPDXRef-${name}`, name }));
  await Deno.writeTextFile(sbom, JSON.stringify({ spdxVersion: "SPDX-2.3", packages }));
  const describe = (path: string) =>
    describePackage(workspace, folder, {
      file: deb,
      sbom,
      version: "1.0.0",
      binaries: [{ path, file: binary }],
    });
  const refused = async (path: string) => {
    const { code, message } = await assertRejects(() => describe(path), SbxError);
    assertEquals(code, "release.package.invalid");
    assertEquals(await Array.fromAsync(Deno.readDir(join(publisher.dir, folder))), []);
    return message;
  };
  for (const path of ["/usr/bin/none", "usr/bin/sbx", "/usr/bin", "/usr/bin/loop"]) {
    assert((await refused(path)).includes(path));
  }
  await Deno.writeTextFile(binary, "of another build");
  assert((await refused("/usr/bin/sbx")).startsWith(`/usr/bin/sbx in ${deb} is not ${binary}: SHA-256 `));
  await Deno.writeTextFile(binary, "of the package");
  // A role is a link to the program.
  const { binaries: [role] } = await describe("/usr/bin/sbx-service");
  const { binaries: [program] } = await describe("/usr/bin/sbx");
  assertEquals([role.name, role.blake3], ["sbx-service", program.blake3]);
});

Deno.test("an image without kernel, initrd or rootfs is not released, and none of it is copied", async () => {
  await using publisher = await ReleaseWorkspace.make();
  const workspace = await Workspace.open(publisher.dir);
  const folder = await openRelease(workspace, { channel: "stable", version: "1.0.0" });
  const path = await publisher.image("whole");
  const text = await Deno.readTextFile(path);
  for (const part of ["vmlinuz", "initrd.img", "rootfs.erofs"]) {
    const manifest = JSON.parse(text);
    delete manifest.assets.releases[manifest.assets.current].arches.x86_64[part];
    await Deno.writeTextFile(path, JSON.stringify(manifest));
    const { code } = await assertRejects(
      () => describeProfile(workspace, folder, { assets: path }),
      SbxError,
      `missing here: ${part}`,
    );
    assertEquals(code, "manifest.invalid");
  }
  assertEquals(await Array.fromAsync(Deno.readDir(join(publisher.dir, folder))), []);
});

Deno.test("a revision of a profile is one document", async () => {
  await using publisher = await ReleaseWorkspace.make();
  await publisher.release("1.0.0");
  const workspace = await Workspace.open(publisher.dir);
  const target = { channel: "stable", version: "1.1.0" };
  const profile = await describeProfile(workspace, await openRelease(workspace, target), {
    assets: await publisher.image("other"),
    revision: "1.0.0",
  });
  await addEntries(workspace, target, { profiles: [profile] });
  await publisher.sign();
  const { ok, results } = await checkWorkspace(publisher.dir, await publisher.keys());
  assertEquals([ok, results.filter((each) => !each.ok).map(({ check }) => check)], [false, ["revision"]]);
});

Deno.test("releases that are added at once are all there", async () => {
  await using publisher = await ReleaseWorkspace.make();
  const assets = await publisher.image("same");
  const versions = ["1.0.0", "1.1.0", "1.2.0", "1.3.0"];
  await Promise.all(versions.map((version) =>
    Workspace.change(publisher.dir, async (workspace) => {
      const target = { channel: "stable", version };
      const folder = await openRelease(workspace, target);
      const profile = await describeProfile(workspace, folder, { assets, revision: version });
      await addEntries(workspace, target, { profiles: [profile] });
    })
  ));
  const { index } = await Workspace.open(publisher.dir);
  assertEquals(index.channels.stable.manifests.map(({ version }) => version).sort(), versions);
  await publisher.sign();
  await publisher.publish();
});

Deno.test("keys rotate: the trust document has the keys that sign, and an index of both serves hosts with either", async () => {
  await using publisher = await ReleaseWorkspace.make();
  await publisher.release("1.0.0");
  const trustedOf = async () =>
    parseTrust(await Deno.readTextFile(join(publisher.dir, "trust.json")), "trust");
  const before = await trustedOf();
  const folder = join(publisher.dir, "keys");
  const [old] = [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) => name.endsWith(".pem"));
  await Deno.writeTextFile(join(folder, "new.pem"), await generateSigningKey(), { mode: 0o600 });
  await publisher.sign();
  await publisher.publish();
  const both = await trustedOf();
  assertEquals([both.length, both.some(({ id }) => id === before[0].id)], [2, true]);
  const verify = async (trusted: typeof both) =>
    (await verifyTree(publisher.out, { keys: { hmac: [], trusted } })).report.ok;
  for (const key of both) assertEquals(await verify([key]), true);
  await Deno.remove(join(folder, old));
  await publisher.sign();
  await publisher.publish();
  const [after, ...others] = await trustedOf();
  assertEquals([others, after.id === before[0].id, await verify([after]), await verify(before)], [
    [],
    false,
    true,
    false,
  ]);
});

Deno.test("a profile that needs other files, or files of this machine, is not released", async () => {
  await using publisher = await ReleaseWorkspace.make();
  const workspace = await Workspace.open(publisher.dir);
  const folder = await openRelease(workspace, { channel: "stable", version: "1.0.0" });
  const file = join(publisher.root, "mine", "profile.toml");
  await Deno.mkdir(join(publisher.root, "mine"));
  const pin = (name: string) =>
    `${name} = {name = "${name}", url = "file:///${name}", hash = "blake3:${"a".repeat(64)}", size = 1}\n`;
  for (
    const [text, problem] of [
      ['[rule_files]\nenforcement = "rules.toml"', "names other files in [rule_files]"],
      [
        '[[detection.packs]]\nid = "a.pack"\nversion = "1"\npath = "p.yaml"',
        "names other files in [detection]",
      ],
      [
        `[assets.arch.x86_64]\n${pin("kernel")}${pin("initrd")}${pin("rootfs")}`,
        "pins file:///kernel, a file of this",
      ],
      ["unknown = 1", "unknown"],
      ['min_sbx_version = "not-a-version"', "min_sbx_version must be a SemVer version"],
      ['min_sbx_version = "1.0.0+build"', "min_sbx_version must be a SemVer version without build metadata"],
    ]
  ) {
    await Deno.writeTextFile(
      file,
      `id = "mine"\nname = "M"\ndescription = ""\nrevision = "1.0.0"\n${text}\n`,
    );
    await assertRejects(() => describeProfile(workspace, folder, { file }), SbxError, problem);
  }
});

Deno.test("what is published conforms to the JSON Schemas", async () => {
  await using publisher = await ReleaseWorkspace.make();
  await publisher.release("1.0.0");
  await publisher.publish();
  const errorsOf = async (schema: string, path: string) => {
    const read = async (path: string) => JSON.parse(await Deno.readTextFile(path));
    const ajv = new Ajv2020({ allErrors: true, strict: false, validateFormats: false });
    const validate = ajv.compile(await read(fromRoot(`schemas/${schema}.schema.json`)));
    validate(await read(path));
    return validate.errors;
  };
  assertEquals(await errorsOf("channels", join(publisher.out, "channels.json")), null);
  assertEquals(await errorsOf("channel-manifest", join(publisher.out, "assets/stable/manifest.json")), null);
  assertEquals(await errorsOf("sbx.release_trust.v1", join(publisher.dir, "trust.json")), null);
  assert(await errorsOf("channels", join(publisher.out, "assets/stable/manifest.json")));
});

Deno.test("keys stay private, and a workspace is never overwritten", async () => {
  await using publisher = await ReleaseWorkspace.make();
  const modeOf = async (name: string) => (await Deno.stat(join(publisher.dir, name))).mode! & 0o777;
  assertEquals([await modeOf("keys"), await modeOf("keys/hmac.keys"), await modeOf("trust.json")], [
    0o700,
    0o600,
    0o644,
  ]);
  await assertRejects(() => initWorkspace(publisher.dir), SbxError, "exists already");
  await publisher.release("1.0.0");
  await publisher.publish();
  assertEquals([...(await publisher.published()).keys()].filter((name) => /key|pem|trust/.test(name)), []);
  await Deno.chmod(join(publisher.dir, "keys/hmac.keys"), 0o644);
  await assertRejects(() => publisher.sign(), SbxError, "can be read by other users (mode 0644)");
});
