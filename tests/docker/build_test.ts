/** A Dockerfile, built by buildah in a VM from a registry on loopback, under rules, and booted. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { dirname, join } from "node:path";
import { currentArch } from "../../lib/base/arch/mod.ts";
import { BUILTIN_PROFILES } from "../../lib/config/profile/builtin.ts";
import { openCa } from "../../lib/network/ca/mod.ts";
import { buildVmName } from "../../lib/publish/build/mod.ts";
import { Registry, REGISTRY_LOGIN, writeImage } from "../helper/oci.ts";
import { Sbx } from "../helper/sbx.ts";
import { TestUpstreams } from "../helper/upstream.ts";

const ARCHITECTURE = currentArch() === "arm64" ? "arm64" : "amd64";
const APPLETS = ["sh", "cat", "echo", "env", "grep", "ls", "rm", "sleep", "wget"];

const RULES = `
[profiles.rules.test-allow]
action = "allow"
match = '''(has(http.request) && http.request.host in ["registry.example", "site.example"]) ||
  (has(dns.request) && dns.request.qname in ["registry.example", "site.example"])'''

[profiles.rules.test-block]
action = "block"
match = '(has(http.request) && http.request.host == "evil.example") || (has(dns.request) && dns.request.qname == "evil.example")'
`;

const dockerfile = (last: string) =>
  `FROM registry.example/base:v1
ARG GREETING
COPY . /src
RUN --mount=type=secret,id=token wget -q -O /fetched http://site.example/file && \\
  grep -c CERTIFICATE "$SSL_CERT_FILE" && env && cat /run/secrets/token >/token && echo $GREETING >/greeting
${last}
`;

interface World {
  sbx: Sbx;
  upstreams: TestUpstreams;
  /** the context's folder */
  dir: string;
  /** of the registry on loopback */
  port: number;
}

async function inWorld(work: (world: World) => Promise<void>): Promise<void> {
  const root = await Deno.makeTempDir({ prefix: "sbx-build-" });
  const upstreams = await TestUpstreams.make(
    ["site.example", "evil.example"],
    () => new Response("from the site"),
  );
  const { cert, key } = await (await openCa({ dir: upstreams.folder })).leaf("registry.example");
  await using registry = await Registry.start({ cert, key }, { login: true });
  const sbx = await Sbx.make({ spare: false });
  try {
    const busybox = await Deno.readFile("/bin/busybox");
    await writeImage(join(root, "base"), {
      layers: [[
        { name: "bin/busybox", content: busybox, mode: 0o755 },
        ...APPLETS.map((name) => ({ name: `bin/${name}`, type: "2", link: "busybox" })),
        // In place of Debian's, which would download.
        { name: "bin/apt-get", content: '#!/bin/sh\necho "$@" >>/asked\n', mode: 0o755 },
      ]],
      config: { Env: ["PATH=/bin"] },
      architecture: ARCHITECTURE,
    });
    await registry.push(join(root, "base"), "base:v1");
    await registry.push(join(root, "base"), "other:v1");
    await Deno.mkdir(join(sbx.home, "profiles/builder"), { recursive: true });
    await Deno.writeTextFile(
      join(sbx.home, "profiles/builder/profile.toml"),
      BUILTIN_PROFILES.get("builder")! + RULES,
    );
    const port = Number(registry.host.split(":")[1]);
    const overrides = [
      ...upstreams.overrides,
      ...[443, port].map((each) => `registry.example:${each}=${registry.host}`),
    ];
    await sbx.ok("settings", "set", "network.extra_ca_file", upstreams.caFile);
    await sbx.ok("settings", "set", "network.upstream_overrides", JSON.stringify(overrides));
    const dir = join(root, "app");
    await Deno.mkdir(dir);
    await Deno.writeTextFile(join(dir, ".dockerignore"), "*.env\nDockerfile\n");
    await Deno.writeTextFile(join(dir, "key.env"), "KEY=of-the-host\n");
    await Deno.writeTextFile(join(dir, "hello.txt"), "hello\n");
    await Deno.writeTextFile(join(dir, "Dockerfile"), dockerfile('CMD ["/bin/cat", "/src/hello.txt"]'));
    await work({ sbx, upstreams, dir, port });
  } finally {
    await sbx.dispose();
    await upstreams.close();
    await Deno.remove(root, { recursive: true });
  }
}

/** Docker's configuration with a helper that has the registry's login. @returns variables of sbx */
async function writeHelper(dir: string, port: number): Promise<Record<string, string>> {
  const helpers = ["registry.example", `registry.example:${port}`].map((each) => [each, "sbx-test"]);
  const config = { auths: {}, credHelpers: Object.fromEntries(helpers) };
  await Deno.writeTextFile(join(dir, "config.json"), JSON.stringify(config));
  const answer = JSON.stringify({ Username: REGISTRY_LOGIN.user, Secret: REGISTRY_LOGIN.password });
  await Deno.writeTextFile(join(dir, "docker-credential-sbx-test"), `#!/bin/sh\necho '${answer}'\n`, {
    mode: 0o755,
  });
  return { DOCKER_CONFIG: dir, PATH: `${dir}:${Deno.env.get("PATH")}` };
}

/** Names of environments, and of everything that a build in the making leaves. */
async function environments({ home }: Sbx): Promise<string[]> {
  const names = await Array.fromAsync(Deno.readDir(join(home, "environments")), ({ name }) => name);
  return names.filter((name) => name.startsWith(".work-") || /^[0-9a-f]{32}$/.test(name)).sort();
}

async function statusOf(sbx: Sbx, name: string): Promise<string> {
  return JSON.parse(await sbx.ok("info", name, "--json")).status;
}

Deno.test("a Dockerfile is built in a VM under rules, cached, and booted", () =>
  inWorld(async ({ sbx, upstreams, dir, port }) => {
    const vm = buildVmName(dir);
    const added = await sbx.run("sbx", ["credentials", "add", "github", "--decoy", "--json"]);
    const { ref } = JSON.parse(added.stdout);
    // The registry answers this user only: the VM has a ref in place of the password.
    const { body: login } = await sbx.api("POST", "/credentials/add", {
      ...{ provider: "registry", host: "registry.example", secret: REGISTRY_LOGIN.password },
    });
    const options = [
      ...["--build-arg", "GREETING=hi", "--secret", `id=token,ref=${ref}`],
      ...["--login", `registry=registry.example,user=${REGISTRY_LOGIN.user},ref=${login.ref}`],
    ];
    const build = (env?: Record<string, string>) =>
      sbx.run("sbx", ["image", "build", dir, "--json", ...env ? options.slice(0, 4) : options], env);

    const first = await build();
    assertEquals(first.code, 0, first.stderr);
    const built = JSON.parse(first.stdout);
    assertEquals([built.image, built.is_new], ["localhost/app:latest", true]);
    assertEquals(built.config, { env: { PATH: "/bin" }, cmd: ["/bin/cat", "/src/hello.txt"] });
    assertEquals(built.build.bases.map((base: { reference: string }) => base.reference), [
      "registry.example/base:v1",
    ]);
    assertStringIncludes(first.stderr, "STEP 1/5: FROM registry.example/base:v1");
    assertStringIncludes(first.stderr, "SSL_CERT_FILE=/dev/sbx-ca.crt");
    assertEquals(await statusOf(sbx, vm), "Stopped");

    // Each download passed the rules, and is in the record.
    const net = await sbx.ok("net", vm);
    assertStringIncludes(net, "registry.example/v2/base/manifests/v1");
    assertStringIncludes(net, "http://site.example/file");
    assertEquals(built.build.vm, JSON.parse(await sbx.ok("info", vm, "--json")).id);

    // Nothing of sbx is in a layer, and no file that .dockerignore names.
    const blobs = join(sbx.home, "environments/layers/sha256");
    const layers = await Array.fromAsync(
      Deno.readDir(blobs),
      ({ name }) => Deno.readTextFile(join(blobs, name)),
    );
    const text = (await Promise.all(layers)).join("");
    for (const content of ["from the site", ref]) assert(text.includes(content), `no layer has ${content}`);
    for (
      const trace of [
        "BEGIN CERTIFICATE",
        "sbx-ca.crt",
        "sbx-apt.conf",
        "of-the-host",
        REGISTRY_LOGIN.password,
      ]
    ) {
      assert(!text.includes(trace), `a layer has ${trace}`);
    }

    // The same inputs: no VM, no download.
    const again = await build();
    assertEquals([JSON.parse(again.stdout).is_new, again.stderr], [false, ""]);

    // Other last lines: two builds at once make one, and no earlier line runs again. A helper of Docker's on
    // this host has the login for the image that one of them needs.
    const own = 'COPY --from=registry.example/other:v1 /bin/busybox /other\nCMD ["/bin/cat", "/greeting"]';
    await Deno.writeTextFile(join(dir, "Dockerfile"), dockerfile(own));
    const env = await writeHelper(dirname(dir), port);
    const both = await Promise.all([build(env), build(env)]);
    assertEquals(both.map(({ code }) => code), [0, 0], both[0].stderr + both[1].stderr);
    assertEquals(both.map(({ stdout }) => JSON.parse(stdout).is_new).sort(), [false, true]);
    assert(both.some(({ stderr }) => stderr.includes("waiting for another sbx")));
    assertEquals(upstreams.received.length, 1, both.map(({ stderr }) => stderr).join(""));
    assert(
      both.some(({ stderr }) => stderr.includes("logging in to registry.example as me: Docker's login")),
    );
    const { credentials } = JSON.parse(await sbx.ok("credentials", "list", "--json"));
    assertEquals(
      credentials.map((each: { provider: string }) => each.provider).sort(),
      ["github", "registry"],
      "Docker's login is gone with its build",
    );
    const second = JSON.parse(both[0].stdout);

    // A VM of it, with the folder's files: the image has no git.
    const created = await sbx.cli("create", "dev", "--from-dir", dir, "--dockerfile", ...options);
    assertEquals(created.code, 0, created.stderr);
    assertStringIncludes(created.stderr, "the image has no git");
    assertEquals(await sbx.ok("exec", "dev", "--", "cat", "/greeting", "/root/app/hello.txt"), "hi\nhello\n");
    assertEquals(JSON.parse(await sbx.ok("info", "dev", "--json")).image.digest, second.digest);
    await sbx.ok("delete", "--force", "dev");
    const kept = await environments(sbx);
    assertEquals(kept.length, 2);

    // A step that a rule refuses, in a build that fails with the step's own exit code.
    const last = "RUN wget -q -O /x http://evil.example/caught || exit 7";
    await Deno.writeTextFile(join(dir, "Dockerfile"), dockerfile(last));
    const failed = await build();
    assertEquals([failed.code, failed.stdout], [7, ""]);
    assertStringIncludes(failed.stderr, `building at STEP "${last}`.slice(0, 40));
    assertEquals(upstreams.received.length, 1);
    assertStringIncludes(await sbx.ok("net", vm), "block test-block");
    assertEquals([await environments(sbx), await statusOf(sbx, vm)], [kept, "Stopped"]);

    // An interrupt.
    await Deno.writeTextFile(join(dir, "Dockerfile"), dockerfile("RUN echo it sleeps && sleep 3600"));
    const building = new Deno.Command(join(Deno.cwd(), "bin/sbx"), {
      args: ["image", "build", dir, ...options],
      env: sbx.env,
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    let log = "";
    for await (const piece of building.stderr.pipeThrough(new TextDecoderStream())) {
      log += piece;
      if (log.includes("\nit sleeps")) building.kill("SIGINT");
    }
    assert((await building.status).code !== 0);
    assertStringIncludes(log, "interrupted");
    assertEquals([await environments(sbx), await statusOf(sbx, vm)], [kept, "Stopped"]);
  }));

// Only root can give a program another /etc/hosts: the registry has one name for this machine and its VMs.
Deno.test({
  name: "packages of a profile are installed on top of its image, in a VM under rules",
  ignore: Deno.uid() !== 0,
  fn: () =>
    inWorld(async ({ sbx, dir, port }) => {
      const root = dirname(dir);
      const env = await writeHelper(root, port);
      await Deno.writeTextFile(join(root, "hosts"), "127.0.0.1 localhost registry.example\n");
      const inHosts = async (...words: string[]) => {
        const script = 'mount --bind "$0" /etc/hosts && exec "$@"';
        const args = [
          "--mount",
          "sh",
          "-c",
          script,
          join(root, "hosts"),
          join(Deno.cwd(), "bin/sbx"),
          ...words,
        ];
        const { code, stdout, stderr } = await new Deno.Command("unshare", {
          args,
          env: { ...sbx.env, ...env },
        })
          .output();
        const [out, log] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
        assertEquals(code, 0, log);
        return { out, log };
      };
      await Deno.mkdir(join(sbx.home, "profiles/over"), { recursive: true });
      await Deno.writeTextFile(
        join(sbx.home, "profiles/over/profile.toml"),
        'id = "over"\nname = "Over"\ndescription = ""\nrevision = "1.0.0"\n' +
          `[image]\nfrom = "registry.example:${port}/base:v1"\n[packages]\napt = ["hello", "jq=1.7-1"]\n`,
      );
      const { log } = await inHosts("create", "dev", "--profile", "over");
      assertStringIncludes(log, "building the packages of the profile over in the VM builder-over-");
      assertEquals(
        await sbx.ok("exec", "dev", "--", "cat", "/asked"),
        "update\ninstall -y --no-install-recommends hello jq=1.7-1\n",
      );
      // It is there now, and the profile's.
      assertEquals(
        (await sbx.cli("create", "second", "--profile", "over")).stderr.includes("building"),
        false,
      );
      const { environments } = JSON.parse(await sbx.ok("image", "list", "--json"));
      const [made] = environments.filter((each: { profiles: string[] }) => each.profiles.includes("over"));
      assertEquals(made.used_by.sort(), ["dev", "second"]);
    }),
});
