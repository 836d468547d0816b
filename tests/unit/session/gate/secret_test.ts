/**
 * Secrets in what programs and tools are called with: they are used, and nobody keeps them
 * (docs/design/contracts/09-credentials.md §9).
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { readEvents, readWhy } from "../../../../lib/ledger/read/mod.ts";
import type { Draft } from "../../../../lib/policy/mod.ts";
import { added, KEY, world } from "../../../helper/credential.ts";
import { processExec } from "../../../helper/event.ts";
import { ANY, rule, withGate } from "../../../helper/session_gate.ts";

const LINE = `curl -H "x-api-key: ${KEY.anthropic}" https://api.anthropic.com`;
const exec: Draft = {
  common: { event_type: "process.exec", source_engine: "process" },
  process: {
    activity: processExec({ executable: "sh", command: `sh -c ${LINE}`, argv: ["sh", "-c", LINE] }),
  },
};
const call: Draft = {
  common: { event_type: "mcp.tool_call", source_engine: "mcp" },
  mcp: {
    request: {
      method: "tools/call",
      server_name: "files",
      tool_name: "write",
      namespaced_tool_name: "files__write",
      arguments: { text: `the key is ${KEY.mcp}`, other: KEY.github },
    },
  },
};

for (const action of ["allow", "ask", "block"]) {
  Deno.test(
    `${action}: a secret in a command or an argument reaches its program and nothing that is kept or told`,
    world(added, async ({ open, refs }) => {
      const broker = await open();
      const rules =
        rule("profiles", "all", action, `${ANY} && process.activity.command.contains("x-api-key")`) +
        rule("profiles", "tools", action, `${ANY} && mcp.request.arguments.text.contains("key")`);
      await withGate(
        rules,
        async ({ gate, ledger, path, notices }) => {
          const deciding = [gate.decide(exec), gate.decide(call)];
          for (const { ask_id } of gate.asks.pending()) {
            gate.asks.resolve(ask_id, { decision: "allow", scope: "once" });
          }
          const [program, tool] = await Promise.all(deciding);
          assertEquals(program.allowed, action !== "block");
          assertEquals(program.event.process!.activity.argv[2], LINE);
          assertEquals(tool.event.mcp!.request.arguments, call.mcp!.request.arguments);
          tool.finish({
            response: { is_error: false, content: [{ type: "text", text: KEY.openai }] },
          });
          await ledger.flush();
          const { events } = await readEvents(path);
          const records = await Promise.all(
            events.map(({ common }) => readWhy(path, common.event_id)),
          );
          const kept = JSON.stringify([events, records, notices, program.decision, tool.decision]);
          for (const secret of Object.values(KEY)) assert(!kept.includes(secret), secret);
          assertStringIncludes(events[0].process!.activity.command, refs.anthropic);
          assertStringIncludes(JSON.stringify(events[1].mcp!.request.arguments), refs.mcp);
        },
        undefined,
        (value) => broker.scrubValue(value),
      );
    }),
  );
}
