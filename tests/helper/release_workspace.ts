/** A publisher's workspace on disk with a small image, a package and an SBOM. */
import { join } from "node:path";
import type { Arch } from "../../lib/base/arch/mod.ts";
import { generateManifest, type ImageRecord } from "../../lib/release/asset/mod.ts";
import {
  addEntries,
  describePackage,
  describeProfile,
  initWorkspace,
  openRelease,
  publishTree,
  readPublisherKeys,
  signWorkspace,
  Workspace,
} from "../../lib/publish/mod.ts";
import { writeDeb } from "../../lib/publish/package/mod.ts";
import type { Fetch, ReleaseKeys } from "../../lib/release/mod.ts";

export class ReleaseWorkspace implements AsyncDisposable {
  #now: number;

  private constructor(readonly root: string, start: number) {
    this.#now = start;
  }

  /** @param start time of the first index, in `ms` */
  static async make(start = Date.UTC(2026, 10, 25)): Promise<ReleaseWorkspace> {
    const folder = new ReleaseWorkspace(await Deno.makeTempDir(), start);
    await initWorkspace(folder.dir, new Date(folder.#now));
    return folder;
  }

  get dir(): string {
    return join(this.root, "workspace");
  }

  get out(): string {
    return join(this.root, "out");
  }

  /** The time of the last signature, a day after the one before. */
  get now(): Date {
    return new Date(this.#now);
  }

  async keys(): Promise<ReleaseKeys> {
    const { hmac, signing } = await readPublisherKeys(this.dir);
    return { hmac, trusted: signing.map(({ publicKey }) => publicKey) };
  }

  /** what images are made of */
  record?: ImageRecord;

  /** Writes an image of three boot files and an OBOM. @returns path of its manifest */
  async image(content: string, arch: Arch = "x86_64"): Promise<string> {
    const dir = join(this.root, `image-${content}`);
    await Deno.mkdir(join(dir, arch), { recursive: true });
    for (const name of ["vmlinuz", "initrd.img", "rootfs.erofs"]) {
      await Deno.writeTextFile(join(dir, arch, name), `${name} ${content}`);
    }
    const obom = { metadata: { tools: { components: [{ name: "sbx-admin", version: "0.1.0" }] } }, content };
    await Deno.writeTextFile(join(dir, arch, "obom.cdx.json"), JSON.stringify(obom));
    return await generateManifest(dir, { binaryVersion: "0.1.0", image: this.record });
  }

  /** text of the program in a release's package */
  program = (version: string) => `binary ${version}`;

  /** Writes a package with its SBOM. */
  async package(version: string): Promise<{ file: string; sbom: string; binary: string }> {
    const [file, sbom, binary] = [`sbx_${version}_amd64.deb`, "sbx-sbom.spdx.json", "sbx"].map((name) =>
      join(this.root, name)
    );
    await Deno.writeTextFile(binary, this.program(version));
    await this.#deb(version, binary);
    const packages = [{ SPDXID: "SPDXRef-sbx", name: "sbx" }];
    await Deno.writeTextFile(sbom, JSON.stringify({ spdxVersion: "SPDX-2.3", packages }));
    return { file, sbom, binary };
  }

  async #deb(version: string, binary: string): Promise<void> {
    const control = {
      Package: "sbx",
      Version: version,
      Architecture: "amd64",
      Maintainer: "t <t@example.com>",
    };
    await writeDeb({
      control: { ...control, Description: "sbx" },
      files: [{ path: "usr/bin/sbx", content: { copyOf: binary }, mode: 0o755 }],
      sourceDateEpoch: 1_764_000_000,
    }, this.root);
  }

  /** Adds a release with a package and a generated profile, and signs. */
  async release(version: string, channel = "stable"): Promise<void> {
    await this.add(version, channel);
    await this.sign();
  }

  async add(version: string, channel = "stable"): Promise<void> {
    const target = { channel, version };
    const { file, sbom, binary } = await this.package(version);
    const assets = await this.image(version);
    await Workspace.change(this.dir, async (workspace) => {
      const folder = await openRelease(workspace, target);
      const binaries = [{ path: "/usr/bin/sbx", file: binary }];
      const described = await describePackage(workspace, folder, { file, sbom, version, binaries });
      const profile = await describeProfile(workspace, folder, { assets, revision: version });
      await addEntries(workspace, target, { ...described, profiles: [profile] });
    });
  }

  async sign(): Promise<void> {
    this.#now += 86_400_000;
    await signWorkspace(await Workspace.open(this.dir), await readPublisherKeys(this.dir), this.now);
  }

  async publish() {
    return await publishTree(this.dir, this.out, await this.keys());
  }

  /** BLAKE3-free picture of the published tree: each file with its bytes. */
  async published(dir = this.out, below = ""): Promise<Map<string, string>> {
    const files = new Map<string, string>();
    for await (const { name, isDirectory } of Deno.readDir(join(dir, below))) {
      const path = below ? `${below}/${name}` : name;
      if (isDirectory) { for (const [key, value] of await this.published(dir, path)) files.set(key, value); }
      else files.set(path, (await Deno.readFile(join(dir, path))).toHex());
    }
    return files;
  }

  /** Reads the published tree as a client that knows it as `https://releases.example/`. */
  readonly fetch: Fetch = async (url) => await Deno.readFile(join(this.out, url.pathname));

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.root, { recursive: true });
  }
}
