/** OCI images for tests: layouts in folders, made of archives, and a registry on loopback. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { currentArch } from "../../lib/base/arch/mod.ts";
import { tar, type TarFile, writeLayer, type WrittenLayer } from "./tar.ts";

/** Configuration of an image, as the specification names its parts. */
export interface ImageConfig {
  Env?: string[];
  WorkingDir?: string;
  User?: string;
  Entrypoint?: string[];
  Cmd?: string[];
  ExposedPorts?: Record<string, unknown>;
  Healthcheck?: Record<string, unknown>;
  StopSignal?: string;
  Labels?: Record<string, string>;
}

export interface ImageParts {
  layers: (TarFile[] | Uint8Array)[];
  config?: ImageConfig;
  architecture?: string;
  /** fields of the manifest in place of the right ones */
  manifest?: Record<string, unknown>;
  /** digests of the layers' archives, where the manifest names other layers */
  diffIds?: string[];
  /** size of the configuration in the manifest, where it is another than its own */
  configSize?: number;
}

const CREATED = "2026-01-01T00:00:00Z";

/** Runs a program, which must succeed. */
export async function succeed(command: string, ...args: string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(command, { args, stdin: "null" }).output();
  if (success) return new TextDecoder().decode(stdout);
  throw new Error(`${command} ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
}

/** Writes an image into a new layout. @returns digest of its manifest, and its layers */
export async function writeImage(
  dir: string,
  { layers, config = {}, architecture = "amd64", manifest, diffIds, configSize }: ImageParts,
): Promise<{ digest: string; layers: WrittenLayer[] }> {
  const blobs = join(dir, "blobs/sha256");
  await Deno.mkdir(blobs, { recursive: true });
  const put = async (value: unknown) => {
    const bytes = new TextEncoder().encode(JSON.stringify(value));
    const hex = createHash("sha256").update(bytes).digest("hex");
    await Deno.writeFile(join(blobs, hex), bytes);
    return { digest: `sha256:${hex}`, size: bytes.length };
  };
  const written = await Promise.all(layers.map((files) => writeLayer(blobs, files)));
  const media = (name: string) => `application/vnd.oci.image.${name}`;
  const ids = diffIds ?? written.map(({ diffId }) => diffId);
  const configured = await put({
    architecture,
    os: "linux",
    config,
    rootfs: { type: "layers", diff_ids: ids },
    // Without a history and times, buildah finds no step of an image again.
    created: CREATED,
    history: ids.map(() => ({ created: CREATED, created_by: "test" })),
  });
  const described = await put({
    schemaVersion: 2,
    mediaType: media("manifest.v1+json"),
    config: { mediaType: media("config.v1+json"), ...configured, ...configSize && { size: configSize } },
    layers: written.map(({ digest, size }) => ({ mediaType: media("layer.v1.tar+gzip"), digest, size })),
    ...manifest,
  });
  await Deno.writeTextFile(join(dir, "oci-layout"), '{"imageLayoutVersion":"1.0.0"}');
  await Deno.writeTextFile(
    join(dir, "index.json"),
    JSON.stringify({
      schemaVersion: 2,
      manifests: [{
        mediaType: media("manifest.v1+json"),
        ...described,
        annotations: { "org.opencontainers.image.ref.name": "v1" },
      }],
    }),
  );
  return { digest: described.digest, layers: written };
}

/**
 * Writes an image of the root file system of installed assets, with another layer: it boots like those.
 *
 * @param rootfs EROFS image; its owners need root
 */
export async function writeBootableImage(dir: string, rootfs: string, layer: TarFile[], config: ImageConfig) {
  const work = await Deno.makeTempDir({ prefix: "sbx-rootfs-" });
  try {
    await succeed("fsck.erofs", `--extract=${work}/x`, rootfs);
    await Deno.mkdir(join(dir, "blobs/sha256"), { recursive: true });
    await succeed("tar", "-C", `${work}/x`, "-cf", `${work}/x.tar`, ".");
    const digest = (await succeed("sha256sum", `${work}/x.tar`)).slice(0, 64);
    const { size } = await Deno.stat(`${work}/x.tar`);
    await succeed("mv", `${work}/x.tar`, join(dir, "blobs/sha256", digest));
    const { layers: [top] } = await writeImage(dir, { layers: [layer] });
    const media = "application/vnd.oci.image.layer.v1.tar";
    return await writeImage(dir, {
      layers: [],
      config,
      diffIds: [`sha256:${digest}`, top.diffId],
      architecture: currentArch() === "arm64" ? "arm64" : "amd64",
      manifest: {
        layers: [
          { mediaType: media, digest: `sha256:${digest}`, size },
          { mediaType: `${media}+gzip`, digest: top.digest, size: top.size },
        ],
      },
    });
  } finally {
    await Deno.remove(work, { recursive: true });
  }
}

/** Debian's docker-registry on a free port of loopback, with the requests that it served. */
/**
 * A user of a registry, and its password; the hash is bcrypt's, which programs of this machine do not make.
 */
export const REGISTRY_LOGIN = {
  user: "me",
  password: "password-of-a-registry-01",
  hash: "$2y$05$abcdefghijklmnopqrstuuRXo04/B3Z5uaNoQIFlkZGgD0F9J0BYC",
};

export class Registry implements AsyncDisposable {
  readonly host: string;
  readonly #process: Deno.ChildProcess;
  readonly #log: { text: string };
  readonly #dir: string;

  private constructor(host: string, process: Deno.ChildProcess, log: { text: string }, dir: string) {
    this.host = host;
    this.#process = process;
    this.#log = log;
    this.#dir = dir;
  }

  /**
   * @param tls certificate and key; absent: it speaks plain HTTP
   * @param options.login it answers {@linkcode REGISTRY_LOGIN} only
   */
  static async start(
    tls?: { cert: string; key: string },
    { login = false }: { login?: boolean } = {},
  ): Promise<Registry> {
    const dir = await Deno.makeTempDir({ prefix: "sbx-registry-" });
    const config = join(dir, "config.yml");
    const [certificate, key] = [join(dir, "cert.pem"), join(dir, "key.pem")];
    if (tls) await Promise.all([Deno.writeTextFile(certificate, tls.cert), Deno.writeTextFile(key, tls.key)]);
    await Deno.writeTextFile(
      config,
      `version: 0.1\nstorage: {filesystem: {rootdirectory: ${dir}/data}}\nhttp: {addr: "127.0.0.1:0"${
        tls ? `, tls: {certificate: "${certificate}", key: "${key}"}` : ""
      }}\n${login ? `auth: {htpasswd: {realm: test, path: ${dir}/htpasswd}}\n` : ""}`,
    );
    await Deno.writeTextFile(join(dir, "htpasswd"), `${REGISTRY_LOGIN.user}:${REGISTRY_LOGIN.hash}\n`);
    const process = new Deno.Command("docker-registry", {
      args: ["serve", config],
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const log = { text: "" };
    const listening = Promise.withResolvers<string>();
    for (const stream of [process.stdout, process.stderr]) {
      (async () => {
        for await (const piece of stream.pipeThrough(new TextDecoderStream())) {
          log.text += piece;
          const port = /listening on 127\.0\.0\.1:(\d+)/.exec(log.text)?.[1];
          if (port) listening.resolve(`127.0.0.1:${port}`);
        }
        listening.reject(new Error(`the registry ended: ${log.text}`));
      })();
    }
    return new Registry(await listening.promise, process, log, dir);
  }

  /** Puts an image of a layout there. */
  async push(layout: string, name: string): Promise<string> {
    const reference = `${this.host}/${name}`;
    await succeed(
      "skopeo",
      "copy",
      "--quiet",
      "--insecure-policy",
      "--dest-tls-verify=false",
      `--dest-creds=${REGISTRY_LOGIN.user}:${REGISTRY_LOGIN.password}`,
      `oci:${layout}:v1`,
      `docker://${reference}`,
    );
    return reference;
  }

  /**
   * Puts a feature of a devcontainer there: an artifact with one archive.
   *
   * @param name with a tag
   */
  async pushFeature(name: string, files: TarFile[]): Promise<void> {
    const [repository, tag] = name.split(":");
    const base = `https://${this.host}/v2/${repository}`;
    const work = await Deno.makeTempDir({ prefix: "sbx-feature-" });
    const curl = ["--silent", "--show-error", "--fail", "--insecure"];
    const put = async (bytes: Uint8Array, mediaType: string) => {
      const digest = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
      await Deno.writeFile(join(work, "blob"), bytes);
      const headers = await succeed("curl", ...curl, "-X", "POST", "-D", "-", `${base}/blobs/uploads/`);
      const [, place] = /^location: (.*?)\r?$/im.exec(headers)!;
      const type = "Content-Type: application/octet-stream";
      const to = `${place}&digest=${digest}`;
      await succeed("curl", ...curl, "-X", "PUT", "-H", type, "--data-binary", `@${work}/blob`, to);
      return { mediaType, digest, size: bytes.length };
    };
    try {
      const manifest = {
        schemaVersion: 2,
        mediaType: "application/vnd.oci.image.manifest.v1+json",
        config: await put(new TextEncoder().encode("{}"), "application/vnd.devcontainers"),
        layers: [{
          ...await put(tar(files), "application/vnd.devcontainers.layer.v1+tar"),
          annotations: { "org.opencontainers.image.title": "devcontainer-feature.tgz" },
        }],
      };
      await Deno.writeTextFile(join(work, "manifest"), JSON.stringify(manifest));
      const type = `Content-Type: ${manifest.mediaType}`;
      const to = `${base}/manifests/${tag}`;
      await succeed("curl", ...curl, "-X", "PUT", "-H", type, "--data-binary", `@${work}/manifest`, to);
    } finally {
      await Deno.remove(work, { recursive: true });
    }
  }

  /** Number of downloads of a blob. */
  downloads(digest: string): number {
    return this.#log.text.split("\n").filter((line) =>
      line.includes("GET /v2/") && line.includes(`/blobs/${digest}`)
    ).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.#process.status;
    await Deno.remove(this.#dir, { recursive: true });
  }
}
