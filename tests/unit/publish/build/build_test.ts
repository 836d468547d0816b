/** A build against a VM of the test's own, whose answers may be hostile. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { currentArch } from "../../../../lib/base/arch/mod.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { type Home, home as homeOf } from "../../../../lib/base/home/mod.ts";
import {
  type BuildPlan,
  type BuildVm,
  buildVmName,
  findBuild,
  runBuild,
  tagReference,
} from "../../../../lib/publish/build/mod.ts";
import { writeImage } from "../../../helper/oci.ts";

const ARCH = currentArch();
const BASE = `sha256:${"b".repeat(64)}`;

class FakeVm implements BuildVm {
  readonly id = "00000000-0000-4000-8000-000000000000";
  readonly name = "builder-test";
  readonly uploads = new Map<string, number>();
  /** last text of a small upload */
  readonly texts = new Map<string, string>();
  readonly phases: string[][] = [];
  exitCode = 0;
  /** answers with other bytes */
  damage: (hex: string, bytes: Uint8Array) => Uint8Array = (_, bytes) => bytes;
  manifest?: string;

  constructor(readonly layout: string) {}

  async run(command: string[]) {
    const [phase, ...words] = command.slice(4);
    this.phases.push([phase, ...words]);
    const stdout = phase === "push"
      ? this.manifest ?? await this.#ownManifest()
      : phase === "bases"
      ? words.map((name) => `${name}\t${name.includes("/") ? BASE : ""}\n`).join("")
      : "";
    return { code: 0, stdout, stderr: "" };
  }

  async #ownManifest(): Promise<string> {
    const { manifests } = JSON.parse(await Deno.readTextFile(join(this.layout, "index.json")));
    return await Deno.readTextFile(join(this.layout, "blobs", ...manifests[0].digest.split(":")));
  }

  follow(command: string[], see: (text: string) => void) {
    this.phases.push(command.slice(4));
    for (const piece of ["[1/2] STEP 1/2: FROM host.example/ba", "se:1 AS one\nx\nSTEP 1/2: FROM one\n"]) {
      see(piece);
    }
    return Promise.resolve(this.exitCode);
  }

  async upload(path: string, bytes: AsyncIterable<Uint8Array>) {
    let size = 0;
    for await (const piece of bytes) {
      size += piece.length;
      this.texts.set(path, new TextDecoder().decode(piece));
    }
    this.uploads.set(path, size);
  }

  async download(path: string) {
    const hex = path.split("/").at(-1)!;
    this.phases.push(["download", hex]);
    const bytes = this.damage(hex, await Deno.readFile(join(this.layout, "blobs/sha256", hex)));
    return { body: ReadableStream.from([bytes]) as AsyncIterable<Uint8Array> };
  }
}

async function inWorld(
  work: (world: { place: Home; vm: FakeVm; plan: BuildPlan; layers: string[] }) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "sbx-build-" });
  try {
    const place = homeOf({ get: (name) => name === "SBX_HOME" ? join(dir, "home") : undefined });
    await Deno.mkdir(place.dir);
    const layout = join(dir, "layout");
    const { layers } = await writeImage(layout, {
      layers: [[{ name: "a", content: "x" }], [{ name: "b", content: "y" }]],
      architecture: ARCH === "arm64" ? "arm64" : "amd64",
    });
    const plan: BuildPlan = {
      arch: ARCH,
      args: { VERSION: "3" },
      secrets: [{ id: "npm", ref: "credential:blake3:abc" }],
      logins: [{ registry: "registry.example", user: "me", ref: "credential:blake3:def" }],
      target: "dev",
      key: "0".repeat(32),
      reference: tagReference("/srv/My App"),
      context: { dir, dockerfile: "FROM scratch", name: "Dockerfile", files: [], secretsLeftOut: [] },
    };
    await work({ place, vm: new FakeVm(layout), plan, layers: layers.map(({ digest }) => digest) });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

/** Everything that a failed build may leave. */
async function leftovers({ dir }: Home): Promise<string[]> {
  const names = await Array.fromAsync(Deno.readDir(join(dir, "environments")), ({ name }) => name).catch(
    () => [],
  );
  return names.filter((name) => name.startsWith(".work-") || /^[0-9a-f]{32}$/.test(name) || name === "names");
}

Deno.test("features go to the reference implementation, with the build's stage, arguments and secrets", () =>
  inWorld(async ({ place, vm, plan }) => {
    const features = {
      features: { "./own": { greeting: "hi" } },
      order: ["./own"],
      remoteUser: "dev",
      config: ".devcontainer.json",
      files: { dir: plan.context.dir, files: [] },
    };
    await runBuild(vm, { ...plan, context: { ...plan.context, features } }, { home: place });
    assertEquals(vm.phases.find(([phase]) => phase === "features"), [
      "features",
      ".devcontainer.json",
      ...["--secret", "id=npm,src=/run/sbx-build/secrets/npm"],
    ]);
    assertEquals(vm.uploads.get("/workspace/.sbx-build/features.tar"), 1024);
    assertEquals(JSON.parse(vm.texts.get("/workspace/.sbx-build/devcontainer.json")!), {
      build: {
        dockerfile: "/workspace/.sbx-build/Dockerfile",
        context: "/var/lib/containers/context",
        target: "dev",
        args: { VERSION: "3" },
      },
      features: { "./own": { greeting: "hi" } },
      overrideFeatureInstallOrder: ["./own"],
      remoteUser: "dev",
    });
  }));

Deno.test("a build makes an environment that its key, its name and its digest lead to", () =>
  inWorld(async ({ place, vm, plan, layers }) => {
    assertEquals(await findBuild(place, plan), undefined);
    let isBuilt = false;
    const result = await runBuild(vm, plan, { home: place, onBuilt: () => void (isBuilt = true) });
    if ("exitCode" in result) throw new Error(`exit code ${result.exitCode}`);
    assert(isBuilt);
    const { digest, provenance, reference } = result.environment;
    assertEquals(reference, "localhost/my-app:latest");
    assertEquals(provenance.build, {
      key: plan.key,
      vm: vm.id,
      dockerfile: "Dockerfile",
      target: "dev",
      args: ["VERSION"],
      bases: [{ reference: "host.example/base:1", digest: BASE }],
    });
    assertEquals(provenance.layers.map((layer) => layer.digest), layers);
    assertEquals((await findBuild(place, plan))?.digest, digest);
    const build = vm.phases.find(([phase]) => phase === "build")!;
    assertEquals(build.slice(1), [
      "--pull=missing",
      ...["--target", "dev"],
      ...["--build-arg", "VERSION=3"],
      ...["--secret", "id=npm,src=/run/sbx-build/secrets/npm"],
    ]);
    const logins = `{"auths":{"registry.example":{"auth":"${btoa("me:credential:blake3:def")}"}}}`;
    assertEquals(vm.phases[0], ["setup", logins, "npm", "credential:blake3:abc"]);
    assertEquals(vm.phases.at(-1)?.[0], "tidy");
    assertEquals(vm.uploads.get("/workspace/.sbx-build/Dockerfile"), 12);

    // Layers that this home has are not fetched again.
    vm.phases.length = 0;
    await runBuild(vm, { ...plan, key: "1".repeat(32), reference: tagReference("x", "other:v2") }, {
      home: place,
    });
    const fetched = vm.phases.filter(([phase]) => phase === "download").map(([, hex]) => `sha256:${hex}`);
    assertEquals(fetched.filter((each) => layers.includes(each)), []);
  }));

Deno.test("a build that fails gives its exit code and leaves nothing", () =>
  inWorld(async ({ place, vm, plan }) => {
    vm.exitCode = 7;
    assertEquals(await runBuild(vm, plan, { home: place }), { exitCode: 7 });
    assertEquals(vm.phases.map(([phase]) => phase), ["setup", "build", "tidy"]);
    assertEquals(await leftovers(place), []);
  }));

Deno.test("a hostile VM gets no byte past the digests", () =>
  inWorld(async ({ place, vm, plan, layers }) => {
    const refused = async (code: string) => {
      assertEquals((await assertRejects(() => runBuild(vm, plan, { home: place }), SbxError)).code, code);
      assertEquals(await leftovers(place), []);
    };
    const hex = layers[1].slice("sha256:".length);
    vm.damage = (name, bytes) => name === hex ? bytes.with(0, bytes[0] ^ 1) : bytes;
    await refused("environment.digest");
    vm.damage = (name, bytes) => name === hex ? new Uint8Array([...bytes, 0]) : bytes;
    await refused("environment.digest");
    vm.damage = (name, bytes) => name === hex ? bytes.subarray(1) : bytes;
    await refused("environment.digest");
    vm.damage = (_, bytes) => bytes;
    const config = { digest: BASE, size: 1 };
    for (
      const manifest of [
        "{}",
        "no JSON",
        " ".repeat(5 * 1024 ** 2),
        JSON.stringify({ config, layers: [{ digest: "sha256:../../../etc/passwd", size: 1 }] }),
        JSON.stringify({ config, layers: [{ digest: BASE, size: 2 ** 50 }] }),
        JSON.stringify({ config: { digest: BASE, size: 1e9 }, layers: [] }),
        JSON.stringify({ config, layers: Array(257).fill(config) }),
      ]
    ) {
      vm.manifest = manifest;
      await refused("environment.manifest.invalid");
    }
  }));

Deno.test("an interrupted build leaves nothing", () =>
  inWorld(async ({ place, vm, plan }) => {
    const controller = new AbortController();
    vm.damage = (_, bytes) => {
      controller.abort();
      return bytes;
    };
    const error = await assertRejects(
      () => runBuild(vm, plan, { home: place, signal: controller.signal }),
      SbxError,
    );
    assertEquals([error.code, await leftovers(place)], ["image.interrupted", []]);
    // The connection that the interrupt ends has an error of its own.
    vm.follow = () => Promise.reject(new DOMException("aborted", "AbortError"));
    const own = await assertRejects(
      () => runBuild(vm, plan, { home: place, signal: controller.signal }),
      SbxError,
    );
    assertEquals([own.code, await leftovers(place)], ["image.interrupted", []]);
  }));

Deno.test("names of images and VMs come from the folder", () => {
  const name = (dir: string, tag?: string) => tagReference(dir, tag).canonical;
  assertEquals(name("/srv/My App_2"), "localhost/my-app-2:latest");
  assertEquals(name("/"), "localhost/image:latest");
  assertEquals(name("/srv/a", "team/app:v1"), "localhost/team/app:v1");
  assertEquals(name("/srv/a", "localhost/app"), "localhost/app:latest");
  for (const tag of ["App", `a@${BASE}`, "a b", "oci:/x/:v1:"]) {
    assertEquals(
      [
        tag,
        (() => {
          try {
            return name("/srv/a", tag);
          } catch (error) {
            return (error as SbxError).code;
          }
        })(),
      ],
      [tag, "environment.reference.invalid"],
    );
  }
  const vms = ["/srv/app", "/home/app", `/srv/${"x".repeat(200)}`, "/srv/Ünï", "/"].map(buildVmName);
  assertEquals(new Set(vms).size, vms.length);
  for (const vm of vms) assert(/^builder-[a-z0-9-]{1,56}$/.test(vm), vm);
});
