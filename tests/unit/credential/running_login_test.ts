/**
 * A login while VMs run, and two logins at once
 * (docs/design/contracts/09-credentials.md §9, "Subscriptions").
 */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { CredentialStore, storePath, Subscriptions } from "../../../lib/credential/mod.ts";
import { HostLogins } from "../../../lib/service/contract/logins.ts";
import { giveKeyFiles, giveLoginFiles } from "../../../lib/service/contract/login_files.ts";
import { byProcess } from "../../../lib/service/record/host_record.ts";
import type { Vm } from "../../../lib/service/mod.ts";
import { VmProcess } from "../../../lib/service/vm/vm_process.ts";
import { CallServer } from "../../../lib/session/ipc/mod.ts";
import { type Contract, writeContract } from "../../../lib/session/files/mod.ts";
import { openCa, rotateCa } from "../../../lib/network/ca/mod.ts";
import { guestHostKey } from "../../../lib/network/ssh/mod.ts";
import { keyTerms, makeKey } from "../../helper/signing.ts";
import { testProvider } from "../../helper/identity_provider.ts";

/** A running VM whose guest takes files, behind the real calls of a VM's process. */
async function guestOf(
  dir: string,
  name: string,
  { providers = ["anthropic"], credentials, state = "Running" }: {
    providers?: string[];
    credentials?: Record<string, string>;
    state?: string;
  } = {},
) {
  const paths = {
    dir: join(dir, name),
    workspace: join(dir, name),
    contract: join(dir, name, "contract.json"),
    brought: join(dir, name, "brought"),
  };
  await Deno.mkdir(paths.dir);
  const layer = { rules: [], packs: [] };
  const contract = {
    profile: { ...layer, mcp: {}, providers },
    corp: { ...layer, mcp: {} },
    detection: { user: [], runtime: [] },
    network: { resolvers: [], overrides: [] },
    ledger: { on_full: "pause" },
  } as unknown as Contract;
  await writeContract(paths as unknown as Parameters<typeof writeContract>[0], contract);
  const files = new Map<string, string>();
  const decided: string[] = [];
  const world = { refusal: undefined as string | undefined, files, decided };
  const socket = join(dir, `${name}.sock`);
  const server = new CallServer(Deno.listen({ transport: "unix", path: socket }), async (call, caller) => {
    if (call.t === "DecideFile") {
      decided.push(`${call.operation} ${call.path}`);
      const refused = world.refusal !== undefined && { refusal: world.refusal };
      return await caller.reply({ t: "FileDecided", event_id: "0123456789ab", ...refused });
    }
    if (call.t !== "GuestFile") return;
    let text = "";
    if (call.stdin) {
      for (let input = await caller.input(); input?.t === "Data"; input = await caller.input()) {
        text += atob(input.data);
      }
    }
    const [action, path, mode] = call.words;
    if (action === "write") files.set(`${path} ${mode}`, text);
    await caller.reply({ t: "FileDone", exit_code: 0, truncated: false });
  });
  const vm = {
    paths,
    state: { state },
    record: { id: crypto.randomUUID(), name, ...(credentials && { credentials }) },
    process: new VmProcess(socket),
  } as unknown as Vm;
  return Object.assign(world, { vm, [Symbol.asyncDispose]: () => server.close() });
}

Deno.test("running VMs that use a login get its file with refs, by their rules, and no other VM does", async () => {
  await using provider = await testProvider("claude");
  const place = home({ get: (name) => name === "SBX_HOME" ? provider.folder : undefined });
  const store = new CredentialStore(storePath(place));
  const logins = new Subscriptions(store);
  const save = (label: string) =>
    logins.save({ login: "claude", label }, {
      access: `sk-ant-oat01-${label.repeat(12)}`,
      refresh: `sk-ant-ort01-${label.repeat(12)}`,
      facts: {},
    });
  await using any = await guestOf(provider.folder, "any");
  await using work = await guestOf(provider.folder, "work", { credentials: { anthropic: "work" } });
  await using other = await guestOf(provider.folder, "other", { providers: ["github"] });
  await using asleep = await guestOf(provider.folder, "asleep", { state: "Suspended" });
  const guests = [any, work, other, asleep];
  const parts = { ready: () => Promise.resolve(), records: byProcess };
  const give = async (label: string) =>
    await giveLoginFiles({ home: place, vms: guests.map(({ vm }) => vm), parts }, await save(label));
  assertEquals(await give("home"), [{ name: "any" }]);
  const file = "/root/.claude/.credentials.json";
  assertEquals(guests.map(({ files }) => [...files.keys()]), [[`${file} 600`], [], [], []]);
  const text = any.files.get(`${file} 600`)!;
  const { access, refresh } = logins.find({ login: "claude", label: "home" })!;
  assert(text.includes(access.ref) && text.includes(refresh!.ref) && !text.includes("sk-ant"));
  assertEquals(any.decided, ["import /root/.claude", `import ${file}`]);
  // A VM with a label gets the login of this label alone, and a rule is a reason.
  work.refusal = "blocked by rule profiles.no-files";
  assertEquals(
    (await give("work")).find(({ name }) => name === "work"),
    { name: "work", problem: "blocked by rule profiles.no-files" },
  );
  assertEquals(work.files.size, 0);
});

Deno.test("running VMs know the servers and signers of keys that are added, and no other VM does", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const place = home({ get: (name) => name === "SBX_HOME" ? folder : undefined });
    const store = new CredentialStore(storePath(place));
    await using dev = await guestOf(folder, "dev", { providers: ["ssh", "signing"] });
    await using other = await guestOf(folder, "other", { providers: ["github"] });
    const guests = {
      home: place,
      vms: [dev.vm, other.vm],
      parts: { ready: () => Promise.resolve(), records: byProcess },
    };
    const { terms } = await keyTerms(await makeKey(folder));
    await rotateCa(place);
    const { publicKey } = await guestHostKey(await openCa(place));
    const servers = ["one.example:22", "two.example:2222"].map((host) => ({
      host,
      user: "git",
      host_keys: [terms.public],
    }));
    for (const server of servers) {
      await store.add([{
        provider: "ssh",
        secret: crypto.randomUUID(),
        hosts: [server.host],
        ssh: { public_key: terms.public, agent: "/run/agent", servers: [server] },
      }]);
    }
    // Two at once: the file has both servers, whichever is written last.
    const both = await Promise.all(servers.map(() => giveKeyFiles(guests, "ssh")));
    assertEquals(both, [[{ name: "dev" }], [{ name: "dev" }]]);
    assertEquals(
      dev.files.get("/etc/ssh/ssh_known_hosts 644")?.split("\n").toSorted(),
      ["", `[two.example]:2222 ${publicKey}`, `one.example ${publicKey}`],
    );
    await store.add([{
      provider: "signing",
      secret: crypto.randomUUID(),
      signing: { ...terms, from: "agent", place: "/run/agent" },
    }]);
    assertEquals(await giveKeyFiles(guests, "signing"), [{ name: "dev" }]);
    assertStringIncludes(dev.files.get("/etc/sbx/allowed_signers 600")!, `namespaces="git" ${terms.public}`);
    assert(dev.decided.includes("import /etc/sbx/allowed_signers"), "the rules were asked");
    assertEquals(other.files.size, 0);
    assertEquals(await giveKeyFiles(guests, "github"), []);
    dev.refusal = "blocked by rule profiles.no-files";
    assertEquals(await giveKeyFiles(guests, "ssh"), [{
      name: "dev",
      problem: "blocked by rule profiles.no-files",
    }]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("of two logins at once the later one waits, and the earlier one says so", async () => {
  await using provider = await testProvider("claude");
  const store = new CredentialStore(join(provider.folder, "credentials/store.json"));
  const given: string[] = [];
  const host = new HostLogins(new Subscriptions(store, provider.definitions), (login) => {
    given.push(login.access.ref);
    return Promise.resolve([{ name: "demo" }]);
  });
  const key = { login: "claude" };
  const first = await host.begin("claude", {});
  assertEquals([first.way, first.ways], ["browser", ["browser", "paste"]]);
  const refusal = assertRejects(() => host.state(key, first.attempt), SbxError);
  const second = await host.begin("claude", {});
  const late = [
    () => refusal.then((error: SbxError) => Promise.reject(error)),
    () => host.state(key, first.attempt),
    () => host.code(key, "code", first.attempt),
  ];
  for (const ask of late) {
    const error = await assertRejects(ask, SbxError);
    assertEquals([error.code, error.message], [
      "login.failed",
      "another sbx login claude took the place of this one",
    ]);
  }
  await provider.browse(second.url);
  const state = await host.state(key, second.attempt);
  assertEquals([state.waiting, state.login?.state, state.running], [false, "logged_in", [{ name: "demo" }]]);
  assertEquals(given, [state.login!.ref]);
});
