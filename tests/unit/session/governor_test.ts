/** What a session says of itself when something that it needs is not there, and when it is again. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { dirname } from "node:path";
import { caFiles, openCa } from "../../../lib/ca/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type Home, home as homeOf } from "../../../lib/base/home/mod.ts";
import { execEvent } from "../../helper/ledger.ts";
import { contractOf } from "../../helper/session_gate.ts";
import { recordOf } from "../../helper/vm.ts";
import { Governor } from "../../../lib/session/governor.ts";
import { sessionPaths, writeContract } from "../../../lib/session/mod.ts";
import { infoOf, requireAction, type Vm } from "../../../lib/service/vm.ts";
import { Qemu } from "../../../lib/vm/mod.ts";

interface Session {
  home: Home;
  paths: ReturnType<typeof sessionPaths>;
  governor: Governor;
  /** what it said of its ledger and of its network, in order */
  said: string[];
}

async function withGovernor(
  ledger: Parameters<typeof contractOf>[1],
  work: (session: Session) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir();
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const id = crypto.randomUUID();
  const paths = sessionPaths(home, id);
  const said: string[] = [];
  const say = (what: string) => {
    said.push(what);
    return Promise.resolve();
  };
  try {
    for (const folder of [paths.dir, dirname(paths.ledger)]) await Deno.mkdir(folder, { recursive: true });
    await writeContract(paths, contractOf("", ledger));
    const governor = await Governor.open({
      home,
      paths,
      record: recordOf(id, "v"),
      tell() {},
      onUnrecorded: ({ message }, pause) => say(`${pause ? "pause" : "block"}: ${message}`),
      onRecorded: () => say("recorded"),
      onNetwork: (problem) => void say(`network: ${problem ?? "there"}`),
    });
    try {
      await work({ home, paths, governor, said });
    } finally {
      await governor.close();
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("a network that cannot be opened is told, and so is that it can", () =>
  withGovernor({}, async ({ home, governor, said }) => {
    await openCa(home);
    await Deno.chmod(caFiles(home).key, 0o644);
    assertEquals((await assertRejects(() => governor.network(), SbxError)).code, "ca.insecure");
    assertEquals(said.length, 1);
    assertStringIncludes(said[0], "ca.key is open to others");
    // Queries of DNS wait for it.
    const waiting = governor.awaitNetwork();
    await Deno.chmod(caFiles(home).key, 0o600);
    await waiting;
    assertEquals(said.at(-1), "network: there");
  }));

Deno.test("a larger limit reaches a ledger that is full, which then goes on", () =>
  withGovernor({ on_full: "pause", max_bytes: 400_000 }, async ({ paths, governor, said }) => {
    const draft = () => {
      const { common: { event_type, source_engine }, process } = execEvent("x".repeat(20_000));
      return { common: { event_type, source_engine }, process };
    };
    while (said.length === 0) {
      for (let at = 0; at < 5; at++) governor.gate.observe(draft());
      await governor.gate.ledger.flush().catch(() => {});
    }
    assertStringIncludes(said[0], "pause: the ledger");
    assertStringIncludes(said[0], "its size limit is full");
    await writeContract(paths, contractOf("", { on_full: "pause", max_bytes: 40_000_000 }));
    await governor.refresh();
    for (let tries = 0; said.length < 2 && tries < 50; tries++) {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    assertEquals(said.slice(1), ["recorded"]);
    governor.gate.observe(draft());
  }));

Deno.test("what a VM says of itself: why it is paused, and that it has no network", () => {
  const qemu = new Qemu();
  const vm = (state: Partial<Vm["state"]>): Vm => ({
    record: recordOf(crypto.randomUUID(), "v"),
    paths: {} as Vm["paths"],
    state: { state: "Running", boot_stages: [], pid: 1, ...state },
  });
  const errorOf = (of: Vm) => infoOf(of, qemu).last_error;
  assertEquals(errorOf(vm({})), undefined);
  assertEquals(errorOf(vm({ network_error: "no CA" })), "its guest has no network: no CA");
  assertEquals(errorOf(vm({ network_error: "no CA", state: "Stopped" })), undefined);
  const paused = vm({ state: "Paused", last_error: "the ledger l cannot be written" });
  assertEquals(errorOf(paused), "the ledger l cannot be written");
  try {
    requireAction(paused, "exec", qemu.features);
    throw new Error("it may not run programs");
  } catch (error) {
    const { code, message, hint } = error as SbxError;
    assertEquals([code, message], ["vm.paused", '"v" is paused: the ledger l cannot be written']);
    assertStringIncludes(hint!, "raise ledger.max_size_mb");
  }
});
