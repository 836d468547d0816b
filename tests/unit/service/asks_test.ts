/** Asks of several running VMs: one inbox, whose answers reach the VM that asks. */
import { assertEquals, assertRejects } from "@std/assert";
import { Hono } from "hono";
import { userInfo } from "node:os";
import { join } from "node:path";
import { routePolicy } from "../../../cmd/service/routes/policy.ts";
import { errorBody, SbxError } from "../../../lib/base/error/mod.ts";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { type Call, CallServer, type ReplyTo } from "../../../lib/session/ipc/mod.ts";
import { AskInbox, openBoard } from "../../../lib/service/contract/asks.ts";
import type { Service } from "../../../lib/service/mod.ts";
import { Registry } from "../../../lib/service/vm/registry.ts";
import type { Vm } from "../../../lib/service/vm/vm.ts";
import { VmProcess } from "../../../lib/service/vm/vm_process.ts";
import { recordOf } from "../../helper/vm.ts";

type Ask = ReplyTo<"Resolve">["ask"];

function askOf(session_id: string, ask_id: string, second: number): Ask {
  return {
    ask_id,
    digest: `digest of ${ask_id}`,
    session_id,
    event_id: "0123456789ab",
    event_type: "http.request",
    subject: "GET https://a.example/",
    rule_id: "r",
    reason: "r",
    created_at: `2026-01-01T00:00:0${second}.000Z`,
    expires_at: "2026-01-01T00:01:00.000Z",
    status: "pending",
  };
}

Deno.test("the inbox lists the asks of all VMs that reply, oldest first, and sends an answer to the right one", async () => {
  const dir = await Deno.makeTempDir();
  const registry = new Registry(homeOf({ get: () => dir }));
  const answers: Call[] = [];
  /** Adds a VM whose process has these asks; without asks nothing listens. */
  const addVm = (id: string, asks?: Ask[], decided: Ask[] = []) => {
    const socket = join(dir, `${id.slice(0, 8)}.sock`);
    registry.add({
      record: recordOf(id, id.slice(0, 8)),
      paths: {} as Vm["paths"],
      process: new VmProcess(socket),
      state: { state: "Running", boot_stages: [], pid: 1 },
    });
    if (!asks) return undefined;
    return new CallServer(Deno.listen({ transport: "unix", path: socket }), (call, caller) => {
      if (call.t === "AsksInForce") {
        const answer = { decision: "allow", scope: "session" } as const;
        const standing = asks.map((ask) => ({ ...ask, answer, resolved_at: ask.created_at }));
        return caller.reply({ t: "AsksInForce", asks: standing });
      }
      if (call.t === "Withdraw") {
        answers.push(call);
        const answer = { decision: "allow", scope: "session" } as const;
        const ask = asks.find(({ ask_id }) => ask_id === call.ask_id)!;
        return caller.reply({ t: "Withdrawn", ask: { ...ask, answer, resolved_at: ask.created_at } });
      }
      if (call.t !== "Resolve") return caller.reply({ t: "Asks", asks, decided });
      answers.push(call);
      return caller.reply({ t: "Ask", ask: { ...asks[0], status: "allowed" } });
    });
  };
  const [one, two, silent] = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()];
  const servers = [
    addVm(one, [askOf(one, "ask-2", 2), askOf(one, "ask-3", 3)]),
    addVm(two, [askOf(two, "ask-1", 1)], [askOf(two, "ask-4", 4)]),
    addVm(silent),
  ];
  try {
    const inbox = new AskInbox(registry);
    assertEquals((await inbox.list()).map(({ ask_id }) => ask_id), ["ask-1", "ask-2", "ask-3"]);
    const answer = { decision: "allow", scope: "minutes", minutes: 5, digest: "digest of ask-1" } as const;
    // Over the API, so that the record names the user and the program that answers.
    const app = new Hono();
    routePolicy(app, { asks: inbox, registry } as Service, () => Promise.resolve(""));
    app.onError((error) => Response.json(errorBody(error as SbxError), { status: 400 }));
    const resolve = (body: unknown) =>
      app.request("/asks/ask-1/resolve", {
        method: "POST",
        headers: { "content-type": "application/json", "user-agent": "sbx/0.1.0" },
        body: JSON.stringify(body),
      });
    const blind = await (await resolve({ decision: "allow", scope: "once" })).json();
    assertEquals([blind.code, blind.error, answers], ["request.invalid", "digest: is missing", []]);
    const response = await resolve(answer);
    assertEquals((await response.json()).status, "allowed");
    const by = { user: userInfo().username, client: "sbx/0.1.0" };
    assertEquals(answers, [{ t: "Resolve", ask_id: "ask-1", ...answer, by }]);
    const { asks, unreadable } = await (await app.request("/asks/in-force")).json();
    assertEquals(asks.map(({ ask_id, vm }: { ask_id: string; vm: string }) => [ask_id, vm]), [
      ["ask-1", two.slice(0, 8)],
      ["ask-2", one.slice(0, 8)],
      ["ask-3", one.slice(0, 8)],
    ]);
    assertEquals(unreadable, [silent]);
    const withdraw = async (id: string) =>
      await (await app.request(`/asks/in-force/${id}`, {
        method: "DELETE",
        headers: { "user-agent": "sbx/0.1.0" },
      })).json();
    assertEquals((await withdraw("ask-3")).vm, one.slice(0, 8));
    assertEquals(answers.at(-1), { t: "Withdraw", ask_id: "ask-3", by });
    assertEquals((await withdraw("ask-9")).code, "ask.not_found");
    assertEquals(answers.length, 2);
    // The client that saved the rule which decided it answers next.
    await inbox.resolve("ask-4", answer, by);
    assertEquals(answers.at(-1), { t: "Resolve", ask_id: "ask-4", ...answer, by });
    const error = await assertRejects(() => inbox.resolve("ask-9", answer, by), SbxError);
    assertEquals(error.code, "ask.not_found");
  } finally {
    for (const server of servers) await server?.close();
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("notifications of asks load the desktop's board", async () => {
  const board = await openBoard();
  assertEquals(typeof board.show, "function");
});
