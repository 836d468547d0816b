/** Files of a session: only those with every field right are read, and the error names the field. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { DetectionIr } from "../../../lib/detection/mod.ts";
import {
  type Contract,
  readContract,
  readRecord,
  readState,
  writeContract,
  writeRecord,
  writeState,
} from "../../../lib/session/mod.ts";
import { recordOf } from "../../helper/vm.ts";
import type { Parsed } from "../../helper/json.ts";

const PACK: DetectionIr = {
  schema: "sbx.detection.ir.v1",
  pack_id: "user.paste",
  pack_version: "1.0.0",
  pack_status: "active",
  owner: "user",
  rules: [{
    id: "paste",
    source_id: "paste",
    title: "Upload to a paste site",
    event_family: "http",
    condition: "selection",
    matchers: [{
      field_path: "http.request.host",
      operator: "equals_any",
      values: ["paste.example"],
      sigma_field: "cs-host",
    }],
    severity: "high",
    confidence: "medium",
    tags: ["exfil"],
  }],
};

/** A contract with a value in every field. */
const FULL: Contract = {
  profile: {
    rules: [{
      id: "no-paste",
      layer: "profile",
      name: "no-paste",
      action: "rewrite",
      match: "true",
      enabled: true,
      priority: 10,
      detection_level: "high",
      reason: "no uploads",
      rewrite: [{ op: "strip_header", path: "authorization" }],
      file: "/p/profile.toml",
      line: 3,
      match_line: 5,
    }],
    packs: [PACK],
    mcp: {
      docs: {
        name: "Docs",
        url: "https://docs.example/mcp",
        args: [],
        headers: { "x-team": "a" },
        builtin: false,
        enabled: true,
      },
    },
    providers: ["anthropic"],
  },
  corp: { rules: [], packs: [], mcp: { docs: { enabled: false } } },
  detection: { user: [PACK], runtime: [PACK] },
  network: {
    resolvers: ["192.0.2.1"],
    overrides: ["a.example=127.0.0.1:1"],
    extra_ca_file: "/ca.pem",
    price_file: "/prices.json",
  },
  ledger: {
    on_full: "block",
    max_bytes: 1024,
    url: "https://collect.example",
    auth_token_file: "/token",
  },
};

async function inDir(work: (dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await work(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("a contract is read as it was written", () =>
  inDir(async (dir) => {
    const paths = { contract: join(dir, "contract.json") };
    await writeContract(paths, FULL);
    assertEquals(await readContract(paths), FULL);
    assertEquals(((await Deno.stat(paths.contract)).mode ?? 0) & 0o777, 0o600);
  }));

Deno.test("an equal contract is not written again, whatever the order of its keys", () =>
  inDir(async (dir) => {
    const paths = { contract: join(dir, "contract.json") };
    await writeContract(paths, FULL);
    const { ino } = await Deno.stat(paths.contract);
    const reordered = Object.fromEntries(Object.entries(FULL).reverse()) as unknown as Contract;
    await writeContract(paths, reordered);
    assertEquals((await Deno.stat(paths.contract)).ino, ino);
    await writeContract(paths, { ...FULL, detection: { user: [], runtime: [] } });
    assertEquals((await readContract(paths)).detection.user, []);
  }));

/** Changes of {@linkcode FULL} at a path, and the end of the message. */
const WRONG: [string, (contract: Parsed) => void, string][] = [
  ["an unknown key at the top", (c) => c.more = 1, "more: unknown key"],
  ["a misspelt key", (c) => {
    c.ledger.on_ful = c.ledger.on_full;
  }, 'ledger.on_ful: unknown key; did you mean "on_full"?'],
  ["a missing layer", (c) => delete c.corp, "corp: is missing"],
  ["a missing list", (c) => delete c.profile.packs, "profile.packs: is missing"],
  ["a layer of the wrong type", (c) => c.corp = [], "corp: must be an object"],
  ["a number as text", (c) => c.ledger.max_bytes = "1024", "ledger.max_bytes: must be a number"],
  ["another reaction to a full ledger", (c) => {
    c.ledger.on_full = "ignore";
  }, 'ledger.on_full: must be one of "pause", "block"'],
  ["a rule with another action", (c) => {
    c.profile.rules[0].action = "permit";
  }, 'profile.rules[0].action: must be one of "block", "ask", "rewrite", "allow", "observe"'],
  [
    "a rule without a layer",
    (c) => delete c.profile.rules[0].layer,
    "profile.rules[0].layer: must be one of",
  ],
  [
    "a rule with an unknown key",
    (c) => c.profile.rules[0].actoin = "x",
    "profile.rules[0].actoin: unknown key",
  ],
  ["a detection on an unknown field", (c) => {
    c.detection.user[0].rules[0].matchers[0].field_path = "http.request.hots";
  }, "detection.user[0].rules[0].matchers[0].field_path: "],
  ["an MCP server with a secret header", (c) => {
    c.profile.mcp.docs.headers = { authorization: "x" };
  }, "profile.mcp.docs.headers.authorization: "],
  ["an unknown provider", (c) => c.profile.providers = ["other"], "profile.providers[0]: is not a provider"],
];
for (const [what, change, message] of WRONG) {
  Deno.test(`a contract with ${what} is refused by the path of the field`, () =>
    inDir(async (dir) => {
      const paths = { contract: join(dir, "contract.json") };
      const contract = JSON.parse(JSON.stringify(FULL));
      change(contract);
      await Deno.writeTextFile(paths.contract, JSON.stringify(contract));
      const error = await assertRejects(() => readContract(paths), SbxError, message);
      assertEquals([error.code, error.message.startsWith(`the contract ${paths.contract} is invalid: `)], [
        "session.contract",
        true,
      ]);
      await Deno.remove(paths.contract);
      const refused = await assertRejects(() => writeContract(paths, contract), SbxError, message);
      assertEquals(refused.code, "session.contract");
      await assertRejects(() => Deno.lstat(paths.contract), Deno.errors.NotFound);
    }));
}

Deno.test("a contract that is truncated, empty or missing is refused", () =>
  inDir(async (dir) => {
    const paths = { contract: join(dir, "contract.json") };
    const refuse = async (message: string) => {
      const { code } = await assertRejects(() => readContract(paths), SbxError, message);
      assertEquals(code, "session.contract");
    };
    await refuse("cannot be read");
    const text = JSON.stringify(FULL);
    for (const length of [0, 1, text.length / 2, text.length - 1]) {
      await Deno.writeTextFile(paths.contract, text.slice(0, length));
      await refuse("is not JSON");
    }
    await Deno.writeTextFile(paths.contract, "null");
    await refuse("is invalid: must be an object");
  }));

Deno.test("a record and a state with an unknown key are refused", () =>
  inDir(async (dir) => {
    const paths = { record: join(dir, "vm.json"), state: join(dir, "state.json") };
    const record = recordOf(crypto.randomUUID(), "v");
    const state = { state: "Stopped", boot_stages: [{ name: "ready", ms: 1 }], pid: 1 } as const;
    assertEquals(await readState(paths), undefined);
    await writeRecord(paths as never, record);
    await writeState(paths as never, { ...state, boot_stages: [...state.boot_stages] });
    assertEquals(await readRecord(paths), record);
    assertEquals(await readState(paths), { ...state, boot_stages: [...state.boot_stages] });
    await Deno.writeTextFile(paths.record, JSON.stringify({ ...record, root: true }));
    await Deno.writeTextFile(
      paths.state,
      JSON.stringify({ ...state, boot_stages: [{ name: "a", ms: 1, of: 2 }] }),
    );
    const wrongRecord = await assertRejects(() => readRecord(paths), SbxError, "root: unknown key");
    const wrongState = await assertRejects(
      () => readState(paths),
      SbxError,
      "boot_stages[0].of: unknown key",
    );
    assertEquals([wrongRecord.code, wrongState.code], ["session.record", "session.state"]);
  }));
