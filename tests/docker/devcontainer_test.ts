/**
 * A devcontainer with features, of a registry on loopback and of its own folder: built in a
 * VM under rules, booted, set up.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { currentArch } from "../../lib/base/arch/mod.ts";
import { BUILTIN_PROFILES } from "../../lib/config/profile/builtin.ts";
import { openCa } from "../../lib/network/ca/mod.ts";
import { buildVmName } from "../../lib/publish/build/mod.ts";
import { Registry, succeed, writeImage } from "../helper/oci.ts";
import { Sbx } from "../helper/sbx.ts";
import type { TarFile } from "../helper/tar.ts";
import { TestUpstreams } from "../helper/upstream.ts";

const ARCHITECTURE = currentArch() === "arm64" ? "arm64" : "amd64";

/** containers.dev has a list of features that are known to be bad: without it none is. */
const RULES = `
[profiles.rules.test-allow]
action = "allow"
match = '''(has(http.request) && http.request.host in ["registry.example", "site.example"]) ||
  (has(dns.request) && dns.request.qname in ["registry.example", "site.example"])'''
`;

/** A feature, whose installation adds a line to `/order`. */
function feature(id: string, install: string, more: Record<string, unknown> = {}): TarFile[] {
  const script = `#!/bin/sh\nset -e\necho ${id} >>/order\n${install}\n`;
  return [
    {
      name: "devcontainer-feature.json",
      content: JSON.stringify({ id, version: "1.0.0", name: id, ...more }),
    },
    { name: "install.sh", content: script, mode: 0o755 },
  ];
}

const DEVCONTAINER = {
  image: "registry.example/base:v1",
  features: { "registry.example/features/hello:1": { greeting: "good day" }, "./own": {} },
  remoteUser: "dev",
  containerEnv: { MODE: "dev", KEY: "${localEnv:HOME}" },
  remoteEnv: { PLACE: "${containerWorkspaceFolder}", BOTH: "${containerEnv:HELLO} and ${containerEnv:MODE}" },
  onCreateCommand: "id -un >created; pwd >>created",
  postCreateCommand: { a: ["sh", "-c", "echo a >part-a"], b: 'echo "$MODE" >part-b' },
  postStartCommand: "echo started >>starts",
  forwardPorts: [8080],
  portsAttributes: { "8080": { label: "web" } },
  mounts: ["source=cache,target=/cache/app,type=volume", "source=/etc,target=/host,type=bind"],
  hostRequirements: { memory: "700mb" },
  runArgs: ["--privileged"],
  customizations: { vscode: {} },
};

interface World {
  sbx: Sbx;
  dir: string;
  registry: Registry;
  write(devcontainer: unknown): Promise<void>;
}

async function inWorld(work: (world: World) => Promise<void>): Promise<void> {
  const root = await Deno.makeTempDir({ prefix: "sbx-devcontainer-" });
  const upstreams = await TestUpstreams.make(["site.example"], () => new Response("from the site"));
  const { cert, key } = await (await openCa({ dir: upstreams.folder })).leaf("registry.example");
  await using registry = await Registry.start({ cert, key });
  const sbx = await Sbx.make({ spare: false });
  try {
    const applets = (await succeed("/bin/busybox", "--list")).trim().split("\n");
    await writeImage(join(root, "base"), {
      layers: [[
        { name: "bin/busybox", content: await Deno.readFile("/bin/busybox"), mode: 0o755 },
        ...applets.filter((name) => name !== "busybox").map((name) => ({
          name: `bin/${name}`,
          type: "2",
          link: "busybox",
        })),
        {
          name: "etc/passwd",
          content: "root:x:0:0::/root:/bin/sh\ndev:x:1000:1000::/home/dev:/bin/sh\n",
        },
        { name: "etc/group", content: "root:x:0:\ndev:x:1000:\n" },
        { name: "home/dev/", uid: 1000, gid: 1000 },
        { name: "tmp/", mode: 0o1777 },
      ]],
      config: {
        Env: ["PATH=/bin"],
        Labels: { "devcontainer.metadata": JSON.stringify([{ onCreateCommand: "echo image >>~/order" }]) },
      },
      architecture: ARCHITECTURE,
    });
    await registry.push(join(root, "base"), "base:v1");
    await registry.pushFeature("features/first:1", feature("first", "true"));
    await registry.pushFeature(
      "features/hello:1",
      feature(
        "hello",
        'echo "$GREETING to $_REMOTE_USER in $_REMOTE_USER_HOME, by $(id -un)" >/greeting\n' +
          "wget -q -O /fetched http://site.example/file",
        {
          options: { greeting: { type: "string", default: "hi" } },
          dependsOn: { "registry.example/features/first:1": {} },
          containerEnv: { HELLO: "hello" },
          onCreateCommand: "echo feature >>~/order",
        },
      ),
    );
    await Deno.mkdir(join(sbx.home, "profiles/builder"), { recursive: true });
    await Deno.writeTextFile(
      join(sbx.home, "profiles/builder/profile.toml"),
      BUILTIN_PROFILES.get("builder")! + RULES,
    );
    const overrides = [...upstreams.overrides, `registry.example:443=${registry.host}`];
    await sbx.ok("settings", "set", "network.extra_ca_file", upstreams.caFile);
    await sbx.ok("settings", "set", "network.upstream_overrides", JSON.stringify(overrides));
    const dir = join(root, "app");
    await Deno.mkdir(join(dir, ".devcontainer/own"), { recursive: true });
    await Deno.writeTextFile(join(dir, "hello.txt"), "hello\n");
    const write = (devcontainer: unknown) =>
      Deno.writeTextFile(
        join(dir, ".devcontainer/devcontainer.json"),
        `// comments are fine\n${JSON.stringify(devcontainer)}`,
      );
    for (const { name, content, mode } of feature("own", "true")) {
      await Deno.writeTextFile(join(dir, ".devcontainer/own", name), content as string, { mode });
    }
    await work({ sbx, dir, registry, write });
  } finally {
    await sbx.dispose();
    await upstreams.close();
    await Deno.remove(root, { recursive: true });
  }
}

Deno.test("features are installed in a VM under rules, and the VM is set up as the file asks", () =>
  inWorld(async ({ sbx, dir, registry, write }) => {
    const builder = buildVmName(dir);
    const create = (name: string) => sbx.cli("create", name, "--from-dir", dir, "--devcontainer", "--json");
    await write(DEVCONTAINER);
    const created = await create("dev");
    assertEquals(created.code, 0, created.stderr);
    const info = JSON.parse(created.stdout);
    assertEquals([info.ram_mb, info.devcontainer.user, info.brought_in.place], [
      700,
      "dev",
      "/workspaces/app",
    ]);
    const leftOut = /without effect here: (.*)/.exec(created.stderr)?.[1];
    assertEquals(leftOut, "runArgs, containerEnv.KEY, mounts: no folder of this host of /etc");
    assertStringIncludes(created.stderr, "postCreateCommand.b of devcontainer.json");
    assertStringIncludes(created.stderr, "leads to port 8080 of dev (web)");

    // Each download passed the rules, and is in the record.
    const net = await sbx.ok("net", builder);
    for (const name of ["base", "features/hello", "features/first"]) {
      assertStringIncludes(net, `registry.example/v2/${name}/manifests/`);
    }
    assertStringIncludes(net, "http://site.example/file");

    // Order and options of features, the user, the folder, variables, and a folder for the volume.
    const run = (line: string) => sbx.ok("exec", "dev", "-c", line);
    assertEquals(
      await run("cat /order /greeting /fetched; echo"),
      [
        "own\nfirst\nhello",
        "good day to dev in /home/dev, by root",
        "from the site\n",
      ].join("\n"),
    );
    assertEquals(await run("cat created part-a part-b hello.txt"), "dev\n/workspaces/app\na\ndev\nhello\n");
    assertEquals(await run("cat ~/order"), "image\nfeature\n");
    assertEquals(await run('echo "$PLACE, $BOTH${KEY-}"'), "/workspaces/app, hello and dev\n");
    assertEquals(await run("stat -c %U /cache/app hello.txt; ls /host 2>&1 | wc -l"), "dev\ndev\n1\n");

    // A stop, and a start.
    await sbx.ok("stop", "dev");
    assertStringIncludes((await sbx.cli("start", "dev")).stderr, "leads to port 8080");
    assertEquals(await run("cat starts; wc -l <created"), "started\nstarted\n2\n");

    // The same file: no builder. A command that fails leaves the VM, and names what to run.
    await write({ ...DEVCONTAINER, postCreateCommand: "[ -e mended ]" });
    const failed = await create("second");
    assertEquals([failed.code, failed.stdout], [1, ""]);
    assertStringIncludes(failed.stderr, "devcontainer.command_failed");
    assert(!failed.stderr.includes("building"), failed.stderr);
    assertStringIncludes(failed.stderr, "sbx devcontainer second postCreateCommand");
    await sbx.ok("exec", "second", "--", "touch", "mended");
    await sbx.ok("devcontainer", "second", "postCreateCommand");
    await sbx.ok("delete", "--force", "second", "dev");

    // Features that cannot be installed: nothing is left.
    await registry.pushFeature("features/bad:1", feature("bad", "exit 7"));
    await write({ ...DEVCONTAINER, features: { "registry.example/features/bad:1": {} } });
    const bad = await create("third");
    assertEquals([bad.code, bad.stdout], [7, ""], bad.stderr);
    assertStringIncludes(bad.stderr, 'Feature "bad"');
    await write({ ...DEVCONTAINER, features: { "registry.example/features/absent:1": {} } });
    const absent = await create("third");
    assertEquals(absent.code, 1, absent.stderr);
    assertStringIncludes(absent.stderr, "features/absent");
  }));
