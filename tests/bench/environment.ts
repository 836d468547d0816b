/**
 * OCI images: from `sbx create --image` to a running VM, with the image in a registry on loopback and with
 * the image in the home; unpacking beside `umoci raw unpack`; and starts from a template, by the API to the
 * end of the first program, of a foreign image beside the image of `code`. What is compared takes turns in
 * every round. The image is the root file system of `code` with a layer over it: it starts like a foreign
 * one, with as many files as a large one.
 */
import { join } from "node:path";
import { currentArch } from "../../lib/base/arch/mod.ts";
import { home } from "../../lib/base/home/mod.ts";
import type { VmInfo } from "../../lib/client/api/mod.ts";
import { unpackLayers } from "../../lib/publish/environment/mod.ts";
import { resolveAssets } from "../../lib/release/asset/mod.ts";
import { Registry, succeed, writeBootableImage } from "../helper/oci.ts";
import { Sbx } from "../helper/sbx.ts";
import { median, rounded, timed } from "../helper/statistics.ts";

const ROUNDS = 5, STARTS = 10;
/** Time in `ms` for what a start leaves to be done. */
const BETWEEN_MS = 3000;

if (Deno.uid() !== 0) {
  console.log(
    JSON.stringify({
      name: "environment",
      skipped: "only root can unpack the owners of the image it is made of",
    }),
  );
  Deno.exit(0);
}
const dir = await Deno.makeTempDir({ prefix: "sbx-bench-" });
const sbx = await Sbx.make({ env: { SBX_TEMPLATES_DIR: join(dir, "templates") } });
await using registry = await Registry.start();

async function api<T>(method: string, path: string, json?: unknown): Promise<T> {
  const { status, body } = await sbx.api(method, path, json);
  if (status !== 200) throw new Error(`${method} ${path}: ${JSON.stringify(body)}`);
  return body;
}

/** From the request to the end of the first program, in `ms`. */
async function start(image?: string): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, BETWEEN_MS));
  const ms = await timed(async () => {
    await api("POST", "/vms/create", { name: "one", ...image && { image } });
    await api("POST", "/vms/one/exec", { command: ["/bin/true"] });
  });
  const { started_by, started_why } = await api<VmInfo>("GET", "/vms/one/info");
  if (started_by !== "template") throw new Error(`started by ${started_by}: ${started_why}`);
  await api("DELETE", "/vms/one/delete");
  return ms;
}

try {
  const layout = join(dir, "image");
  const assets = await resolveAssets(home({ get: (name) => sbx.env[name] }), currentArch());
  await writeBootableImage(layout, assets.rootfs.path, [{ name: "srv/note", content: "x" }], {});
  const reference = await registry.push(layout, "team/app:v1");
  // As it comes from a registry: packed.
  const packed = join(dir, "packed");
  await succeed(
    "skopeo",
    "copy",
    "--quiet",
    "--insecure-policy",
    "--src-tls-verify=false",
    `docker://${reference}`,
    `oci:${packed}:v1`,
  );
  const read = async (digest: string) =>
    JSON.parse(await Deno.readTextFile(join(packed, "blobs", ...digest.split(":"))));
  const { manifests: [{ digest }] } = JSON.parse(await Deno.readTextFile(join(packed, "index.json")));
  const layers = (await read(digest)).layers.map((layer: { digest: string; size: number }) => ({
    ...layer,
    path: join(packed, "blobs", ...layer.digest.split(":")),
  }));
  const unpack = { own: [] as number[], umoci: [] as number[] };
  for (let round = 0; round < ROUNDS; round++) {
    unpack.own.push(await timed(() => unpackLayers(layers, join(dir, "rootfs"))));
    unpack.umoci.push(
      await timed(() => succeed("umoci", "raw", "unpack", "--image", `${packed}:v1`, join(dir, "tree"))),
    );
    await Deno.remove(join(dir, "rootfs"));
    await Deno.remove(join(dir, "tree"), { recursive: true });
  }

  await sbx.ok("list");
  const pulled = await timed(() => sbx.ok("create", "first", "--image", reference));
  await sbx.ok("template", "make", "--image", reference);
  await sbx.ok("template", "make");
  const cached = await timed(() => sbx.ok("create", "second", "--image", reference));
  for (const name of ["first", "second"]) await sbx.ok("delete", name, "--force");
  const starts = { foreign: [] as number[], own: [] as number[] };
  for (let round = 0; round < STARTS; round++) {
    starts.foreign.push(await start(reference));
    starts.own.push(await start());
  }
  const ratio = (of: number[], to: number[]) => rounded(median(of.map((value, round) => value / to[round])));
  console.log(JSON.stringify({
    name: "environment",
    unit: "ms",
    target: "start of a foreign image <= 1.1 of code's; unpacking >= 0.5 of umoci's speed",
    pull_to_ready: rounded(pulled, 0),
    cached_to_ready: rounded(cached, 0),
    start: {
      value: rounded(median(starts.foreign), 0),
      code: rounded(median(starts.own), 0),
      ratio: ratio(starts.foreign, starts.own),
    },
    unpack: {
      value: rounded(median(unpack.own), 0),
      umoci: rounded(median(unpack.umoci), 0),
      speed: ratio(unpack.umoci, unpack.own),
    },
    image_mb: rounded(layers.reduce((sum: number, { size }: { size: number }) => sum + size, 0) / 1e6, 0),
    rounds: ROUNDS,
    load: Deno.loadavg().map((value) => rounded(value, 1)),
  }));
} finally {
  await sbx.dispose();
  await Deno.remove(dir, { recursive: true });
}
