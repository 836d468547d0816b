/** The host's CA in containers: what an OCI runtime is given. */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import {
  addJavaOption,
  fillLayer,
  isShared,
  nameStep,
  overlayAt,
  resolveIn,
  trustContainer,
  trustProcess,
  volatileMark,
  withLower,
} from "../../../../cmd/guest/container/trust.ts";
import { withTrusted } from "../../../../lib/machine/guest/java/mod.ts";
import { JAVA_STORES } from "../../../helper/java.ts";
import { RUNTIME } from "../../../../lib/publish/image/docker.ts";
import {
  CONTAINER_VARIABLES,
  LAYER_PATH,
  RUNTIMES_PATH,
  TRUST_VARIABLES,
} from "../../../../lib/machine/guest/wire/mod.ts";

async function withFolder(test: (dir: string) => void | Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await test(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const readJson = (path: string) => JSON.parse(Deno.readTextFileSync(path));

Deno.test("a container gets the bundle in its own /dev and every variable that its image does not set", () =>
  withFolder(async (dir) => {
    const dev = { destination: "/dev", type: "tmpfs", source: "tmpfs" };
    const spec = {
      process: { env: ["PATH=/bin", "SSL_CERT_FILE=/mine.pem"], args: ['"env":['] },
      mounts: [dev],
      hooks: { prestart: [] },
    };
    Deno.writeTextFileSync(join(dir, "config.json"), JSON.stringify(spec));
    await trustContainer(dir, { ca: "/none", bundle: "/etc/bundle", javaStore: "/none" });
    const { process, mounts, hooks } = readJson(join(dir, "config.json"));
    assertEquals(process.env.slice(0, 2), spec.process.env);
    const others = [...TRUST_VARIABLES, "SSL_CA_CERT_FILE"].filter((name) => name !== "SSL_CERT_FILE");
    assertEquals(process.env.slice(2), [
      ...others.map((name) => `${name}=/dev/sbx-ca.crt`),
      "APT_CONFIG=/dev/sbx-apt.conf",
    ]);
    assertEquals([process.args, hooks], [spec.process.args, spec.hooks]);
    const options = ["bind", "ro", "nosuid", "nodev", "noexec"];
    const bundle = { destination: "/dev/sbx-ca.crt", type: "bind", source: "/etc/bundle", options };
    const apt = { ...bundle, destination: "/dev/sbx-apt.conf", source: "/usr/lib/sbx/container-apt.conf" };
    assertEquals(mounts, [dev, bundle, apt]);
    assertEquals([...Deno.readDirSync(dir)].length, 1);
  }));

Deno.test("a container that has the guest's /dev stays as it is, and a program that joins gets the variables", () =>
  withFolder(async (dir) => {
    const text = JSON.stringify({ process: {}, mounts: [{ destination: "/dev", type: "bind" }] });
    Deno.writeTextFileSync(join(dir, "config.json"), text);
    await trustContainer(dir);
    assertEquals(Deno.readTextFileSync(join(dir, "config.json")), text);
    Deno.writeTextFileSync(join(dir, "process.json"), '{"args":["env"]}');
    trustProcess(join(dir, "process.json"));
    assertEquals(readJson(join(dir, "process.json")).env.length, CONTAINER_VARIABLES.length);
  }));

Deno.test("a link that is put beside a process's file is not written through", () =>
  withFolder((dir) => {
    const [path, victim] = [join(dir, "process.json"), join(dir, "victim")];
    Deno.writeTextFileSync(victim, "whole");
    for (const name of ["sbx", "new", "tmp"]) Deno.symlinkSync(victim, `${path}.${name}`);
    Deno.writeTextFileSync(path, "{}");
    trustProcess(path);
    assertEquals(readJson(path).env.length, CONTAINER_VARIABLES.length);
    assertEquals(Deno.readTextFileSync(victim), "whole");
    assertEquals(Deno.statSync(path).mode! & 0o777, 0o600);
  }));

Deno.test("no link of an image leads out of its root", () =>
  withFolder((dir) => {
    const root = join(dir, "root");
    for (const folder of ["etc/pki", "certs"]) Deno.mkdirSync(join(root, folder), { recursive: true });
    Deno.writeTextFileSync(join(root, "certs/ca.crt"), "");
    Deno.writeTextFileSync(join(dir, "secret"), "");
    const links = {
      "etc/ssl": "/certs",
      "etc/up": "../../../../secret",
      "etc/pki/tls": "../../certs/ca.crt",
      "etc/loop": "loop",
      "etc/none": "/none",
    };
    for (const [path, target] of Object.entries(links)) Deno.symlinkSync(target, join(root, path));
    const paths = [
      "/etc/ssl/ca.crt",
      "/etc/pki/tls",
      "/etc/up",
      "/etc/loop",
      "/etc/none",
      "/etc/../certs/./ca.crt",
    ];
    assertEquals(paths.map((path) => resolveIn(root, path)), [
      "/certs/ca.crt",
      "/certs/ca.crt",
      undefined,
      undefined,
      undefined,
      "/certs/ca.crt",
    ]);
  }));

Deno.test("a layer has the bundles and the Java stores of an image with the CA, and nothing from outside", () =>
  withFolder(async (dir) => {
    const [root, layer] = [join(dir, "root"), join(dir, "layer")];
    Deno.mkdirSync(layer);
    for (const folder of ["etc/ssl/certs", "opt/jdk/lib/security", "jdk/lib/security", "usr/lib"]) {
      Deno.mkdirSync(join(root, folder), { recursive: true });
    }
    Deno.mkdirSync(join(dir, "host/jdk/lib/security"), { recursive: true });
    Deno.writeTextFileSync(join(root, "etc/ssl/certs/ca-certificates.crt"), "own\n");
    for (const store of [join(root, "opt/jdk"), join(root, "jdk"), join(dir, "host/jdk")]) {
      Deno.writeFileSync(`${store}/lib/security/cacerts`, Uint8Array.fromBase64(JAVA_STORES.jks));
    }
    Deno.chmodSync(join(root, "jdk/lib/security/cacerts"), 0o640);
    Deno.symlinkSync(join(dir, "host"), join(root, "usr/lib/jvm"));
    assert(await fillLayer(layer, root, JAVA_STORES.ca, "/jdk/"));
    assertEquals(
      Deno.readTextFileSync(join(layer, "etc/ssl/certs/ca-certificates.crt")),
      `own\n${JAVA_STORES.ca}`,
    );
    for (const store of ["opt/jdk", "jdk"]) {
      const changed = Deno.readFileSync(join(layer, store, "lib/security/cacerts"));
      assertEquals(await withTrusted(changed, JAVA_STORES.ca), undefined, store);
    }
    assertEquals(Deno.statSync(join(layer, "jdk/lib/security/cacerts")).mode! & 0o777, 0o640);
    assertEquals([...Deno.readDirSync(layer)].map(({ name }) => name).sort(), ["etc", "jdk", "opt"]);
  }));

Deno.test("another layer is only put between whole options of an overlay", () => {
  const line = (place: string, rest: string) => `51 46 0:27 / ${place} rw,relatime shared:2 - ${rest}`;
  const options = "rw,lowerdir=/l/A:/l/B,upperdir=/u,workdir=/w,index=off";
  const mounts = [
    line("/m", "ext4 /dev/vdc rw"),
    line("/m", `overlay overlay ${options}`),
    line("/a\\040b", `overlay overlay ${options}`),
    line("/odd", "overlay overlay rw,lowerdir=/l\\134:x,upperdir=/u,workdir=/w"),
    line("/under", `overlay overlay ${options}`),
    line("/under", "tmpfs tmpfs rw"),
    "",
  ].join("\n");
  const whole = "lowerdir=/l/A:/l/B,upperdir=/u,workdir=/w,index=off";
  assertEquals(
    ["/m", "/a b", "/odd", "/under", "/none"].map((place) => overlayAt(place, mounts)),
    [whole, whole, undefined, undefined, undefined],
  );
  assertEquals(withLower(whole, "/x"), "lowerdir=/x:/l/A:/l/B,upperdir=/u,workdir=/w,index=off");
  const others = [
    "lowerdir=l/A:l/B,upperdir=/u,workdir=/w",
    "lowerdir=/l/A",
    `lowerdir=/${"l".repeat(5000)},upperdir=/u`,
  ];
  for (const other of others) assertEquals(withLower(other, "/x"), undefined, other);
  assertEquals(volatileMark(whole), "/w/work/incompat/volatile");
  assertEquals(volatileMark("lowerdir=/a,upperdir=/u,workdir=w"), undefined);
  for (const option of ["volatile", "fsync=volatile"]) {
    const line =
      `51 46 0:27 / /pod rw - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w,uuid=on,${option}\n`;
    assertEquals(overlayAt("/pod", line), `lowerdir=/l,upperdir=/u,workdir=/w,${option}`);
  }
});

Deno.test("an overlay is left alone where its engine uses it at another place too, which BuildKit does not", () => {
  const line = (place: string, upper: string) =>
    `51 46 0:27 / ${place} rw - overlay overlay rw,lowerdir=/l,upperdir=/${upper},workdir=/w\n`;
  const [step, root] = ["/var/lib/docker/buildkit/executor/k3/rootfs", "/var/tmp/buildah12/mnt/rootfs"];
  const mounts = line("/merged", "u") + line(step, "u") + line(root, "u") + line("/other", "u2") +
    line("/other", "u2");
  const shared = (place: string) => isShared(place, overlayAt(place, mounts)!, mounts);
  assertEquals([step, root, "/merged", "/other"].map(shared), [false, true, true, false]);
});

Deno.test("a step of buildah is known by a cgroup with its container's id, unless its engine names one", () =>
  withFolder((dir) => {
    const [id, layer] = ["1".repeat(64), "2".repeat(64)];
    const overlay = (name: string) => `lowerdir=/l,upperdir=${dir}/overlay/${name}/diff,workdir=/w`;
    const named = (linux: { cgroupsPath?: string } | undefined, name = layer) => {
      const spec = { linux };
      return [nameStep(spec, overlay(name)), linux?.cgroupsPath];
    };
    assertEquals(named({}), [false, undefined], "no list of containers");
    Deno.mkdirSync(join(dir, "overlay-containers"));
    const list = join(dir, "overlay-containers/containers.json");
    Deno.writeTextFileSync(list, JSON.stringify([{ id: "0", layer: "x" }, { id, layer }]));
    assertEquals(named({}), [true, `/buildah/buildah-${id}`]);
    assertEquals(named({ cgroupsPath: "/own" }), [false, "/own"]);
    assertEquals(named(undefined), [false, undefined]);
    assertEquals(named({}, "3".repeat(64)), [false, undefined], "of another layer");
    assertEquals(nameStep({ linux: {} }, "lowerdir=/l,upperdir=2/diff"), false);
    Deno.renameSync(list, join(dir, "overlay-containers/volatile-containers.json"));
    assertEquals(named({}), [true, `/buildah/buildah-${id}`], "podman's list of builds");
    Deno.removeSync(join(dir, "overlay-containers/volatile-containers.json"));
    for (const text of ["{", "[null]", "{}", JSON.stringify([{ id: 1, layer }])]) {
      Deno.writeTextFileSync(list, text);
      assertEquals(named({}), [false, undefined], text);
    }
  }));

Deno.test("a JVM of a step gets the guest's certificates beside the options of its image, and keeps a store of its own", () => {
  const set = (...env: string[]) => {
    const process = { env };
    addJavaOption(process);
    return process.env;
  };
  const option = "-Djavax.net.ssl.trustStore=/dev/sbx-trust.jks";
  assertEquals(set("A=b"), ["A=b", `JAVA_TOOL_OPTIONS=${option}`]);
  assertEquals(set("JAVA_TOOL_OPTIONS=-Xmx1g"), [`JAVA_TOOL_OPTIONS=-Xmx1g ${option}`]);
  const own = "JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=/mine";
  assertEquals(set(own), [own]);
});

Deno.test("a runtime is run with its arguments as they are, and what it starts gets the CA first", () =>
  withFolder(async (dir) => {
    const [wrapper, own] = [join(dir, "wrapper"), join(dir, "own")];
    for (const folder of [wrapper, own]) Deno.mkdirSync(folder);
    const log = join(dir, "log");
    const note = (name: string) =>
      `#!/bin/sh\nprintf '%s' "${name}:" >>${log}\nprintf ' <%s>' "$@" >>${log}\necho >>${log}\n`;
    const script = RUNTIME.replaceAll(RUNTIMES_PATH, wrapper).replaceAll(
      `${LAYER_PATH}/bin/deno`,
      `${own}/trust`,
    )
      .replace(`${LAYER_PATH}/bin/sh`, "/bin/sh");
    Deno.writeTextFileSync(join(wrapper, "runc"), script, { mode: 0o755 });
    Deno.writeTextFileSync(join(own, "runc"), note("runc"), { mode: 0o755 });
    Deno.writeTextFileSync(join(own, "trust"), note("trust"), { mode: 0o755 });
    const run = (...args: string[]) =>
      new Deno.Command(join(wrapper, "runc"), { args, env: { PATH: `${wrapper}:${own}:/usr/bin:/bin` } })
        .output();
    const calls = [
      ["--root", "/r", "create", "--bundle", "/b c", "--pid-file", "/p", "id"],
      ["run", "--bundle=/b", "id"],
      ["exec", "--process", "/p.json", "create"],
      ["exec", "id", "sh", "-c", "a b"],
      ["state", "id"],
    ];
    for (const args of calls) assertEquals((await run(...args)).code, 0);
    const trust = `trust: ${
      ["run", "-A", "--no-config", "--no-lock", "--no-remote", "--no-npm", "--quiet"].map((each) =>
        `<${each}>`
      ).join(" ")
    } <${LAYER_PATH}/sbx-container.js>`;
    assertEquals((await Deno.readTextFile(log)).trim().split("\n"), [
      `${trust} <create> </b c>`,
      "runc: <--root> </r> <create> <--bundle> </b c> <--pid-file> </p> <id>",
      `${trust} <create> </b>`,
      "runc: <run> <--bundle=/b> <id>",
      `${trust} <exec> </p.json>`,
      "runc: <exec> <--process> </p.json> <create>",
      "runc: <exec> <id> <sh> <-c> <a b>",
      "runc: <state> <id>",
    ]);
    Deno.removeSync(join(own, "runc"));
    assertEquals((await run("state")).code, 127);
    Deno.writeTextFileSync(join(own, "runc"), note("runc"), { mode: 0o755 });
    Deno.writeTextFileSync(join(own, "trust"), "#!/bin/sh\nexit 1\n", { mode: 0o755 });
    assert((await run("create")).success, "a container starts without");
  }));
