/**
 * The incident of docs/guides/fleet.md through JetStream and ClickHouse, with the commands that its page has:
 * ledgers of four machines from three weeks ago, one receiver. What the commands print is what the page says,
 * but for ids and times. PRINT=1 prints it.
 */
import { assert, assertEquals } from "@std/assert";
import type { Event } from "../../lib/event/mod.ts";
import { checkFleet } from "../../lib/fleet/receive/mod.ts";
import { NatsTarget, Shipper } from "../../lib/fleet/ship/mod.ts";
import { openRecords } from "../../lib/fleet/table/mod.ts";
import type { LedgerEntry } from "../../lib/ledger/mod.ts";
import { readHeads } from "../../lib/ledger/read/mod.ts";
import { ClickHouseProcess } from "../helper/clickhouse_server.ts";
import { eventCommon, httpRequest } from "../helper/event.ts";
import { record } from "../helper/fleet.ts";
import { NatsServer } from "../helper/nats.ts";
import { arrived, enrolled, pause } from "../helper/pulling.ts";
import { ReceiverProcess } from "../helper/receiver_process.ts";
import { fromRoot } from "../helper/repo.ts";

const BEGIN = Date.now() - 21 * 86_400_000;
const REF = `credential:blake3:${"a1".repeat(32)}`;
const session = (at: number) => `0192f0c1-2222-7333-8444-5555aaaa000${at}`;

function web(at: number, seconds: number, host: string, path: string, method = "GET", bytes = 0): Event {
  const common = eventCommon("http.request", {
    session_id: session(at),
    timestamp_unix_ms: BEGIN + seconds * 1000,
  });
  return {
    schema_version: 1,
    common,
    http: { request: httpRequest({ host, path, method, bytes } as never) },
  } as Event;
}

function credential(at: number, seconds: number, host: string): Event {
  const common = eventCommon("credential.substitution", {
    session_id: session(at),
    timestamp_unix_ms: BEGIN + seconds * 1000,
  });
  return {
    schema_version: 1,
    common,
    credential: {
      substitution: {
        provider: "github",
        credential_ref: REF,
        host,
        location: "authorization",
        outcome: "injected",
      },
    },
  } as unknown as Event;
}

const PACKAGE = "/left-pad/-/left-pad-1.3.1.tgz";
const allow = { decision: "allow", rule: { id: "allow-web" } };
const block = { decision: "block", rule: { id: "only-known-hosts" } };

/** What four machines did: one fetched another package, one was stopped by a rule, two sent something. */
const MACHINES: { name: string; team: string; entries: LedgerEntry[] }[] = [
  { name: "laptop-1", team: "search", entries: [{ event: web(1, 0, "registry.example.com", "/react") }] },
  {
    name: "laptop-2",
    team: "payments",
    entries: [
      { event: web(2, 10, "registry.example.com", PACKAGE), decision: allow },
      { event: credential(2, 12, "api.github.com"), decision: allow },
      { event: web(2, 13, "api.github.com", "/user/repos"), decision: allow },
      { event: web(2, 15, "evil.example.net", "/c", "POST", 48_211), decision: allow },
    ],
  },
  {
    name: "laptop-3",
    team: "payments",
    entries: [
      { event: web(3, 3600, "registry.example.com", PACKAGE), decision: allow },
      { event: web(3, 3605, "evil.example.net", "/c", "POST", 212), decision: block },
    ],
  },
  {
    name: "ci-7",
    team: "build",
    entries: [
      { event: web(4, 7200, "registry.example.com", PACKAGE), decision: allow },
      { event: web(4, 7203, "evil.example.net", "/c", "POST", 1_930), decision: allow },
    ],
  },
];

Deno.test("a package was malicious three weeks ago: which machines, which secrets, what left", async () => {
  const dir = await Deno.makeTempDir();
  const store = `${dir}/fleet`;
  await using nats = await NatsServer.start();
  await using clickhouse = await ClickHouseProcess.start();
  const receiver = await new ReceiverProcess(store, ["--from", nats.url, "--clickhouse", clickhouse.url])
    .ready();
  for (const [at, { name, team, entries }] of MACHINES.entries()) {
    const key = await enrolled(store, name, team);
    const path = `${dir}/${name}.db`;
    await record(path, session(at + 1), entries);
    const target = new NatsTarget(nats.url);
    const shipper = new Shipper({ dir: `${dir}/cursors/${name}`, key, target });
    for (let isSent = false; !isSent; await pause(50)) {
      isSent = await shipper.ship(session(at + 1), path).then(() => true, () => false);
    }
    const heads = await readHeads(path);
    await shipper.end(session(at + 1), heads, false);
    await shipper.report({ kind: "alive", sbx: "1", sessions: [] });
    await target.close();
    await arrived(store, key, session(at + 1), path);
  }
  const all = MACHINES.reduce((sum, { entries }) => sum + entries.length, 0);
  for (;; await pause(200)) {
    const over = await openRecords(clickhouse.url).catch(() => undefined);
    const [row] = await over?.engine.rows(
      `SELECT (SELECT count() FROM ${over.table!("events")}) AS events,
        (SELECT count() FROM ${over.table!("machines")}) AS machines`,
    ) ?? [];
    if (row?.events === all && row.machines === MACHINES.length) break;
  }
  for (;; await pause(100)) {
    const { machines } = await checkFleet(store);
    if (machines.every(({ sessions }) => sessions.every(({ state }) => state === "complete"))) break;
  }
  const page = await Deno.readTextFile(fromRoot("docs/guides/fleet.md"));
  const section = page.slice(page.indexOf("### The same through JetStream and ClickHouse"));
  const blocks = [...section.slice(0, section.indexOf("\n## ")).matchAll(/^```\n(\$ [^]*?)^```$/gm)];
  const commands = blocks.flatMap(([, text]) => text.split(/^(?=\$ )/m));
  const places: Record<string, string> = {
    "/srv/fleet": store,
    "clickhouse://ch.example.com": clickhouse.url,
    "SESSION": session(2),
    "malicious-package.pack.yaml": fromRoot("docs/guides/examples/malicious-package.pack.yaml"),
  };
  for (const block of commands) {
    const [first, ...lines] = block.split("\n");
    let words = first.slice(2);
    for (const [name, place] of Object.entries(places)) words = words.replaceAll(name, place);
    const [program, ...args] = words.split(" ");
    const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", "--quiet", fromRoot("main.ts")]
        .concat(program === "sbx-admin" ? ["admin", ...args] : args),
      env: { SBX_HOME: `${dir}/home` },
    }).output();
    const said = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    if (Deno.env.get("PRINT")) console.log(`${first}\n${said}`);
    else assertEquals(masked(said), masked(lines.join("\n")), first);
  }
  assert(commands.length >= 6, "the page has the commands");
  await receiver.kill();
  await Deno.remove(dir, { recursive: true });
});

/**
 * Without what differs each time: ids, times, the order by ids, and the spaces of
 * columns that are as wide as those.
 */
function masked(text: string): string {
  const plain = text.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME")
    .replaceAll(/\b[0-9a-f]{16}\b/g, "MACHINE").replaceAll(/(?<!-)\b[0-9a-f]{12}\b/g, "EVENT")
    .replaceAll(/ +/g, " ").replaceAll(/ $/gm, "").trim();
  return plain.split("\n").sort().join("\n");
}
