/** A home after some hours of an agent's work, so that each page of the desktop has something to show. */
import { join } from "node:path";
import type { Home } from "../../lib/base/home/mod.ts";
import { type Event, type EventType, newEventId } from "../../lib/event/mod.ts";
import type { Ledger, LedgerDecision, LedgerFinding } from "../../lib/ledger/mod.ts";
import { sessionPaths } from "../../lib/session/mod.ts";
import type { Served } from "./desktop_home.ts";
import { DesktopHome } from "./desktop_home.ts";
import { eventCommon, httpRequest, processExec } from "./event.ts";
import { http, rule } from "./session_gate.ts";

/** Session that is over. */
export const PAST = "00000000-0000-4000-8000-00000000000d";
const MINUTE_MS = 60_000;
const COUNTS = { resource_count: 0, prompt_count: 0, auth_required: false };

/** It waits longer than a busy machine takes for a test. */
const DEPLOY = 'reason = "it goes live"\nask_timeout = 3600';
const RULES = [
  rule("profiles", "no-paste-sites", "block", 'http.request.host == "paste.example"'),
  rule("profiles", "ask-deploy", "ask", 'http.request.host == "deploy.example"', DEPLOY),
].join("\n");

const WHY = {
  allow: { id: "allow-registries", name: "", layer: "profile", reason: "package registries are read" },
  block: { id: "no-paste-sites", name: "", layer: "profile", reason: "nothing is pasted in public" },
} as const;

const PACKAGES = ["vite", "preact", "@preact/signals", "typescript", "playwright-core", "zod", "esbuild"];
const CALLS: [prompt: string, tool: string, args: Record<string, unknown>][] = [
  ["The login page fails on Safari. Find out why and mend it.", "read_file", { path: "src/login.tsx" }],
  ["Run the tests of the login page.", "run", { command: "npm test -- login" }],
  ["Write down in the changelog what changed.", "edit_file", { path: "CHANGELOG.md" }],
];

/** Writes events of one session as they happened, minute after minute. */
class Day {
  constructor(readonly ledger: Ledger, readonly session: string, private at: number) {}

  pass(ms: number): void {
    this.at += ms;
  }

  add(
    type: EventType,
    part: Partial<Event>,
    decision: keyof typeof WHY = "allow",
    findings: Partial<LedgerFinding & { title: string; severity: string }>[] = [],
  ): string {
    const event_id = newEventId();
    const common = eventCommon(type, {
      ...{ session_id: this.session, event_id, timestamp_unix_ms: this.at },
      process: {
        pid: 240,
        ppid: 210,
        executable: "/usr/bin/node",
        command: "npm install",
        cwd: "/workspace",
      },
    });
    this.ledger.append({
      event: { schema_version: 1, common, ...part } as Event,
      decision: {
        ...{ event_id, decision, rule: WHY[decision], matched_fields: [], rewrites: [] },
        ...{ evaluated: 3, near_misses: [] },
      } as LedgerDecision,
      findings: findings.map((each) => ({
        ...{ event_id, pack_id: "sbx", confidence: "high", tags: [] },
        ...each,
        finding_id: `finding-${event_id}-${each.rule_id}`,
      } as unknown as LedgerFinding)),
    });
    return event_id;
  }

  end(event_id: string, response: unknown, duration_ms: number): void {
    this.ledger.end({ event_id, response, duration_ms, first_byte_ms: duration_ms / 2 });
  }

  program(pid: number, ppid: number, command: string, code = 0): void {
    const [executable] = command.split(" ");
    const process = { pid, ppid, executable: `/usr/bin/${executable}`, command, cwd: "/workspace" };
    for (const operation of ["exec", "exit"] as const) {
      const event_id = newEventId();
      const activity = processExec({ ...process, operation, ...operation === "exit" && { exit_code: code } });
      const common = eventCommon(`process.${operation}`, {
        ...{ session_id: this.session, event_id, timestamp_unix_ms: this.at, source_engine: "process" },
        ...{ enforceability: operation === "exec" ? "inline_blockable" : "observe_only", process },
      });
      this.ledger.append({ event: { schema_version: 1, common, process: { activity } } as Event });
    }
  }

  fetch(name: string): void {
    this.add("dns.query", {
      dns: {
        request: { qname: "registry.npmjs.org", qtype: "A", transport: "udp" },
        response: { rcode: "NOERROR", answers: ["104.16.0.35"] },
      },
    });
    const id = this.add("http.request", {
      http: {
        request: httpRequest({
          ...{ host: "registry.npmjs.org", path: `/${name}` },
          headers: { accept: ["application/json"], "user-agent": ["npm/10.9.2 node/v22.12.0"] },
        }),
      },
    });
    const text = JSON.stringify({ name, "dist-tags": { latest: "5.1.0" }, license: "MIT" });
    this.end(id, {
      ...{ status: 200, bytes: text.length, address: "104.16.0.35" },
      headers: { "content-type": ["application/json"], "cache-control": ["public, max-age=300"] },
      body: { state: "text", text, content_type: "application/json", size: text.length, truncated: false },
    }, 40 + name.length * 9);
  }

  call(at: number): void {
    const [prompt, name, args] = CALLS[at % CALLS.length];
    const text = JSON.stringify({
      model: "claude-sonnet-4-5",
      max_tokens: 4096,
      messages: [{ role: "user", content: prompt }],
    });
    const id = this.add("model.call", {
      model: {
        request: {
          ...{ provider: "anthropic", api_family: "messages", model: "claude-sonnet-4-5", stream: true },
          ...{ operation: "chat", messages_count: 1 + at, tools_count: 6 },
          body: {
            state: "text",
            text,
            content_type: "application/json",
            size: text.length,
            truncated: false,
          },
        },
      },
    });
    this.end(id, {
      ...{ status: 200, stop_reason: "tool_use", input_tokens: 2400 + 800 * at, cached_input_tokens: 2000 },
      ...{ output_tokens: 320 + 10 * at, estimated_cost_micros: 9200 + 1200 * at },
      tool_calls: [{ name, arguments: args }],
    }, 2300);
    const tool = this.add("mcp.tool_call", {
      mcp: {
        request: {
          ...{ method: "tools/call", server_name: "files", tool_name: name },
          ...{ namespaced_tool_name: `files__${name}`, arguments: args as Record<string, string> },
        },
      },
    });
    this.end(tool, { is_error: false, content: [{ type: "text", text: "done" }] }, 31);
  }

  upload(): void {
    const text = "customer,card\nada@example.com,4242 4242 4242 4242\n";
    const body = {
      state: "text",
      text,
      content_type: "text/csv",
      size: text.length,
      truncated: false,
    } as const;
    this.add(
      "http.request",
      { http: { request: httpRequest({ method: "POST", host: "paste.example", path: "/new", body }) } },
      "block",
      [{ rule_id: "upload-of-cards", title: "Card numbers in an upload", severity: "high" } as never, {
        ...{ rule_id: "paste-site", title: "A paste site was asked for", severity: "medium" },
      } as never],
    );
  }
}

function work(ledger: Ledger, session: string, end: number): void {
  const day = new Day(ledger, session, end - 56 * MINUTE_MS);
  day.program(210, 1, "bash -l");
  day.program(220, 210, "claude --print");
  for (let round = 0; round < 14; round++) {
    day.pass(3 * MINUTE_MS);
    day.call(round);
    day.program(240 + 3 * round, 220, "npm install", round % 6 === 5 ? 1 : 0);
    day.program(241 + 3 * round, 240 + 3 * round, "node node_modules/esbuild/install.js");
    for (let at = 0; at <= round % 4 * 2; at++) day.fetch(PACKAGES[(round + at) % PACKAGES.length]);
    if (round % 5 === 3) day.upload();
    day.pass(MINUTE_MS);
  }
}

const ESC = "\x1b[";
const SCREEN = [
  `${ESC}32mdev@sbx${ESC}0m:${ESC}34m/workspace${ESC}0m$ npm test -- login`,
  "",
  ` ${ESC}32m✓${ESC}0m login_test.ts ${ESC}2m(12 tests)${ESC}0m`,
  ` ${ESC}31m✗${ESC}0m safari_test.ts ${ESC}2m(3 tests, 1 failed)${ESC}0m`,
  `   ${ESC}31mexpected "signed in", got "signed out"${ESC}0m`,
  "",
  `${ESC}32mdev@sbx${ESC}0m:${ESC}34m/workspace${ESC}0m$ `,
].join("\r\n");

const served: Served = {
  McpListServers: (_, caller) =>
    caller.reply({
      t: "McpServers",
      servers: [
        {
          ...COUNTS,
          name: "local",
          url: "",
          enabled: true,
          source: "builtin",
          connected: true,
          tool_count: 1,
        },
        {
          ...{ ...COUNTS, name: "tickets", url: "https://mcp.example.com/mcp", enabled: true },
          ...{ source: "profile", connected: false, tool_count: 0, auth_required: true },
          last_error: "the server needs a login (HTTP 401)",
        },
      ],
    }),
  McpListTools: (_, caller) => caller.reply({ t: "McpTools", tools: [] }),
  Ports: (_, caller) =>
    caller.reply({
      t: "Ports",
      ports: [
        { guest_port: 5173, host_port: 41873, connections: 2 },
        { guest_port: 8080, host_port: 8080, connections: 0 },
      ],
    }),
  DecideFile: (_, caller) => caller.reply({ t: "FileDecided", event_id: "" }),
  Jobs: (_, caller) => caller.reply({ t: "Jobs", jobs: [] }),
  async Terminal(_, caller) {
    const data = new TextEncoder().encode(SCREEN).toBase64();
    await caller.reply({ t: "Output", stream: "stdout", data });
    while (await caller.input() !== null);
  },
};

/** Makes the home; an ask waits in it. */
export async function makeDay(): Promise<DesktopHome> {
  const now = Date.now();
  const made = await DesktopHome.make({
    rules: RULES,
    serve: served,
    past: [{
      id: PAST,
      name: "review-login",
      write: (ledger) => work(ledger, PAST, now - 26 * 60 * MINUTE_MS),
    }],
    prepare: writeProfile,
  });
  work(made.ledger, made.id, now);
  await made.ledger.flush();
  const { workspace, logs } = sessionPaths(made.home, made.id);
  for (const dir of [join(workspace, "src/pages"), join(workspace, "tests"), logs]) {
    await Deno.mkdir(dir, { recursive: true });
  }
  const files = {
    "package.json": `{\n  "name": "shop",\n  "scripts": { "test": "vitest run" }\n}\n`,
    "README.md": "# Shop\n\nRun it with `npm run dev`.\n",
    "src/login.tsx": 'export const Login = () => <form method="post" />;\n',
  };
  for (const [path, content] of Object.entries(files)) {
    await Deno.writeTextFile(join(workspace, path), content);
  }
  const boot = [
    "[    0.000000] Linux version 6.12.57+deb13-cloud-amd64 (debian-kernel@lists.debian.org)",
    "[    0.412331] virtio_blk virtio1: [vda] 4194304 512-byte logical blocks (2.15 GB/2.00 GiB)",
    "[    0.961220] EXT4-fs (vda): mounted filesystem with ordered data mode.",
  ];
  await Deno.writeTextFile(
    join(logs, "console.log"),
    Array.from({ length: 40 }, (_, at) => boot[at % 3]).join("\n"),
  );
  await Deno.writeTextFile(join(logs, "process.log"), "sbx-process: ready in 412 ms\n");
  // Until the home ends, which ends the ask.
  made.gate.decide(http("deploy.example", "POST")).catch(() => {});
  return made;
}

/** A profile of the user, which has rules. */
async function writeProfile(home: Home): Promise<void> {
  const dir = join(home.profilesDir, "mine");
  await Deno.mkdir(dir, { recursive: true });
  const text = `id = "mine"\nname = "Mine"\ndescription = "for the shop"\nrevision = "1.0.0"\n`;
  await Deno.writeTextFile(join(dir, "profile.toml"), text);
}
