/** OCI images from a registry on loopback: pulled, checked, kept, refused. */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { currentArch } from "../../lib/base/arch/mod.ts";
import { home } from "../../lib/base/home/mod.ts";
import { resolveAssets } from "../../lib/release/asset/mod.ts";
import { keyFingerprint } from "../../lib/base/hash/mod.ts";
import { attachSignature, makeSigner } from "../helper/image_signature.ts";
import { type ImageParts, Registry, succeed, writeBootableImage, writeImage } from "../helper/oci.ts";
import { eventually, type Ran, Sbx } from "../helper/sbx.ts";
import type { TarFile } from "../helper/tar.ts";

const ARCHITECTURE = currentArch() === "arm64" ? "arm64" : "amd64";
const FOREIGN = currentArch() === "arm64" ? "amd64" : "arm64";
/** Loader and library of musl in Debian. */
const MUSL = `/lib/ld-musl-${currentArch() === "arm64" ? "aarch64" : "x86_64"}.so.1`;
const FILES: TarFile[] = [
  { name: "etc/os-release", content: "ID=test\n" },
  { name: "lib/apk/db/installed", content: "P:musl\nV:1.2.5-r9\n" },
];

interface World {
  sbx: Sbx;
  registry: Registry;
  dir: string;
  /** Makes an image and puts it into the registry. */
  publish(
    name: string,
    parts?: Partial<ImageParts>,
  ): Promise<{ reference: string; digest: string; layers: string[] }>;
}

async function inWorld(work: (world: World) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "sbx-images-" });
  const sbx = await Sbx.make({ env: { SBX_CORP_CONFIG: join(dir, "corp.toml") } });
  await Deno.writeTextFile(join(dir, "corp.toml"), 'refresh_policy = "24h"\n');
  await using registry = await Registry.start();
  try {
    await work({
      ...{ sbx, registry, dir },
      async publish(name, parts = {}) {
        const layout = join(dir, name.replaceAll(/[:/]/g, "-"));
        const { digest, layers } = await writeImage(layout, {
          layers: [FILES],
          architecture: ARCHITECTURE,
          ...parts,
        });
        const reference = await registry.push(layout, name);
        return { reference, digest, layers: layers.map((layer) => layer.digest) };
      },
    });
  } finally {
    await sbx.dispose();
    await Deno.remove(dir, { recursive: true });
  }
}

/** Everything that failed or interrupted work may leave. */
async function leftovers({ home }: Sbx): Promise<string[]> {
  const names = await Array.fromAsync(Deno.readDir(join(home, "environments")), ({ name }) => name).catch(
    () => [],
  );
  return names.filter((name) => name.startsWith(".work-"));
}

function error({ code, stderr }: Ran): string {
  assert(code !== 0);
  return stderr;
}

Deno.test("an image is pulled once, by digest; a layer that another one has is not pulled again", () =>
  inWorld(async ({ sbx, registry, publish }) => {
    const config = { Env: ["A=b=c", "bad name=x"], WorkingDir: "srv", User: "1000:5", Cmd: ["/run"] };
    const first = await publish("team/app:v1", { config });
    const pulled = JSON.parse(await sbx.ok("image", "pull", first.reference, "--json"));
    assertEquals([pulled.digest, pulled.is_new], [first.digest, true]);
    assertEquals(pulled.config, { env: { A: "b=c" }, workdir: "/srv", user: "1000:5", cmd: ["/run"] });
    const again = JSON.parse(
      await sbx.ok("image", "pull", `${registry.host}/team/app@${first.digest}`, "--json"),
    );
    assertEquals([again.key, again.is_new], [pulled.key, false]);
    const second = await publish("team/more:v1", { layers: [FILES, [{ name: "more", content: "x" }]] });
    await sbx.ok("image", "pull", second.reference);
    assertEquals(second.layers[0], first.layers[0]);
    assertEquals(registry.downloads(first.layers[0]), 1);

    const { environments } = JSON.parse(await sbx.ok("image", "list", "--json"));
    assertEquals(
      environments.map(({ references, used_by }: Record<string, unknown>) => [references, used_by]),
      [
        [[second.reference], []],
        [[first.reference, `${registry.host}/team/app@${first.digest}`], []],
      ],
    );
    const obom = await Deno.readTextFile(await obomOf(sbx, pulled.key));
    assert(obom.includes("pkg:apk/test/musl@1.2.5-r9"), obom);

    await sbx.ok("image", "remove", first.reference);
    assertEquals(JSON.parse(await sbx.ok("image", "gc", "--json")).environments, [second.reference]);
    assertEquals(await Array.fromAsync(Deno.readDir(join(sbx.home, "environments/layers/sha256"))), []);
  }));

Deno.test("a root file system of musl and busybox, and one of a single program, run under the layer of sbx", () =>
  inWorld(async ({ sbx, publish }) => {
    const [busybox, loader] = await Promise.all(["/bin/busybox", MUSL].map((path) => Deno.readFile(path)));
    const applets = ["sh", "ls", "cat", "wget"].map((name) => ({
      name: `bin/${name}`,
      type: "2",
      link: "busybox",
    }));
    const musl = await publish("musl:v1", {
      layers: [[
        { name: "bin/busybox", content: busybox, mode: 0o755 },
        ...applets,
        { name: MUSL.slice(1), content: loader, mode: 0o755 },
        { name: "etc/os-release", content: "ID=tiny\n" },
        // Hostile: what sbx's own programs must not read or run.
        { name: "etc/ld.so.preload", content: "/nowhere.so\n" },
        { name: "usr/lib/sbx/bin/sh", content: "#!/bin/sh\nexit 66\n", mode: 0o755 },
      ]],
      config: {
        Env: ["PATH=/bin"],
        Cmd: ["/bin/sh", "-c", "cat /etc/os-release; echo $PATH; ls /usr/lib/sbx/bin/deno"],
      },
    });
    assertEquals(
      await sbx.ok("run", "--image", musl.reference),
      "ID=tiny\n/usr/lib/sbx/commands:/bin\n/usr/lib/sbx/bin/deno\n",
    );
    const loaded = await sbx.cli("run", "--image", musl.reference, "--", MUSL);
    assert(loaded.stderr.includes("musl libc"), loaded.stderr);

    const scratch = await publish("scratch:v1", {
      layers: [[{ name: "busybox", content: busybox, mode: 0o755 }]],
      config: { Entrypoint: ["/busybox", "echo"], Cmd: ["from", "scratch"] },
    });
    assertEquals(await sbx.ok("run", "--image", scratch.reference), "from scratch\n");
    // Also where no program of a rehearsal is there.
    await sbx.ok("template", "make", "--image", scratch.reference);
    const { vm } = JSON.parse(await sbx.ok("run", "--image", scratch.reference, "--json"));
    assertEquals(vm.started_by, "template");
  }));

Deno.test("an image's program is a service, with its health check, stop signal and ports", () =>
  inWorld(async ({ sbx, publish }) => {
    const busybox = await Deno.readFile("/bin/busybox");
    const program =
      "trap 'echo it got USR1; exit 0' USR1; touch /tmp/well; echo it runs; while :; do sleep 0.1; done";
    const { reference } = await publish("served:v1", {
      layers: [[
        { name: "bin/busybox", content: busybox, mode: 0o755 },
        ...["sh", "sleep", "touch", "cat", "rm"].map((name) => ({
          name: `bin/${name}`,
          type: "2",
          link: "busybox",
        })),
        { name: "tmp/", mode: 0o1777 },
      ]],
      config: {
        Env: ["PATH=/bin"],
        User: "1000",
        Entrypoint: ["/bin/sh", "-c"],
        Cmd: [program],
        ExposedPorts: { "8080/tcp": {}, "53/udp": {} },
        Healthcheck: { Test: ["CMD", "cat", "/tmp/well"], Interval: 1e9, Retries: 2 },
        StopSignal: "SIGUSR1",
      },
    });
    await sbx.ok("create", "web", "--image", reference);
    assert((await sbx.cli("port", "web")).stderr.includes("its image names port 8080: sbx port web 8080"));
    assertEquals(JSON.parse(await sbx.ok("info", "web", "--json")).image.ports, [8080]);
    assertEquals(JSON.parse(await sbx.ok("services", "web", "--json")).services, []);
    const reaches = (state: string) =>
      eventually(`it is ${state}`, async () => {
        const { services: [service] } = JSON.parse(await sbx.ok("services", "web", "--json"));
        return service.service.state === state;
      });
    await sbx.ok("services", "start", "web", "image");
    await reaches("Ready");
    await sbx.ok("exec", "web", "--", "rm", "/tmp/well");
    await reaches("Unhealthy");
    const problem = "its service image is unhealthy: exit code 1: cat: can't open '/tmp/well'";
    for (const words of [["info", "web"], ["status"]]) {
      await eventually(`${words} says so`, async () => (await sbx.cli(...words)).stdout.includes(problem));
    }
    assert((await sbx.ok("list")).includes("Running, unhealthy"));
    await sbx.ok("exec", "web", "--", "touch", "/tmp/well");
    await reaches("Ready");
    const { events } = JSON.parse(await sbx.ok("events", "web", "--family", "process", "--json"));
    const own = events.filter((event: { common: { labels?: { service?: string } } }) =>
      event.common.labels?.service === "image"
    );
    assert(
      own.some((event: { process: { activity: { command: string } } }) =>
        event.process.activity.command === "cat /tmp/well"
      ),
    );
    await sbx.ok("stop", "web");
    assertEquals(await sbx.ok("services", "logs", "web", "image"), "it runs\nit got USR1\n");
  }));

// Only root can unpack the owners of a root file system, of which the image of this test is made.
Deno.test({
  name: "a VM boots an OCI image, with its variables, folder and user, and keeps it",
  ignore: Deno.uid() !== 0,
  fn: () =>
    inWorld(async ({ sbx, registry, dir }) => {
      const layout = join(dir, "bootable");
      const { rootfs } = await resolveAssets(home({ get: (name) => sbx.env[name] }), currentArch());
      const passwd = "root:x:0:0::/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n";
      const config = {
        Env: ["GREETING=hello"],
        WorkingDir: "/srv/app",
        User: "app",
        Cmd: ["/srv/app/run", "it"],
      };
      await writeBootableImage(layout, rootfs.path, [
        { name: "etc/passwd", content: passwd },
        { name: "etc/group", content: "root:x:0:\napp:x:1000:\nextra:x:77:app\n" },
        { name: "home/app/", uid: 1000, gid: 1000 },
        { name: "srv/app/", uid: 1000, gid: 1000 },
        { name: "srv/app/run", content: "#!/bin/sh\necho ran $1 as $(id -u) in $(pwd)\n", mode: 0o755 },
        { name: "srv/app/root-only", content: "secret", mode: 0o600 },
        { name: "usr/bin/apt-get", type: "1", link: "usr/bin/env" },
        { name: "usr/share/.wh.zoneinfo" },
        { name: "srv/attributed", content: "x", xattrs: { "user.note": "kept" } },
        { name: "srv/set", content: "x", mode: 0o6755 },
      ], config);
      const reference = await registry.push(layout, "team/app:v1");
      assertEquals(await sbx.ok("run", "--image", reference), "ran it as 1000 in /srv/app\n");
      await Deno.mkdir(join(sbx.home, "profiles/app"), { recursive: true });
      await Deno.writeTextFile(
        join(sbx.home, "profiles/app/profile.toml"),
        `id = "app"\nname = "App"\ndescription = ""\nrevision = "1.0.0"\n[image]\nfrom = "${reference}"\n`,
      );
      await sbx.ok("create", "dev", "--profile", "app");
      const exec = async (...words: string[]) => (await sbx.ok("exec", ...words)).trim();
      assertEquals(
        await exec("dev", "-c", "id -u; id -G; pwd; echo $GREETING $HOME; cat root-only 2>&1 | tail -c 18"),
        "1000\n1000 77\n/srv/app\nhello /home/app\nPermission denied",
      );
      assertEquals(await exec("dev", "-c", "echo out >/dev/stdout; echo err >/dev/stderr"), "out");
      assertEquals(await exec("--user", "root", "dev", "-c", "id -u; cat /srv/app/root-only"), "0\nsecret");
      assertEquals(
        await exec("--user", "1234:5", "--cwd", "/", "dev", "-c", "id -u; id -g; pwd"),
        "1234\n5\n/",
      );
      assertEquals(
        await exec(
          "dev",
          "-c",
          "stat -c %a:%u /srv/set /home/app; ls /usr/share/zoneinfo 2>&1 | wc -l; stat -c %h /usr/bin/env",
        ),
        "6755:0\n755:1000\n1\n2",
      );
      const attribute = "import os; print(os.getxattr('/srv/attributed', 'user.note').decode())";
      assertEquals(await exec("dev", "--", "python3", "-c", attribute), "kept");
      const { image } = JSON.parse(await sbx.ok("info", "dev", "--json"));
      const { environments: [environment] } = JSON.parse(await sbx.ok("image", "list", "--json"));
      assertEquals([image.reference, image.digest], [reference, environment.digest]);
      assertEquals([environment.used_by, environment.profiles], [["dev"], ["app"]]);
      const none = await sbx.cli("exec", "--user", "no\x1b[2Jne", "dev", "--", "true");
      assertEquals([none.code, none.stderr.includes("\x1b")], [126, false]);

      // A tag that leads elsewhere changes no VM.
      const other = join(dir, "other");
      await writeImage(other, { layers: [FILES], architecture: ARCHITECTURE });
      await registry.push(other, "team/app:v1");
      await sbx.ok("image", "pull", reference);
      await sbx.ok("stop", "dev");
      assert(error(await sbx.cli("image", "remove", environment.key)).includes("is that of dev"));
      await sbx.ok("start", "dev");
      assertEquals(await exec("dev", "--", "id", "-u"), "1000");
    }),
});

// Only root can mount a small disk.
Deno.test({
  name: "a pull that the disk has no room for is refused, and leaves nothing",
  ignore: Deno.uid() !== 0,
  fn: () =>
    inWorld(async ({ sbx, publish }) => {
      const { reference } = await publish("a:v1");
      const place = join(sbx.home, "environments");
      await Deno.mkdir(place, { mode: 0o700 });
      await succeed("mount", "-t", "tmpfs", "-o", "size=200m,mode=0700", "sbx-test", place);
      try {
        const text = error(await sbx.cli("image", "pull", reference));
        assert(text.includes("free, and the download needs"), text);
        assertEquals(await leftovers(sbx), []);
      } finally {
        await succeed("umount", "--lazy", place);
      }
    }),
});

async function obomOf({ home }: Sbx, key: string): Promise<string> {
  const dir = join(home, "environments", key);
  const names = await Array.fromAsync(Deno.readDir(dir), ({ name }) => name);
  return join(dir, names.find((name) => name.startsWith("obom"))!);
}

Deno.test("two pulls of one image at once make one", () =>
  inWorld(async ({ sbx, publish }) => {
    const { reference } = await publish("a:v1", {
      layers: [[{ name: "big", content: new Uint8Array(32 * 1024 ** 2) }]],
    });
    const both = await Promise.all([1, 2].map(() => sbx.ok("image", "pull", reference, "--json")));
    assertEquals(both.map((text) => JSON.parse(text).is_new).sort(), [false, true]);
    assertEquals(await leftovers(sbx), []);
  }));

Deno.test("hostile and broken images are refused, and leave nothing", () =>
  inWorld(async ({ sbx, registry, publish, dir }) => {
    const refused = async (reference: string, words: string) => {
      const text = error(await sbx.cli("image", "pull", reference));
      assert(text.includes(words), `${reference}: ${text}`);
    };
    const { reference: other } = await publish("other:v1", { architecture: FOREIGN });
    await refused(other, `is not for linux/${ARCHITECTURE}, but for linux/${FOREIGN}`);
    const { reference: out } = await publish("out:v1", { layers: [[{ name: "../x", content: "x" }]] });
    await refused(out, "leads out of the image");
    const { reference: device } = await publish("device:v1", { layers: [[{ name: "mem", type: "3" }]] });
    await refused(device, "is a device");
    await refused(`${registry.host}/none:v1`, "there is no image");
    await refused(`${registry.host}/out@sha256:${"0".repeat(64)}`, "there is no image");
    await refused("127.0.0.1:1/a:v1", "check that the registry can be reached");

    // A folder, since a registry refuses such images.
    await writeImage(join(dir, "config"), {
      layers: [FILES],
      architecture: ARCHITECTURE,
      configSize: 100_000_000,
    });
    await refused(`oci:${join(dir, "config")}:v1`, "its configuration has 100.0 MB");
    const { layers: [layer] } = await writeImage(join(dir, "damaged"), {
      // A layer that this home has already would not be read from there.
      layers: [[{ name: "own", content: "x" }]],
      architecture: ARCHITECTURE,
    });
    await Deno.writeFile(layer.path, new Uint8Array(layer.size));
    await refused(`oci:${join(dir, "damaged")}:v1`, "failed");

    assertEquals(await leftovers(sbx), []);
    assertEquals(JSON.parse(await sbx.ok("image", "list", "--json")).environments, []);
  }));

Deno.test("corp names the registries that images come from", () =>
  inWorld(async ({ sbx, registry, publish, dir }) => {
    const { reference, digest } = await publish("team/app:v1");
    const allow = (...images: string[]) =>
      Deno.writeTextFile(
        join(dir, "corp.toml"),
        `refresh_policy = "24h"\n[corp.limits]\nimages = ${JSON.stringify(images)}\n`,
      );
    await allow("registry.example.com");
    assert(
      error(await sbx.cli("image", "pull", reference)).includes(`corp does not allow the image ${reference}`),
    );
    await allow(`${registry.host}/team/app@sha256:${"0".repeat(64)}`);
    assert(error(await sbx.cli("image", "pull", reference)).includes(digest));
    await allow(`${registry.host}/team/app@${digest}`);
    await sbx.ok("image", "pull", reference);
    await allow(`${registry.host}/team`);
    await sbx.ok("image", "pull", reference);
  }));

Deno.test("corp wants images signed: also one that was pulled before, until its signature is verified", () =>
  inWorld(async ({ sbx, registry: { host }, publish, dir }) => {
    const signer = makeSigner(), next = makeSigner();
    const { reference, digest } = await publish("team/app:v1");
    await sbx.ok("image", "pull", reference);
    const require = (key: string) =>
      Deno.writeTextFile(
        join(dir, "corp.toml"),
        `refresh_policy = "24h"\n[corp.limits.image_signatures]\n"${host}" = [${JSON.stringify(key)}]\n`,
      );
    await require(signer.publicKey);
    assert(error(await sbx.cli("image", "pull", reference)).includes("it has no signature"));
    assert(error(await sbx.cli("create", "dev", "--image", reference)).includes("it has no signature"));
    // Another client of the service, which pulls nothing.
    await sbx.ok("start");
    const made = await sbx.api("POST", "/vms/create", { image: reference });
    assertEquals([made.status, made.body.code], [403, "corp.image_signature"]);
    assert(
      error(await sbx.cli("image", "pull", `oci:${join(dir, "team-app-v1")}:v1`)).includes("names no signer"),
    );

    await attachSignature({ host, repository: "team/app", digest, privateKey: signer.privateKey });
    assertEquals(JSON.parse(await sbx.ok("image", "pull", reference, "--json")).is_new, false);
    const { environments: [{ signatures }] } = JSON.parse(await sbx.ok("image", "list", "--json"));
    assertEquals(signatures, [{
      repository: `${host}/team/app`,
      digest,
      key: keyFingerprint(signer.publicKey),
    }]);
    // Its signer is one no more.
    await require(next.publicKey);
    assert(
      error(await sbx.cli("image", "pull", reference)).includes("no key of the company's has signed it"),
    );
  }));

Deno.test("a registry that goes away, lies or wants a login, and an interrupt, leave nothing; the next pull goes on", async () => {
  const dir = await Deno.makeTempDir({ prefix: "sbx-images-" });
  const sbx = await Sbx.make();
  const content = crypto.getRandomValues(new Uint8Array(65_536));
  const { digest, layers: [layer] } = await writeImage(dir, {
    layers: [[{ name: "x", content }]],
    architecture: ARCHITECTURE,
  });
  const blob = await Deno.readFile(layer.path);
  const login = btoa("me:a password");
  const reached = Promise.withResolvers<void>();
  let mode: "cut" | "hang" | "serve" | "login" = "cut";
  await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const { pathname } = new URL(request.url);
    if (mode === "login" && request.headers.get("authorization") !== `Basic ${login}`) {
      return new Response("", { status: 401, headers: { "www-authenticate": 'Basic realm="test"' } });
    }
    const [, kind, name] = /\/(manifests|blobs)\/(.*)$/.exec(pathname) ?? [];
    if (!kind) return new Response("{}");
    // Whatever manifest is asked for, it gives this one.
    const path = join(dir, "blobs/sha256", (kind === "manifests" ? digest : name).slice("sha256:".length));
    const bytes = await Deno.readFile(path).catch(() => undefined);
    if (!bytes) return new Response("", { status: 404 });
    const headers = {
      "content-type": kind === "manifests"
        ? "application/vnd.oci.image.manifest.v1+json"
        : "application/octet-stream",
      "content-length": `${bytes.length}`,
    };
    if (name !== layer.digest || mode === "serve" || mode === "login") {
      return new Response(bytes, { headers });
    }
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(blob.slice(0, 1000));
        // A body that is shorter than its header says is cut off.
        if (mode === "cut") controller.close();
        else reached.resolve();
      },
    });
    return new Response(body, { headers });
  });
  const reference = `127.0.0.1:${server.addr.port}/a:v1`;
  try {
    assert(error(await sbx.cli("image", "pull", reference)).includes("finished layers are kept"));
    assertEquals(await leftovers(sbx), []);
    mode = "hang";
    const pulling = new Deno.Command(join(Deno.cwd(), "bin/sbx"), {
      args: ["image", "pull", reference],
      env: sbx.env,
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    await reached.promise;
    pulling.kill("SIGINT");
    const { code, stderr } = await pulling.output();
    assert(
      code !== 0 && new TextDecoder().decode(stderr).includes("interrupted"),
      new TextDecoder().decode(stderr),
    );
    assertEquals(await leftovers(sbx), []);
    mode = "serve";
    const other = `127.0.0.1:${server.addr.port}/a@sha256:${"0".repeat(64)}`;
    const lie = error(await sbx.cli("image", "pull", other));
    assert(lie.includes(digest) || /digest/i.test(lie), lie);
    assertEquals(JSON.parse(await sbx.ok("image", "list", "--json")).environments, []);
    mode = "login";
    assert(error(await sbx.cli("image", "pull", reference)).includes("docker login"));
    const host = `127.0.0.1:${server.addr.port}`;
    const config = join(dir, "config.json");
    await Deno.writeTextFile(config, JSON.stringify({ auths: { [host]: {} }, credsStore: "sbx-test" }));
    const env = { DOCKER_CONFIG: dir, PATH: `${dir}:${Deno.env.get("PATH")}` };
    const pull = () => sbx.run("sbx", ["image", "pull", reference], env);
    // The refusal names the helper that gave no login.
    assert(error(await pull()).includes("docker-credential-sbx-test"));
    await Deno.writeTextFile(
      join(dir, "docker-credential-sbx-test"),
      `#!/bin/sh\necho '{"Username":"me","Secret":"a password"}'\n`,
      { mode: 0o755 },
    );
    const pulled = await pull();
    assertEquals(pulled.code, 0, pulled.stderr);
    assertEquals(await leftovers(sbx), []);
  } finally {
    await sbx.dispose();
    await Deno.remove(dir, { recursive: true });
  }
});
