/** Images that lie about themselves: folders, archives and registries. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { home } from "../../../../lib/base/home/mod.ts";
import { type MadeEnvironment, makeEnvironment } from "../../../../lib/publish/environment/mod.ts";
import {
  environmentKey,
  getEnvironment,
  listEnvironments,
  parseReference,
} from "../../../../lib/release/environment/mod.ts";
import { pullError } from "../../../../lib/publish/environment/pull_error.ts";
import { type ImageParts, succeed, writeImage } from "../../../helper/oci.ts";
import type { TarFile } from "../../../helper/tar.ts";

const FILES: TarFile[] = [{ name: "etc/os-release", content: "ID=test\n" }];
const INDEX = "application/vnd.oci.image.index.v1+json";
const MANIFEST = "application/vnd.oci.image.manifest.v1+json";

class World implements AsyncDisposable {
  readonly dir = Deno.makeTempDirSync({ prefix: "sbx-pull-" });
  readonly home = home({ get: (name) => name === "SBX_HOME" ? join(this.dir, "home") : undefined });

  async pull(reference: string): Promise<MadeEnvironment> {
    await Deno.mkdir(this.home.dir, { recursive: true });
    try {
      return await makeEnvironment(parseReference(reference), {
        home: this.home,
        arch: "x86_64",
        refresh: true,
      });
    } finally {
      await this.#requireClean();
    }
  }

  async refusal(reference: string): Promise<SbxError> {
    return await assertRejects(() => this.pull(reference), SbxError);
  }

  async image(name: string, parts: Partial<ImageParts> = {}) {
    return await writeImage(join(this.dir, name), { layers: [FILES], ...parts });
  }

  /** Puts an index of one image above a layout's own, as the tag v1. */
  async index(name: string, digest: string, platform = { os: "linux", architecture: "amd64" }) {
    const text = JSON.stringify({
      schemaVersion: 2,
      mediaType: INDEX,
      manifests: [{ mediaType: MANIFEST, digest, size: 1, platform }],
    });
    const hex = createHash("sha256").update(text).digest("hex");
    await Deno.writeTextFile(this.blob(name, hex), text);
    const annotations = { "org.opencontainers.image.ref.name": "v1" };
    const manifests = [{ mediaType: INDEX, digest: `sha256:${hex}`, size: text.length, annotations }];
    await Deno.writeTextFile(
      join(this.dir, name, "index.json"),
      JSON.stringify({ schemaVersion: 2, manifests }),
    );
  }

  blob(name: string, digest: string): string {
    return join(this.dir, name, "blobs/sha256", digest.replace("sha256:", ""));
  }

  async #requireClean(): Promise<void> {
    const names = await Array.fromAsync(
      Deno.readDir(join(this.home.dir, "environments")),
      ({ name }) => name,
    );
    assertEquals(names.filter((name) => name.startsWith(".work-")), []);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.dir, { recursive: true });
  }
}

Deno.test("a folder cannot give its own image the digest of another one", async () => {
  await using world = new World();
  const trusted = await world.image("trusted");
  const own = await world.image("own", { layers: [[{ name: "own", content: "x" }]] });
  // Its layers are here already: skopeo is not asked again.
  await world.pull(`oci:${world.dir}/own:v1`);
  await Deno.copyFile(world.blob("own", own.digest), world.blob("own", trusted.digest));
  await world.index("own", trusted.digest);
  const { code, message } = await world.refusal(`oci:${world.dir}/own:v1`);
  assertEquals(code, "environment.digest");
  assert(message.includes(own.digest), message);
  assertEquals(await getEnvironment(world.home, environmentKey(trusted.digest, "x86_64")), undefined);
});

Deno.test("the manifest of a folder is a file of its own, and not too large", async () => {
  await using world = new World();
  const { digest } = await world.image("own");
  await world.index("own", digest);
  assertEquals((await world.pull(`oci:${world.dir}/own:v1`)).environment.digest, digest);
  await Deno.remove(world.blob("own", digest));
  await succeed("mkfifo", world.blob("own", digest));
  assertEquals((await world.refusal(`oci:${world.dir}/own:v1`)).code, "environment.manifest.invalid");
});

Deno.test("an error names platforms on one line", async () => {
  await using world = new World();
  const { digest } = await world.image("own");
  await world.index("own", digest, { os: "win\x1b[31m", architecture: "x\n".repeat(1000) });
  const { code, message } = await world.refusal(`oci:${world.dir}/own:v1`);
  assertEquals(code, "environment.platform");
  assert(message.length < 300 && !message.includes("\n"), message);
});

Deno.test("a layer that its registry does not keep is refused", async () => {
  await using world = new World();
  const layer = {
    mediaType: "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
    digest: `sha256:${"1".repeat(64)}`,
    size: 5,
    urls: ["http://127.0.0.1:1/layer"],
  };
  await world.image("own", { layers: [], manifest: { layers: [layer] } });
  const { code, message } = await world.refusal(`oci:${world.dir}/own:v1`);
  assertEquals(code, "environment.manifest.invalid");
  assert(message.includes("is kept elsewhere"), message);
});

Deno.test("an image that is named as a built one comes from no registry of this machine", async () => {
  await using world = new World();
  assertEquals((await world.refusal("localhost:1/app:v1")).code, "environment.pull_failed");
  for (const name of ["localhost/app", `localhost/team/app@sha256:${"1".repeat(64)}`]) {
    const { code, hint } = await world.refusal(name);
    assertEquals([code, hint?.includes("sbx image build")], ["environment.not_found", true], name);
  }
});

Deno.test("variables that no record can hold are left out", async () => {
  await using world = new World();
  await world.image("own", { config: { Env: ["__proto__=x", "A=1"] } });
  const { environment } = await world.pull(`oci:${world.dir}/own:v1`);
  assertEquals(Object.entries(environment.config.env), [["A", "1"]]);
  assertEquals((await listEnvironments(world.home)).length, 1);
});

Deno.test("several pulls of one archive at once all have its image", async () => {
  await using world = new World();
  await world.image("own", { layers: [[{ name: "x", content: new Uint8Array(8 * 1024 ** 2) }]] });
  const archive = `docker-archive:${world.dir}/image.tar`;
  await succeed("skopeo", "copy", "-q", "--insecure-policy", `oci:${world.dir}/own:v1`, `${archive}:own:v1`);
  await Deno.mkdir(world.home.dir, { recursive: true });
  const made = await Promise.all(
    [1, 2, 3, 4].map(() =>
      makeEnvironment(parseReference(archive), { home: world.home, arch: "x86_64", refresh: true })
    ),
  );
  assertEquals(new Set(made.map(({ environment }) => environment.key)).size, 1);
  assertEquals(made.filter(({ isNew }) => isNew).length, 1);
});

Deno.test("a registry that sends more than its manifest says is left, long before the disk is full", async () => {
  await using world = new World();
  const { digest, layers: [layer] } = await world.image("own");
  const left = Promise.withResolvers<void>();
  await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async ({ url }) => {
    const [, kind, name] = /\/(manifests|blobs)\/(.*)$/.exec(new URL(url).pathname) ?? [];
    if (kind === "manifests") {
      const headers = { "content-type": MANIFEST, "docker-content-digest": digest };
      return new Response(await Deno.readFile(world.blob("own", digest)), { headers });
    }
    if (kind !== "blobs") return new Response("{}");
    if (name !== layer.digest) return new Response(await Deno.readFile(world.blob("own", name)));
    return new Response(
      new ReadableStream({
        pull: (controller) => controller.enqueue(new Uint8Array(1024 ** 2)),
        cancel: () => left.resolve(),
      }),
    );
  });
  const { code, message } = await world.refusal(`127.0.0.1:${server.addr.port}/own:v1`);
  assertEquals(code, "environment.layer.too_large");
  assert(message.includes("more than its manifest says"), message);
  await left.promise;
});

Deno.test("a disk that is full in the middle of a download is named as such", () => {
  const words = "writing blob: write /home/a/oci-put-blob1: no space left on device";
  const output = `time="2026-01-01T00:00:00Z" level=fatal msg="${words}"\n`;
  const { code, hint } = pullError({ canonical: "example.com/a:v1" }, "pulling example.com/a:v1", output);
  assertEquals(code, "disk.full");
  assert(hint!.includes("sbx image gc"), hint);
});

Deno.test("where Docker is not running the error names Docker, and no registry", () => {
  const words = "initializing source docker-daemon:foo:latest: loading image from docker engine: " +
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?";
  const output = `time="2026-01-01T00:00:00Z" level=fatal msg="${words}"\n`;
  const { code, hint } = pullError({ canonical: "docker-daemon:foo:latest" }, "pulling foo", output);
  assertEquals([code, hint!.startsWith("start Docker"), hint!.includes("layers")], [
    "environment.pull_failed",
    true,
    false,
  ]);
});
