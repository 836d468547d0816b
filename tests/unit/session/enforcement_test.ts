/** News of a session that lacks its network or its ledger, and has it again. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { dirname } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type Home, home as homeOf } from "../../../lib/base/home/mod.ts";
import { userName } from "../../../lib/base/user/mod.ts";
import { caFiles, openCa } from "../../../lib/network/ca/mod.ts";
import { CredentialStore, storePath } from "../../../lib/credential/mod.ts";
import { readRequest } from "../../../lib/service/vm/boot.ts";
import { changeCredentials } from "../../../lib/service/vm/credential_change.ts";
import { infoOf, requireAction, type Vm } from "../../../lib/service/vm/vm.ts";
import { VmProcess } from "../../../lib/service/vm/vm_process.ts";
import { CallServer } from "../../../lib/session/ipc/mod.ts";
import { Enforcement } from "../../../lib/session/enforcement.ts";
import { readRecord, sessionPaths, writeContract, writeRecord } from "../../../lib/session/mod.ts";
import { Qemu } from "../../../lib/machine/vm/mod.ts";
import { execEvent } from "../../helper/ledger.ts";
import { contractOf, http, rule } from "../../helper/session_gate.ts";
import { recordOf } from "../../helper/vm.ts";

interface Session {
  home: Home;
  paths: ReturnType<typeof sessionPaths>;
  enforcement: Enforcement;
  /** what it told of its ledger and of its network, in order */
  news: string[];
}

async function withEnforcement(
  ledger: Parameters<typeof contractOf>[1],
  work: (session: Session) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir();
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const id = crypto.randomUUID();
  const paths = sessionPaths(home, id);
  const news: string[] = [];
  const say = (what: string) => {
    news.push(what);
    return Promise.resolve();
  };
  try {
    for (const folder of [paths.dir, dirname(paths.ledger)]) await Deno.mkdir(folder, { recursive: true });
    await writeContract(paths, contractOf("", ledger));
    const enforcement = await Enforcement.open({
      home,
      paths,
      record: recordOf(id, "v"),
      report: {
        tell() {},
        noteHeads() {},
        set() {},
        change: (change) => {
          if ("network_error" in change) say(`network: ${change.network_error ?? "there"}`);
        },
      },
      onUnrecorded: ({ message }, pause) => say(`${pause ? "pause" : "block"}: ${message}`),
      onRecorded: () => say("recorded"),
      onLifetime() {},
    });
    try {
      await work({ home, paths, enforcement, news });
    } finally {
      await enforcement.close();
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("a network that cannot be opened is told, and so is that it can", () =>
  withEnforcement({}, async ({ home, enforcement, news }) => {
    await openCa(home);
    await Deno.chmod(caFiles(home).key, 0o644);
    assertEquals((await assertRejects(() => enforcement.network.open(), SbxError)).code, "ca.insecure");
    assertEquals(news.length, 1);
    assertStringIncludes(news[0], "ca.key is accessible to other users");
    // Queries of DNS wait for it.
    const waiting = enforcement.network.retry();
    await Deno.chmod(caFiles(home).key, 0o600);
    await waiting;
    assertEquals(news.at(-1), "network: there");
  }));

Deno.test("events name the user that the VM belongs to", () =>
  withEnforcement({}, ({ enforcement }) => {
    const { common: { event_type, source_engine }, process } = execEvent();
    const { common } = enforcement.gate.observe({ common: { event_type, source_engine }, process });
    assertEquals(common.user_id, userName());
    return Promise.resolve();
  }));

Deno.test("a file that the host moves is decided on, and on record", () =>
  withEnforcement({}, async ({ paths, enforcement }) => {
    const ruleOf = (operation: string) =>
      `[profiles.rules.no-${operation}]
action = "block"
match = 'file.activity.operation == "${operation}" && file.activity.path.startsWith("/root/")'
reason = "no ${operation}"
`;
    await writeContract(paths, contractOf(ruleOf("import") + ruleOf("export")));
    await enforcement.refresh();
    for (const operation of ["import", "export"] as const) {
      for (const [path, isRefused] of [["/root/x", true], ["/workspace/x", false]] as const) {
        const { refusal } = await enforcement.decideFile({
          operation,
          path,
          byte_count: 5,
          labels: { client: "c" },
        });
        assertEquals(refusal?.includes(`no-${operation}`) ?? false, isRefused);
      }
    }
  }));

Deno.test("an event that changed rules let go finds the rest of their contract in use", () =>
  withEnforcement({}, async ({ paths, enforcement }) => {
    await writeContract(paths, contractOf(rule("profiles", "ask", "ask", "has(http.request)")));
    await enforcement.refresh();
    const deciding = enforcement.gate.decide(http("a.example")).then((passage) => {
      passage.finish();
      return [passage.allowed, Object.keys(enforcement.services)];
    });
    const contract = contractOf("");
    const web = { command: ["true"], env: {}, after: [], restart: "no" as const, log_mb: 1 };
    await writeContract(paths, { ...contract, profile: { ...contract.profile, services: { web } } });
    await enforcement.refresh();
    assertEquals(await deciding, [true, ["web"]]);
  }));

Deno.test("a contract whose limit the ledger does not take leaves the earlier rules in force", () =>
  withEnforcement({}, async ({ paths, enforcement }) => {
    await enforcement.recording.close();
    const before = enforcement.gate.guestRules;
    await writeContract(
      paths,
      contractOf(rule("profiles", "no", "block", "has(http.request)"), { max_bytes: 500_000 }),
    );
    const { code } = await assertRejects(() => enforcement.refresh(), SbxError);
    assertEquals([code, enforcement.gate.guestRules], ["ledger.unavailable", before]);
  }));

Deno.test("a larger limit reaches a ledger that is full, which then goes on", () =>
  withEnforcement({ on_full: "pause", max_bytes: 500_000 }, async ({ paths, enforcement, news }) => {
    const draft = () => {
      const { common: { event_type, source_engine }, process } = execEvent("x".repeat(20_000));
      return { common: { event_type, source_engine }, process };
    };
    while (news.length === 0) {
      try {
        for (let at = 0; at < 5; at++) enforcement.gate.observe(draft());
      } catch (error) {
        assertEquals((error as SbxError).code, "ledger.unavailable");
      }
      // Until the thread has written the batch, or failed to.
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    assertStringIncludes(news[0], "pause: the ledger");
    assertStringIncludes(news[0], "its size limit is full");
    await writeContract(paths, contractOf("", { on_full: "pause", max_bytes: 40_000_000 }));
    await enforcement.refresh();
    for (let tries = 0; news.length < 2 && tries < 50; tries++) {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    assertEquals(news.slice(1), ["recorded"]);
    enforcement.gate.observe(draft());
  }));

Deno.test("what a VM says of itself: why it is paused, and that it has no network", () => {
  const qemu = new Qemu();
  const vm = (state: Partial<Vm["state"]>): Vm => ({
    record: recordOf(crypto.randomUUID(), "v"),
    paths: {} as Vm["paths"],
    process: {} as Vm["process"],
    state: { state: "Running", boot_stages: [], pid: 1, ...state },
  });
  const errorOf = (of: Vm) => infoOf(of, qemu).last_error;
  assertEquals(errorOf(vm({})), undefined);
  assertEquals(errorOf(vm({ network_error: "no CA" })), "its guest has no network: no CA");
  assertEquals(errorOf(vm({ network_error: "no CA", state: "Stopped" })), undefined);
  const paused = vm({ state: "Paused", last_error: "the ledger l cannot be written" });
  assertEquals(errorOf(paused), "the ledger l cannot be written");
  try {
    requireAction(paused, "exec", qemu);
    throw new Error("it may not run programs");
  } catch (error) {
    const { code, message, hint } = error as SbxError;
    assertEquals([code, message], ["vm.paused", '"v" is paused: the ledger l cannot be written']);
    assertStringIncludes(hint!, "raise ledger.max_size_mb");
  }
});

const KEYS = ["work", "home"].map((label) => ({
  provider: "anthropic",
  secret: `sk-ant-api03-${label.repeat(16)}`,
  label,
}));

Deno.test("a VM that runs gets another key of its provider at once, and keeps the former one where it cannot", () =>
  withEnforcement({}, async ({ home, paths, enforcement }) => {
    const contract = contractOf("");
    await writeContract(paths, { ...contract, profile: { ...contract.profile, providers: ["anthropic"] } });
    const [work, last] = await new CredentialStore(storePath(home)).add(KEYS);
    const record = recordOf(crypto.randomUUID(), "v");
    await writeRecord(paths, record);
    await Deno.mkdir(dirname(paths.socket), { recursive: true });
    let isBroken = false;
    const server = new CallServer(
      Deno.listen({ transport: "unix", path: paths.socket }),
      async (_, { reply }) => {
        if (isBroken) return await reply({ t: "Failed", code: "policy.invalid", message: "it will not" });
        await enforcement.refresh();
        return await reply({ t: "Ok" });
      },
    );
    const state = { state: "Running" };
    const vm = { paths, record, state, process: new VmProcess(paths.socket) } as unknown as Vm;
    const inGuest = async () => (await enforcement.freshEnv()).ANTHROPIC_API_KEY;
    await enforcement.refresh();
    assertEquals(await inGuest(), last.ref);

    await changeCredentials(home, vm, { anthropic: "work" });
    assertEquals([await inGuest(), vm.record.credentials], [work.ref, { anthropic: "work" }]);
    assertEquals((await readRequest(paths, record)).credentials, { anthropic: "work" });
    for (
      const [change, code] of [
        [{ anthropic: "play" }, "credential.not_found"],
        [{ github: "work" }, "credential.not_granted"],
      ] as const
    ) {
      assertEquals((await assertRejects(() => changeCredentials(home, vm, change), SbxError)).code, code);
    }
    isBroken = true;
    const refused = await assertRejects(() => changeCredentials(home, vm, { anthropic: "home" }), SbxError);
    assertEquals(refused.code, "credential.not_active");
    isBroken = false;
    await enforcement.refresh();
    assertEquals([await inGuest(), (await readRecord(paths)).credentials], [work.ref, { anthropic: "work" }]);

    await changeCredentials(home, vm, { anthropic: null });
    assertEquals([await inGuest(), vm.record.credentials], [last.ref, undefined]);
    await server.close();
  }));
