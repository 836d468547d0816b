/** Whatever starts a program or calls a tool, the record has the trace that the request claims. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { eventually, type Sbx } from "../helper/sbx.ts";
import type { DecidedEvent } from "../../lib/event/mod.ts";

const PARENT = "00f067aa0ba902b7";

/** Steps for a running VM `dev` of a profile. */
export async function traceSteps(t: Deno.TestContext, sbx: Sbx, profile: string): Promise<void> {
  /** @returns text messages until its end, with that */
  const socket = async (path: string, traceparent: string, first?: string) => {
    const url = `${sbx.base.replace("http", "ws")}${path}${path.includes("?") ? "&" : "?"}token=${sbx.token}`;
    const ws = new WebSocket(url, { headers: { traceparent } });
    const said: string[] = [];
    ws.onmessage = ({ data }) => void (typeof data === "string" && said.push(data));
    if (first !== undefined) ws.onopen = () => ws.send(first);
    const { code, reason } = await new Promise<CloseEvent>((resolve) => ws.onclose = resolve);
    return [...said, `closed: ${code} ${reason}`].join("\n");
  };
  const post = async (path: string, traceparent: string, json: unknown) => {
    const response = await sbx.fetch(path, { method: "POST", json, headers: { traceparent } });
    assertEquals(response.status, 200, await response.text());
  };
  const argv = (word: string) => ["/bin/true", word];
  const ways: [string, (traceparent: string, word: string) => Promise<void>][] = [
    ["exec", (parent, word) => post("/vms/dev/exec", parent, { command: argv(word) })],
    ["job", (parent, word) => post("/vms/dev/jobs", parent, { command: argv(word) })],
    ["tty job", (parent, word) => post("/vms/dev/jobs", parent, { command: argv(word), tty: true })],
    [
      "terminal",
      async (parent, word) =>
        void await socket(`/terminal/dev?argv=${encodeURIComponent(JSON.stringify(argv(word)))}`, parent),
    ],
    [
      "piped",
      async (parent, word) => {
        const said = await socket("/program/dev", parent, JSON.stringify({ command: argv(word) }));
        assertStringIncludes(said, `"exit_code":0`);
      },
    ],
    ["mcp", (parent) =>
      post(`/profiles/${profile}/mcp/servers/local/tools/snapshot_list/call`, parent, {
        arguments: {},
        vm: "dev",
      })],
  ];

  await t.step("jobs, terminals, piped programs and tool calls have the trace of their request", async () => {
    for (const [at, [way, start]] of ways.entries()) {
      const trace = `${at + 1}`.padStart(32, "a");
      await start(`00-${trace}-${PARENT}-01`, trace);
      const found = async () => {
        const { events }: { events: DecidedEvent[] } = JSON.parse(await sbx.ok("events", "dev", "--json"));
        return events.map(({ common }) => common).filter(({ actor, trace_id }) =>
          actor === "host" && trace_id === trace
        ).map(({ event_type }) => event_type);
      };
      const expected = way === "mcp" ? ["mcp.tool_call"] : ["process.exec", "process.exit"];
      await eventually(
        `${way} is recorded with its trace`,
        async () => (await found()).length >= expected.length,
      );
      assertEquals(await found(), expected, way);
    }
  });
}
