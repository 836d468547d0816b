/**
 * Two VMs with one cache: the real clients of npm, pip and apt, layers and
 * indexes; the second downloads nothing.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { blake2b } from "hash-wasm";
import { archiveFiles, type Deb, serveFiles } from "../helper/apt.ts";
import { sha256 } from "../helper/cache.ts";
import { NPM_HOST as NPM, NpmProject } from "../helper/npm_project.ts";
import { createHash, randomBytes } from "node:crypto";
import { eventually, Sbx } from "../helper/sbx.ts";
import { TestUpstreams } from "../helper/upstream.ts";
import { zip } from "../helper/zip.ts";

/** Packages of the project, with `bytes` of content that no encoding shortens. */
const PACKAGES: [name: string, bytes: number][] = [["pad", 100], ["@scope/large", 6_000_000], [
  "middle",
  300_000,
]];
const CACHE = `
[cache]
npm = true
pip = true
docker = true
apt = true
maven = true

[profiles.rules.no-blocked]
action = "block"
match = 'http.request.host == "blocked.example"'
`;

/** A wheel of Python with one module, and its path at PyPI. */
async function makeWheel(): Promise<{ content: Uint8Array<ArrayBuffer>; path: string }> {
  const info = "pad-1.0.dist-info";
  const content = zip([
    { name: "pad.py", content: `DATA = "${randomBytes(200_000).toString("hex")}"\n` },
    { name: `${info}/METADATA`, content: "Metadata-Version: 2.1\nName: pad\nVersion: 1.0\n" },
    { name: `${info}/WHEEL`, content: "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n" },
    { name: `${info}/RECORD`, content: "" },
  ]);
  const [, first, second, rest] = /^(..)(..)(.*)$/.exec(await blake2b(content, 256))!;
  return { content, path: `/packages/${first}/${second}/${rest}/pad-1.0-py3-none-any.whl` };
}

const ARCHIVE = "archive.example";
const MAVEN = "repo.maven.apache.org";
const RELEASE = "/maven2/com/example/pad/1.0/pad-1.0";

/** A release as Maven Central has it, by path. */
function mavenRelease(): Map<string, Uint8Array<ArrayBuffer> | string> {
  const jar = new Uint8Array(randomBytes(1_000_000));
  const pom =
    "<project><groupId>com.example</groupId><artifactId>pad</artifactId><version>1.0</version></project>";
  const sums = ([["jar", jar], ["pom", pom]] as const).flatMap(([kind, content]) =>
    ["sha1", "sha512"].map((form): [string, string] => [
      `${RELEASE}.${kind}.${form}`,
      createHash(form).update(content).digest("hex"),
    ])
  );
  return new Map<string, Uint8Array<ArrayBuffer> | string>([
    [`${RELEASE}.jar`, jar],
    [`${RELEASE}.pom`, pom],
    ...sums,
  ]);
}

/** A Debian package with a file that no encoding shortens. */
async function makeDeb(): Promise<Deb> {
  const dir = await Deno.makeTempDir();
  try {
    const fields =
      "Package: pad\nVersion: 1.0+b1\nArchitecture: all\nMaintainer: Test <test@archive.example>\n" +
      "Description: a file\n";
    await Deno.mkdir(join(dir, "pad/DEBIAN"), { recursive: true });
    await Deno.writeTextFile(join(dir, "pad/DEBIAN/control"), fields);
    await Deno.writeFile(join(dir, "pad/pad-data"), randomBytes(2_000_000));
    const path = join(dir, "pad.deb");
    const { success } = await new Deno.Command("dpkg-deb", {
      args: ["--build", "--root-owner-group", join(dir, "pad"), path],
      stdout: "null",
    }).output();
    assert(success, "dpkg-deb has made a package");
    return { path: "pool/main/p/pad/pad_1.0+b1_all.deb", content: await Deno.readFile(path), fields };
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("two VMs share a cache", async (t) => {
  const project = new NpmProject(PACKAGES);
  const layer = new Uint8Array(randomBytes(400_000));
  const index = new TextEncoder().encode("Package: pad\n");
  const hosts = new Map<string, Uint8Array<ArrayBuffer>>([
    ["registry.example", layer],
    ["deb.example", index],
    ["blocked.example", layer],
  ]);
  const wheel = await makeWheel();
  hosts.set("files.pythonhosted.org", wheel.content);
  const simple = `<a href="https://files.pythonhosted.org${wheel.path}#sha256=${
    sha256(wheel.content)
  }">pad-1.0-py3-none-any.whl</a>`;
  hosts.set("pypi.org", new TextEncoder().encode(simple));
  const deb = await makeDeb();
  const architecture = Deno.build.arch === "aarch64" ? "arm64" : "amd64";
  const archive = serveFiles(archiveFiles([deb], { release: "Release", architectures: [architecture] }));
  const maven = serveFiles(mavenRelease(), "");
  /** `bytes` that the other registries have sent */
  let others = 0;
  const world = await TestUpstreams.make([NPM, ARCHIVE, MAVEN, ...hosts.keys()], async (request) => {
    const { hostname, pathname } = new URL(request.url);
    if (hostname === NPM) return project.answer(pathname);
    if (hostname === ARCHIVE || hostname === MAVEN) {
      const response = (hostname === MAVEN ? maven : archive)({ pathname });
      others += (await response.clone().arrayBuffer()).byteLength;
      return response;
    }
    const content = hosts.get(hostname)!;
    others += content.length;
    return new Response(content, {
      headers: { "content-type": hostname === "pypi.org" ? "text/html" : "application/octet-stream" },
    });
  });
  const sbx = await Sbx.make({ spare: false });
  try {
    await sbx.ok("start");
    await sbx.api("PATCH", "/settings/edit", {
      "network.upstream_overrides": world.overrides,
      "network.extra_ca_file": world.caFile,
    });
    await sbx.ok("profile", "copy", "code", "cached");
    const profile = join(sbx.home, "profiles/cached/profile.toml");
    await Deno.writeTextFile(profile, await Deno.readTextFile(profile) + CACHE);
    for (const name of ["one", "two"]) await sbx.ok("create", name, "--profile", "cached");
    const sh = (vm: string, line: string) => sbx.cli("exec", vm, "--timeout", "300", "-c", line);
    /** Runs a line, and counts the bytes that the registries send for it. */
    const measured = async (vm: string, line: string) => {
      const before = project.sent + others;
      const { code, stdout, stderr } = await sh(vm, line);
      assertEquals(code, 0, stderr);
      return { stdout, bytes: project.sent + others - before };
    };
    const kept = (artifacts: number) =>
      eventually(`${artifacts} artefacts are kept`, async () => {
        const { uses } = JSON.parse(await sbx.ok("cache", "list", "--json"));
        return uses.reduce((sum: number, use: { artifacts: number }) => sum + use.artifacts, 0) === artifacts;
      });

    await t.step(
      "the second npm ci gets at most 5 % of the first one's bytes from the registry",
      async () => {
        const line = `${
          project.install("/workspace/p")
        } && cat node_modules/*/data node_modules/@scope/*/data | sha256sum`;
        const first = await measured("one", line);
        await kept(PACKAGES.length);
        const second = await measured("two", line);
        assertEquals(second.stdout, first.stdout);
        assert(first.bytes > 6_000_000);
        assert(second.bytes <= first.bytes * 0.05, `${second.bytes} of ${first.bytes} bytes`);
      },
    );

    await t.step("the record says which requests the cache answered, with their bytes", async () => {
      const { requests } = JSON.parse(await sbx.ok("net", "two", "--host", NPM, "--json"));
      const cached = requests.filter((each: { http: { request: { path: string } } }) =>
        each.http.request.path.endsWith(".tgz")
      );
      assertEquals(cached.length, PACKAGES.length);
      for (const { http: { response }, decision } of cached) {
        assertEquals([decision, response.status, response.cache_digest.split(":")[0]], [
          "allow",
          200,
          "sha512",
        ]);
        assert(response.bytes > 100);
      }
      assertStringIncludes(await sbx.ok("net", "two"), "(from the cache)");
      const asked = JSON.parse(await sbx.ok("net", "one", "--host", NPM, "--json")).requests;
      const own = asked.filter((each: { common: { actor: string } }) => each.common.actor === "host");
      assertEquals(own.length, PACKAGES.length);
    });

    await t.step("layers and indexes are downloaded once", async () => {
      const urls = [
        `https://registry.example/v2/pad/blobs/sha256:${sha256(layer)}`,
        `http://deb.example/debian/dists/x/main/binary-amd64/by-hash/SHA256/${sha256(index)}`,
      ];
      const line = `curl -sS --fail ${urls.join(" ")} | sha256sum`;
      const first = await measured("one", line);
      await kept(PACKAGES.length + urls.length);
      const second = await measured("two", line);
      assertEquals([second.stdout, second.bytes], [first.stdout, 0]);
      assertEquals(first.bytes, layer.length + index.length);
    });

    await t.step("pip gets a wheel from the cache, and only its index from PyPI", async () => {
      const line =
        "pip download --no-deps --no-cache-dir --disable-pip-version-check -q -d /tmp/wheels pad==1.0 >&2 && " +
        "sha256sum </tmp/wheels/pad-1.0-py3-none-any.whl";
      const first = await measured("one", line);
      await kept(PACKAGES.length + 3);
      const second = await measured("two", line);
      assertStringIncludes(second.stdout, sha256(wheel.content));
      assertEquals([first.bytes, second.bytes], [wheel.content.length + simple.length, simple.length]);
    });

    await t.step(
      "apt gets a package of the cache without TLS, at most 5 % of the first one's bytes",
      async () => {
        const line = `echo 'deb [trusted=yes] http://${ARCHIVE}/debian x main' >/tmp/list && ` +
          "options='-qq -o Dir::Etc::SourceList=/tmp/list -o Dir::Etc::SourceParts=/dev/null' && " +
          "apt-get $options update && apt-get $options install -y pad >&2 && sha256sum </pad-data";
        const first = await measured("one", line);
        await kept(PACKAGES.length + 6);
        const second = await measured("two", line);
        assertEquals(second.stdout, first.stdout);
        assert(first.bytes > 2_000_000);
        assert(second.bytes <= first.bytes * 0.05, `${second.bytes} of ${first.bytes} bytes`);
        assertStringIncludes(await sbx.ok("net", "one"), "sbx-cache");
      },
    );

    await t.step(
      "what Maven gets of a release comes from the cache, at most 5 % of the first one's bytes",
      async () => {
        // Its requests: each file, then the sum that it compares.
        const files = ["pom", "jar"].flatMap((kind) => [`${RELEASE}.${kind}`, `${RELEASE}.${kind}.sha1`]);
        const line = `curl -sS --fail ${
          files.map((path) => `https://${MAVEN}${path}`).join(" ")
        } | sha256sum`;
        const first = await measured("one", line);
        await kept(PACKAGES.length + 8);
        const second = await measured("two", line);
        assertEquals(second.stdout, first.stdout);
        assert(first.bytes > 1_000_000);
        assert(second.bytes <= first.bytes * 0.05, `${second.bytes} of ${first.bytes} bytes`);
      },
    );

    await t.step("a rule of the VM forbids what the cache has", async () => {
      const { stdout } = await sh(
        "two",
        `curl -sS https://blocked.example/v2/pad/blobs/sha256:${sha256(layer)}`,
      );
      assertStringIncludes(stdout, "no-blocked");
    });

    await t.step("a cleared cache is filled again; switched off, VMs download", async () => {
      const cleared = JSON.parse(await sbx.ok("cache", "clear", "--json"));
      assertEquals(cleared.artifacts, PACKAGES.length + 8);
      assert(cleared.bytes > 6_000_000);
      const line = `curl -sS --fail https://registry.example/v2/pad/blobs/sha256:${
        sha256(layer)
      } | sha256sum`;
      assertEquals((await measured("two", line)).bytes, layer.length);
      await kept(1);
      assertEquals((await measured("one", line)).bytes, 0);
      await sbx.ok("settings", "set", "vm.cache.enabled", "false");
      assertStringIncludes(await sbx.ok("cache", "list"), "switched off");
      await sbx.ok("stop", "one");
      await sbx.ok("start", "one");
      assertEquals((await measured("one", line)).bytes, layer.length);
    });
  } finally {
    await sbx.dispose();
    await world.close();
  }
});
