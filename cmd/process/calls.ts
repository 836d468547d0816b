import type { Call, Caller } from "../../lib/ipc/mod.ts";
import type { Runner } from "../../lib/session/mod.ts";
import { serveTerminal } from "./terminal.ts";
import { serveWatch } from "./watch.ts";

/** Answers one call of the service. */
export async function answer(runner: Runner, call: Call, caller: Caller): Promise<void> {
  switch (call.t) {
    case "Boot":
      await runner.boot(call.accelerator);
      return caller.reply({ t: "Info", info: runner.info });
    case "Info":
      return caller.reply({ t: "Info", info: runner.info });
    case "Watch":
      return serveWatch(runner, caller);
    case "Exec": {
      // Input that ends without its End frame is a caller that went away: its program goes too.
      const gone = new AbortController();
      const outcome = await runner.exec(call, {
        output: (stream, data) => caller.reply({ t: "Output", stream, data }).catch(() => gone.abort()),
        input: async () => {
          const input = await caller.input();
          if (input === null) gone.abort();
          return input?.t === "Data" ? input.data : null;
        },
      }, gone.signal);
      return caller.reply({ t: "Exited", ...outcome });
    }
    case "Terminal":
      return serveTerminal(runner, call, caller);
    case "AwaitFile":
      await runner.awaitFile(call.path, call.size);
      return caller.reply({ t: "Ok" });
    case "Asks":
      return caller.reply({ t: "Value", value: (await runner.governor).asks() });
    case "Resolve": {
      const { t: _, ask_id, ...answer } = call;
      return caller.reply({ t: "Value", value: (await runner.governor).resolve(ask_id, answer) });
    }
    case "Counters":
      return caller.reply({ t: "Value", value: (await runner.governor).gate.counters() });
    case "McpListServers":
      return caller.reply({ t: "Value", value: await (await mcpOf(runner)).listServers() });
    case "McpListTools":
      return caller.reply({ t: "Value", value: await (await mcpOf(runner)).listTools() });
    case "McpRefreshTools":
      await (await runner.governor).refresh({ mcp: true });
      return caller.reply({ t: "Ok" });
    case "McpCallTool": {
      const mcp = await mcpOf(runner);
      return caller.reply({ t: "Value", value: await mcp.callTool(call.name, call.arguments) });
    }
    case "McpRecheck":
      (await mcpOf(runner)).recheck();
      return caller.reply({ t: "Ok" });
    case "Refresh":
      await (await runner.governor).refresh();
      return caller.reply({ t: "Ok" });
    case "Pause":
      await runner.pause();
      return caller.reply({ t: "Info", info: runner.info });
    case "Resume":
      await runner.resume();
      return caller.reply({ t: "Info", info: runner.info });
    case "Stop":
      await runner.stop(call.force);
      return caller.reply({ t: "Info", info: runner.info });
  }
}

async function mcpOf(runner: Runner) {
  return await (await runner.governor).mcp();
}
