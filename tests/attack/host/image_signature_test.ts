/**
 * Images that a company wants signed: every way to bring another one is
 * refused, before a layer of it arrives.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { currentArch } from "../../../lib/base/arch/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { keyFingerprint } from "../../../lib/base/hash/mod.ts";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { makeEnvironment } from "../../../lib/publish/environment/mod.ts";
import { blobPath, parseReference } from "../../../lib/release/environment/mod.ts";
import { attachSignature, claimsOf, makeSigner, type SignatureParts } from "../../helper/image_signature.ts";
import { Registry, succeed, writeImage } from "../../helper/oci.ts";

const architecture = currentArch() === "arm64" ? "arm64" : "amd64";
const signer = makeSigner(), other = makeSigner();

interface World {
  registry: Registry;
  dir: string;
  /** Makes an image of its own and puts it into the registry. */
  publish(name: string): Promise<{ reference: string; digest: string; layer: string }>;
  /** Pulls an image that needs a signature. */
  pull(reference: string): ReturnType<typeof makeEnvironment>;
  hasLayer(digest: string): Promise<boolean>;
}

async function inWorld(work: (world: World) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "sbx-signature-" });
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? join(dir, "home") : undefined });
  await Deno.mkdir(home.dir, { mode: 0o700 });
  await using registry = await Registry.start();
  const signers = { scope: registry.host, keys: [makeSigner().publicKey, signer.publicKey] };
  try {
    await work({
      ...{ registry, dir },
      async publish(name) {
        const layout = join(dir, name);
        const content = crypto.randomUUID();
        const { digest, layers: [layer] } = await writeImage(layout, {
          layers: [[{ name: "file", content }]],
          architecture,
        });
        return { reference: await registry.push(layout, `team/${name}:v1`), digest, layer: layer.digest };
      },
      pull: (text) =>
        makeEnvironment(parseReference(text), { home, arch: currentArch(), refresh: true, signers }),
      hasLayer: (digest) => Deno.stat(blobPath(home, digest)).then(() => true, () => false),
    });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("an image with a signature of one of the company's keys is pulled, and its record says so", () =>
  inWorld(async ({ registry: { host }, dir, publish, pull }) => {
    const { reference, digest } = await publish("signed");
    const repository = "team/signed";
    await attachSignature({ host, repository, digest, privateKey: signer.privateKey });
    const key = keyFingerprint(signer.publicKey);
    const { environment } = await pull(reference);
    assertEquals(environment.provenance.signatures, [{ repository: `${host}/${repository}`, digest, key }]);
    // The fingerprint is the one that openssl gives. Debian's skopeo, which could judge the
    // rest, has sigstore switched off.
    await Deno.writeTextFile(join(dir, "key.pem"), signer.publicKey);
    await succeed(
      "openssl",
      "pkey",
      "-pubin",
      "-in",
      join(dir, "key.pem"),
      "-outform",
      "DER",
      "-out",
      join(dir, "key"),
    );
    assertEquals(`sha256:${(await succeed("sha256sum", join(dir, "key"))).slice(0, 64)}`, key);
  }));

Deno.test("a signature of the list of architectures is one of its image", () =>
  inWorld(async ({ registry: { host }, dir, publish, pull }) => {
    const { reference, digest } = await publish("listed");
    const { size } = await Deno.stat(join(dir, "listed/blobs/sha256", digest.slice(7)));
    const media = "application/vnd.oci.image.index.v1+json";
    const response = await fetch(`http://${host}/v2/team/listed/manifests/v2`, {
      method: "PUT",
      headers: { "content-type": media },
      body: JSON.stringify({
        schemaVersion: 2,
        mediaType: media,
        manifests: [{
          mediaType: "application/vnd.oci.image.manifest.v1+json",
          ...{ digest, size },
          platform: { os: "linux", architecture },
        }],
      }),
    });
    const index = response.headers.get("docker-content-digest")!;
    await response.body?.cancel();
    const parts = { host, repository: "team/listed", privateKey: signer.privateKey };
    await attachSignature({ ...parts, digest: index });
    const { environment } = await pull(reference.replace(/v1$/, "v2"));
    assertEquals([environment.digest, environment.provenance.signatures?.[0].digest], [digest, index]);
    // Its name is another one, which nobody has signed.
    await assertRejects(() => pull(reference), SbxError, "it has no signature");
  }));

const OTHER_DIGEST = `sha256:${"0".repeat(64)}`;
const attacks: Record<string, [Partial<SignatureParts> | undefined, string]> = {
  "no signature": [undefined, "it has no signature"],
  "a signature by another key": [{ privateKey: other.privateKey }, "no key of the company's has signed it"],
  "a signature for another digest": [{ signedDigest: OTHER_DIGEST }, "for another digest"],
  "a signature for another repository": [{ identity: "127.0.0.1:1/team/app" }, "for another repository"],
  "a signature for a repository that begins the same": [
    { identity: "HOST/team/a" },
    "for another repository",
  ],
  "a signature for another tag": [{ identity: "HOST/team/app:v2" }, "for another tag"],
  "a signature for a folder": [{ identity: "oci:/srv/app" }, "for another repository"],
  "a signature for no name": [{ identity: "not a name" }, "names no image"],
  "a signature of something else": [{ claims: new TextEncoder().encode("{}") }, "no claims about an image"],
  "claims with a critical part that is unknown": [{
    claims: new TextEncoder().encode(
      new TextDecoder().decode(claimsOf("x/y", OTHER_DIGEST)).replace(
        '"critical":{',
        '"critical":{"expires":1,',
      ),
    ),
  }, "no claims about an image"],
};

Deno.test("an image without a right signature is refused before a layer of it arrives", () =>
  inWorld(async ({ registry: { host }, publish, pull, hasLayer }) => {
    const { reference, digest, layer } = await publish("app");
    for (const [what, [parts, reason]] of Object.entries(attacks)) {
      if (parts) {
        const identity = parts.identity?.replace("HOST", host);
        const base = { host, repository: "team/app", digest, privateKey: signer.privateKey };
        await attachSignature({ ...base, ...parts, identity });
      }
      const error = await assertRejects(() => pull(reference), SbxError);
      assertEquals([what, error.code, error.message.includes(reason)], [what, "environment.signature", true]);
      assert(!await hasLayer(layer), what);
    }
  }));

Deno.test("an image of a folder has no signature, whatever it is named", () =>
  inWorld(async ({ dir, publish, pull }) => {
    await publish("local");
    await assertRejects(
      () => pull(`oci:${join(dir, "local")}:v1`),
      SbxError,
      "images of registries are signed",
    );
  }));

Deno.test("a registry that lies about the size of a signature, or goes away, gets no image in", async () => {
  const dir = await Deno.makeTempDir({ prefix: "sbx-signature-" });
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? join(dir, "home") : undefined });
  await Deno.mkdir(home.dir, { mode: 0o700 });
  const { digest } = await writeImage(join(dir, "image"), {
    layers: [[{ name: "x", content: "x" }]],
    architecture,
  });
  const claims = claimsOf("127.0.0.1/a", digest);
  let mode: "endless" | "large" | "many" | "away" = "endless";
  let sent = 0;
  await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const { pathname } = new URL(request.url);
    const [, kind, name] = /\/(manifests|blobs)\/(.*)$/.exec(pathname) ?? [];
    if (!kind) return new Response("{}");
    const json = (value: unknown) =>
      new Response(JSON.stringify(value), {
        headers: { "content-type": "application/vnd.oci.image.manifest.v1+json" },
      });
    const layer = {
      mediaType: "application/vnd.dev.cosign.simplesigning.v1+json",
      digest: `sha256:${"1".repeat(64)}`,
      size: mode === "large" ? 1024 ** 3 : claims.length,
      annotations: { "dev.cosignproject.cosign/signature": "AAAA" },
    };
    if (kind === "manifests" && name === "v1" || name === digest) {
      return new Response(await Deno.readFile(join(dir, "image/blobs/sha256", digest.slice(7))), {
        headers: { "content-type": "application/vnd.oci.image.manifest.v1+json" },
      });
    }
    if (kind === "manifests") {
      if (mode === "away") return new Response("", { status: 503 });
      const config = {
        mediaType: "application/vnd.oci.image.config.v1+json",
        digest: `sha256:${"2".repeat(64)}`,
        size: 2,
      };
      const layers = Array.from({ length: mode === "many" ? 1000 : 1 }, () => layer);
      return json({
        schemaVersion: 2,
        mediaType: "application/vnd.oci.image.manifest.v1+json",
        config,
        layers,
      });
    }
    const piece = new Uint8Array(1024 ** 2);
    return new Response(
      new ReadableStream<Uint8Array>({
        pull(controller) {
          sent += piece.length;
          controller.enqueue(piece);
        },
      }),
    );
  });
  const signers = { scope: "127.0.0.1", keys: [signer.publicKey] };
  const pull = () =>
    makeEnvironment(parseReference(`127.0.0.1:${server.addr.port}/a:v1`), {
      home,
      arch: currentArch(),
      signers,
    });
  try {
    await assertRejects(pull, SbxError, "signatures are larger than their manifest says");
    assert(sent < 4 * 1024 ** 3, `${sent}`);
    sent = 0;
    for (mode of ["large", "many"] as const) {
      await assertRejects(pull, SbxError, "its signatures cannot be read");
    }
    assertEquals(sent, 0);
    mode = "away";
    assert((await assertRejects(pull, SbxError)).code.startsWith("environment."));
    const left = await Array.fromAsync(Deno.readDir(join(home.dir, "environments")), ({ name }) => name);
    assertEquals(left.filter((name) => name.startsWith(".work-")), []);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
