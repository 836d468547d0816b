/**
 * Secrets that programs and variables of the host give
 * (docs/design/contracts/09-credentials.md §9, "Secrets of programs").
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import {
  CredentialStore,
  obtainSecret,
  REASON,
  type SecretOrigin,
  storePath,
} from "../../../lib/credential/mod.ts";
import { CredentialDenied } from "../../../lib/network/interface/mod.ts";
import { newCredential } from "../../../lib/service/contract/credentials.ts";
import { Detections } from "../../../lib/home/mod.ts";
import { McpServers } from "../../../lib/config/profile/mod.ts";
import { SecretPrograms } from "../../../lib/service/mod.ts";
import { ContractRefresh, type RefreshSources } from "../../../lib/service/contract/refresh.ts";
import type { Registry } from "../../../lib/service/vm/registry.ts";
import { writeContract } from "../../../lib/session/mod.ts";
import type { Vm } from "../../../lib/service/vm/vm.ts";
import { decode, encode, KEY, to, world } from "../../helper/credential.ts";
import { eventually } from "../../helper/sbx.ts";

const sh = (script: string): SecretOrigin => ({ program: ["sh", "-c", script] });
const problemOf = async (origin: SecretOrigin, runMs?: number) => {
  const error = await assertRejects(() => obtainSecret(origin, { runMs }), SbxError);
  assertEquals(error.code, "credential.program");
  return error.message;
};

Deno.test("a program's output is the secret, with an end that it names or the usual one", async () => {
  const plain = await obtainSecret(sh(`echo ${KEY.github}`));
  assertEquals(plain.secret, KEY.github);
  assertEquals(plain.expires_at - plain.obtained_at, 900_000);
  const named = await obtainSecret(
    sh(`echo '{"secret": "${KEY.github}", "expires_at": "2999-01-02T03:04:05Z"}'`),
  );
  assertEquals(named.expires_at, Date.UTC(2999, 0, 2, 3, 4, 5));
  const short = await obtainSecret({ ...sh(`echo ${KEY.github}`), ttl_s: 10 });
  assertEquals(short.expires_at - short.obtained_at, 10_000);
  Deno.env.set("TEST_SECRET_ORIGIN", KEY.openai);
  assertEquals((await obtainSecret({ env: "TEST_SECRET_ORIGIN" })).secret, KEY.openai);
  Deno.env.delete("TEST_SECRET_ORIGIN");
});

Deno.test("a confined program finds no secret of its person, reaches no one and leaves nothing", async () => {
  const dir = await Deno.makeTempDir();
  const home = join(dir, "home");
  const own = join(home, ".sbx");
  await Deno.mkdir(own, { recursive: true });
  await Deno.writeTextFile(join(home, "private"), "a-private-text-of-the-person");
  await Deno.writeTextFile(join(home, "token"), KEY.github);
  await Deno.writeTextFile(join(own, "store.key"), "the-key-of-the-store-of-sbx");
  const [before, sbxHome] = [Deno.env.get("HOME"), Deno.env.get("SBX_HOME")];
  Deno.env.set("HOME", home);
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const socket = Deno.listen({ transport: "unix", path: join(dir, "agent") });
  const served = Array.fromAsync(listener, (conn) => conn.close());
  try {
    const run = async (script: string, confine: SecretOrigin["confine"] = {}) => {
      const program = ["bash", "-c", `${script}; echo "${KEY.openai}"`];
      return (await obtainSecret({ program, confine })).secret;
    };
    const may = { read: [join(home, "token")] };
    // What it sees, as a secret of visible characters: each of these would be another text, or a failure.
    const seen = async (script: string, confine: SecretOrigin["confine"] = may) => {
      const program = ["bash", "-c", `x=$(${script}); echo "seen-by-the-program:$x" | tr ' \n' '__'`];
      return (await obtainSecret({ program, confine })).secret.replace(/^seen-by-the-program:|_$/g, "");
    };
    assertEquals(await seen('cat "$HOME/token"'), KEY.github);
    assertEquals(await seen('ls -A "$HOME"'), "token");
    assertEquals(await seen('cat "$HOME/token"', {}), "");
    const { pid } = Deno;
    for (
      const script of [
        'cat "$HOME/private"',
        `cat ${join(home, "private")}`,
        // By another process of the same user, and by undoing the confinement.
        `cat /proc/${pid}/root${home}/private /proc/1/root${home}/private /proc/*/cwd${home}/private`,
        `umount "$HOME"; umount -l ${dir} /tmp; cat ${home}/private`,
        `unshare -Urm sh -c 'umount -l /tmp; umount ${home}; cat ${home}/private'`,
        `kill -0 ${pid} && echo another process`,
        `cat ${own}/store.key`,
        "find /run /dev/shm -type s -o -type f -size +0",
        `exec 3<>/dev/tcp/127.0.0.1/${listener.addr.port} && echo connected`,
        `echo x >> "$HOME/token" && echo written`,
        "touch /usr/of-a-test && echo written",
        "touch /etc/of-a-test && echo written",
        "touch /var/of-a-test && echo written",
        `[ -e ${join(dir, "agent")} ] && echo a socket`,
        "grep -E '^(CapEff|CapBnd):.*[1-9a-f]' /proc/self/status",
        // Control groups and settings of the kernel, also by a /proc of its own; terminals and disks.
        "find /sys /proc/sys -writable -type f -print -quit",
        `unshare -Urmpf --mount-proc sh -c 'find /proc/sys -writable -type f -print -quit'`,
        "find /dev /dev/pts -mindepth 1 -type b -o -path '*/pts/*'",
      ]
    ) assertEquals(await seen(script), "", script);
    assertEquals(await seen("grep NoNewPrivs /proc/self/status | tail -c2"), "1");
    // What it writes is gone; the folder of sbx stays away from one that may read all around it.
    assertEquals(await seen(`cd "$HOME" && echo mine > new && cat new`), "mine");
    assertEquals([...Deno.readDirSync(home)].map(({ name }) => name).toSorted(), [
      ".sbx",
      "private",
      "token",
    ]);
    assertEquals(await seen(`cat ${own}/store.key`, { read: [home] }), "");
    assertEquals(await seen('cat "$HOME/private"', { read: [home] }), "a-private-text-of-the-person");
    const copies = "for each in /mnt /media /srv /var/tmp; do cat $each/*/.sbx/store.key; done";
    assertEquals(await seen(copies, { read: [home] }), "");
    const [linked, data] = [join(home, "linked"), join(dir, "data")];
    await Deno.mkdir(join(data, "sbx"), { recursive: true });
    await Deno.writeTextFile(join(data, "sbx", "store.key"), "the-key-of-the-store-of-sbx");
    await Deno.symlink(join(data, "sbx"), linked);
    Deno.env.set("SBX_HOME", linked);
    assertEquals(await seen(`cat ${data}/sbx/store.key`, { read: [data] }), "");
    if (sbxHome === undefined) Deno.env.delete("SBX_HOME");
    else Deno.env.set("SBX_HOME", sbxHome);
    assertEquals(await seen("cat <(echo x > /dev/null && echo y > /dev/shm/z && cat /dev/shm/z)"), "y");
    assertEquals(await seen("echo mine", { read: ["/mnt"] }), "mine");
    // Also through a link, where the kept paths are collected shows nothing.
    const disk = join(dir, "disk");
    await Deno.symlink("/mnt", disk);
    assertEquals(await seen(`cat ${disk}/*/.sbx/store.key`, { read: [home, disk] }), "");
    const every = { program: ["true"], confine: { read: ["/mnt", "/media", "/srv", "/var"] } };
    assert(/cannot be confined/.test(await problemOf(every)));
    const connect = `exec 3<>/dev/tcp/127.0.0.1/${listener.addr.port} && echo connected`;
    assertEquals(await seen(connect, { network: true }), "connected");
    assertEquals(await run("true"), KEY.openai);
    const missing: SecretOrigin = { program: ["true"], confine: { read: [join(home, "no-such-file")] } };
    assert(/may read .*no-such-file, which is not there/.test(await problemOf(missing)));
    // Nothing outlives it: its first process ends, and so does every other one.
    const mark = `${Math.random()}`.slice(2);
    const hangs: SecretOrigin = {
      program: ["bash", "-c", `setsid sleep ${mark} & sleep ${mark}`],
      confine: {},
    };
    assert(/did not end within/.test(await problemOf(hangs, 1000)));
    await eventually("its processes end", () => !commandLines().some((line) => line.includes(mark)));
  } finally {
    listener.close();
    socket.close();
    await served;
    if (before === undefined) Deno.env.delete("HOME");
    else Deno.env.set("HOME", before);
    if (sbxHome === undefined) Deno.env.delete("SBX_HOME");
    else Deno.env.set("SBX_HOME", sbxHome);
    await Deno.remove(dir, { recursive: true });
  }
});

/** Command lines of all processes. */
function commandLines(): string[] {
  return [...Deno.readDirSync("/proc")].flatMap(({ name }) => {
    try {
      return /^\d+$/.test(name) ? [Deno.readTextFileSync(`/proc/${name}/cmdline`)] : [];
    } catch {
      return [];
    }
  });
}

Deno.test("a program that gives no secret is named, and nothing that it wrote is", async () => {
  const cases: [SecretOrigin, RegExp][] = [
    [sh("echo short"), /gave no usable secret/],
    [sh("echo two words of a secret"), /gave no usable secret/],
    [sh(`echo ${KEY.github}; echo ${KEY.github} >&2; exit 3`), /the program sh failed with status 3/],
    [sh("kill -9 $$"), /ended by SIGKILL/],
    [sh("yes"), /wrote more than 65536 bytes/],
    [sh("head -c 1000000000 /dev/zero"), /wrote more than/],
    [{ program: ["/no/such/program"] }, /program \/no\/such\/program was not found/],
    [sh(`echo '{"secret": "${KEY.github}", "expires_at": "2001-01-01T00:00:00Z"}'`), /has expired/],
    [sh(`echo '{"secret": "${KEY.github}", "expires_at": "soon"}'`), /has expired/],
    [{ env: "NO_SUCH_VARIABLE_OF_THIS_TEST" }, /no variable NO_SUCH/],
  ];
  for (const [origin, expected] of cases) {
    const message = await problemOf(origin);
    assert(expected.test(message) && !message.includes(KEY.github), message);
  }
});

Deno.test("a program that hangs is ended with its children", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const pipe = join(dir, "pipe");
    await new Deno.Command("mkfifo", { args: [pipe] }).output();
    // Ends when the child has: it holds the only other end.
    const held = Deno.readTextFile(pipe);
    assert(/did not end/.test(await problemOf(sh(`sleep 600 > ${pipe} & echo $!; wait`), 3000)));
    assertEquals(await held, "");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a program has no input and none of sbx's variables", async () => {
  Deno.env.set("SBX_TEST_OF_PROGRAM", "x");
  const { secret } = await obtainSecret(
    sh('read line; echo "input:${line:-none},${SBX_TEST_OF_PROGRAM:-none}"'),
  );
  Deno.env.delete("SBX_TEST_OF_PROGRAM");
  assertEquals(secret, "input:none,none");
});

Deno.test(
  "a broker sends what is provided until its end, under one ref, and knows what it replaced",
  world([], async ({ store, open }) => {
    const origin = sh("irrelevant");
    const [{ ref }] = await store.add([newCredential({ provider: "github", origin })]);
    assert(!(await Deno.readTextFile(store.path)).includes("ghp_"));
    const broker = await open(["github"]);
    const inject = () =>
      broker.inject(to("api.github.com"), [["authorization", `token ${ref}`]]).headers[0][1];
    const reason = () => assertThrows(inject, CredentialDenied).substitutions[0].reason;
    assertEquals(broker.guestEnv().GITHUB_TOKEN, ref);
    assertEquals(reason(), REASON.notProvided);
    const later = Date.now() + 60_000;
    assertEquals(await broker.provide({ [ref]: { secret: KEY.github, expires_at: later } }), []);
    assertEquals(inject(), `token ${KEY.github}`);
    const next = "ghp_" + "n".repeat(36);
    await broker.provide({ [ref]: { secret: next, expires_at: later } });
    assertEquals(inject(), `token ${next}`);
    // Answers may repeat both: neither reaches the guest.
    for (const secret of [KEY.github, next]) {
      const [[, value]] = broker.answer("api.github.com", [["x-echo", secret]]).headers;
      assertEquals(value, ref);
      const filter = broker.bodies({
        ...{ direction: "response" as const, scheme: "https", host: "api.github.com", port: 443, path: "/" },
        content_type: "text/plain",
      })!;
      const out = [filter.push(encode(`got ${secret}.`)), filter.end()];
      assertEquals(out.map((chunk) => decode(chunk)).join(""), `got ${ref}.`);
    }
    await broker.provide({ [ref]: { secret: next, expires_at: Date.now() - 1 } });
    assertEquals(reason(), REASON.notProvided);
    await broker.provide({ [ref]: { secret: next, expires_at: later } });
    await store.revoke(ref);
    assertEquals(reason(), REASON.revoked);
  }),
);

Deno.test(
  "a secret is provided to no other kind of credential",
  world([{ provider: "github", secret: KEY.github }], async ({ open, refs }) => {
    const broker = await open(["github"]);
    const expires_at = Date.now() + 60_000;
    const unknown = `credential:blake3:${"0".repeat(64)}`;
    const given = {
      [refs.github]: { secret: KEY.openai, expires_at },
      [unknown]: { secret: KEY.openai, expires_at },
    };
    assertEquals(await broker.provide(given), [refs.github, unknown]);
    assertEquals(
      broker.inject(to("api.github.com"), [["authorization", `token ${refs.github}`]]).headers[0][1],
      `token ${KEY.github}`,
    );
  }),
);

/** A VM with a contract in a folder; `call` gets the calls to its process. */
async function vmOf(
  dir: string,
  name: string,
  providers: string[],
  call: (each: unknown) => void,
  mcp: McpServers = {},
) {
  const contract = join(dir, `${name}.json`);
  const none = { rules: [], packs: [], mcp: {} };
  await writeContract({ contract }, {
    ...{ profile: { ...none, providers, mcp }, corp: none, detection: { user: [], runtime: [] } },
    network: { resolvers: [], overrides: [] },
    ledger: { on_full: "pause" },
  });
  const process = { call: (each: unknown) => Promise.resolve(call(each)) };
  return { record: { name }, paths: { contract }, process } as unknown as Vm;
}

Deno.test("a program that hangs keeps no other program's secret back", async () => {
  const dir = await Deno.makeTempDir();
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const pipe = join(dir, "pipe");
  await new Deno.Command("mkfifo", { args: [pipe] }).output();
  const given: string[] = [];
  const came = Promise.withResolvers<void>();
  const vm = await vmOf(dir, "a", ["github", "openai"], (each) => {
    given.push(...Object.keys((each as { secrets: Record<string, unknown> }).secrets));
    came.resolve();
  });
  const secrets = new SecretPrograms(home, { alive: () => [vm] });
  try {
    const store = new CredentialStore(storePath(home));
    const [hung] = await store.add([{
      provider: "openai",
      secret: crypto.randomUUID(),
      origin: sh(`cat ${pipe}`),
    }]);
    const [quick] = await store.add([{
      provider: "github",
      secret: crypto.randomUUID(),
      origin: sh(`echo ${KEY.github}`),
    }]);
    const provided = secrets.provide(vm);
    await came.promise;
    assertEquals(given, [quick.ref]);
    await secrets.provideAll(quick.ref);
    assertEquals(given, [quick.ref, quick.ref]);
    // The program ends only now.
    await Deno.writeTextFile(pipe, KEY.openai);
    await provided;
    assertEquals(given, [quick.ref, quick.ref, hung.ref]);
  } finally {
    secrets.close();
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("the host gets a program's secret for an MCP server that is defined with it", async () => {
  const dir = await Deno.makeTempDir();
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const store = new CredentialStore(storePath(home));
  const origin = sh(`echo ${KEY.github}`);
  const given: string[] = [];
  const take = (each: unknown) =>
    given.push(...Object.keys((each as { secrets: Record<string, unknown> }).secrets));
  const registry = { alive: (): Vm[] => [] };
  const secrets = new SecretPrograms(home, registry);
  try {
    const [{ ref }, other] = await store.add(
      [crypto.randomUUID(), crypto.randomUUID()].map((secret) => ({ provider: "github", secret, origin })),
    );
    const auth = { kind: "bearer", credential_ref: ref };
    const mcp = McpServers.parse({
      hub: { name: "Hub", transport: "http", url: "https://api.githubcopilot.com/mcp", auth },
    });
    await secrets.provide(await vmOf(dir, "a", [], take, mcp));
    assertEquals(given, [ref]);
    await secrets.provide(await vmOf(dir, "b", ["github"], take));
    assertEquals(given.toSorted(), [ref, ref, other.ref].toSorted());
  } finally {
    secrets.close();
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a running VM whose profile grants the provider from now on gets the secret", async () => {
  const dir = await Deno.makeTempDir();
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const calls: unknown[] = [];
  const given = Promise.withResolvers<unknown>();
  const vm = await vmOf(dir, "a", [], (each) => {
    calls.push(each);
    if ((each as { t: string }).t === "Secrets") given.resolve(each);
  });
  vm.record.profile_id = "p";
  const registry = { alive: () => [vm] } as unknown as Registry;
  const secrets = new SecretPrograms(home, registry);
  try {
    const store = new CredentialStore(storePath(home));
    const origin = sh(`echo ${KEY.github}`);
    const [{ ref }] = await store.add([{ provider: "github", secret: crypto.randomUUID(), origin }]);
    await secrets.provide(vm);
    assertEquals(calls, []);
    await Deno.mkdir(join(home.profilesDir, "p"), { recursive: true });
    const head = 'id = "p"\nname = "P"\ndescription = ""\nrevision = "1.0.0"\n';
    const grant = '[credentials]\nproviders = ["github"]\n';
    await Deno.writeTextFile(join(home.profilesDir, "p", "profile.toml"), head + grant);
    const detections = new Detections(home);
    const corp = { state: { status: "absent" } };
    const sources = { home, registry, corp, detections, secrets } as unknown as RefreshSources;
    const { failed } = await new ContractRefresh(sources).refreshProfile("p");
    assertEquals([failed, vm.problem], [[], undefined]);
    await given.promise;
    assertEquals(calls.map((call) => (call as { t: string }).t), ["Refresh", "Secrets"]);
    assertEquals(Object.keys((calls[1] as { secrets: Record<string, unknown> }).secrets), [ref]);
  } finally {
    secrets.close();
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a secret that no VM uses any more is not asked for again and again", async () => {
  const dir = await Deno.makeTempDir();
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const vm = await vmOf(dir, "a", ["npm"], () => {});
  const [{ setTimeout: timeout }, now] = [globalThis, Date.now];
  const timers: (() => void)[] = [];
  const planned = Promise.withResolvers<void>();
  let calls = 0;
  const secrets = new SecretPrograms(home, {
    alive: () => {
      // Once for the VMs that are provided, and once when that has ended.
      if (++calls === 3) planned.resolve();
      return [vm];
    },
  });
  try {
    const origin = sh(`echo ${KEY.github}`);
    const keep = await secrets.accept(origin, { provider: "github" });
    const store = new CredentialStore(storePath(home));
    const [{ ref }] = await store.add([{ provider: "github", secret: crypto.randomUUID(), origin }]);
    globalThis.setTimeout = ((callback: () => void) => {
      timers.push(callback);
      return timeout(() => {}, 0);
    }) as unknown as typeof setTimeout;
    keep(ref);
    assertEquals(timers.length, 1);
    calls = 1;
    Date.now = () => now() + 900_000;
    timers[0]();
    await planned.promise;
    assertEquals(timers.length, 1);
  } finally {
    [globalThis.setTimeout, Date.now] = [timeout, now];
    secrets.close();
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("one run serves every VM that is granted the provider, and no other", async () => {
  const dir = await Deno.makeTempDir();
  const calls: Record<string, unknown[]> = {};
  const vm = (name: string, providers: string[]) => {
    calls[name] = [];
    return vmOf(dir, name, providers, (each) => calls[name].push(each));
  };
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const vms = await Promise.all(["a", "b", "c"].map((name) => vm(name, name === "c" ? ["npm"] : ["github"])));
  const secrets = new SecretPrograms(home, { alive: () => vms });
  try {
    const runs = join(dir, "runs");
    const origin = sh(`echo run >> ${runs}; echo ${KEY.github}`);
    const store = new CredentialStore(storePath(home));
    const [{ ref }] = await store.add([{ provider: "github", secret: crypto.randomUUID(), origin }]);
    await Promise.all([
      secrets.provideAll(),
      secrets.provideAll(),
      ...vms.map((each) => secrets.provide(each)),
    ]);
    assertEquals(await Deno.readTextFile(runs), "run\n");
    const given = (name: string) =>
      calls[name].map((call) => (call as { secrets: Record<string, unknown> }).secrets);
    assertEquals([given("a").length, given("b").length, given("c").length], [3, 3, 0]);
    assertEquals(Object.keys(given("a")[0]), [ref]);
    assertEquals(secrets.problemOf(ref), undefined);

    const broken = sh("exit 4");
    const [other] = await store.add([newCredential({ provider: "github", origin: broken })]);
    await secrets.provideAll();
    assertEquals(secrets.problemOf(other.ref), "the program sh failed with status 4");
    assertEquals(Object.keys(given("a").at(-1)!), [ref]);
    await assertRejects(
      () => secrets.accept(broken, { provider: "github" }),
      SbxError,
      "failed with status 4",
    );
  } finally {
    secrets.close();
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a key in the words of a program, or beside a program, is refused", () => {
  const codeOf = (body: Parameters<typeof newCredential>[0]) =>
    assertThrows(() => newCredential(body), SbxError).code;
  assertEquals(
    codeOf({ provider: "github", origin: { program: ["echo", KEY.github] } }),
    "credential.invalid",
  );
  assertEquals(codeOf({ provider: "github", secret: KEY.github, origin: sh("x") }), "credential.invalid");
  assertEquals(codeOf({ provider: "github", decoy: true, origin: sh("x") }), "credential.invalid");
  assertEquals(codeOf({ provider: "github" }), "credential.invalid");
});
