/**
 * Changes of a ledger that `sbx verify` finds without the help of a seal, and those that only a seal shows.
 */
import { assertEquals, assertMatch } from "@std/assert";
import type { Event } from "../../../lib/event/mod.ts";
import { digestText } from "../../../lib/ledger/chain.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { verifyLedger } from "../../../lib/ledger/read/mod.ts";
import {
  copyLedger,
  execEvent,
  runSql,
  select,
  SESSION,
  withLedgerPath,
  writeEvents,
} from "../../helper/ledger.ts";

/**
 * A ledger with a finding, two answers to one ask and decisions on every event, left
 * open unless it keeps its seal.
 */
async function writeOpenLedger(path: string, keepsSeal = false): Promise<void> {
  const ledger = await Ledger.open(path, { sessionId: SESSION });
  for (const number of [1, 2, 3, 4]) {
    const event = execEvent(`echo ${number}`);
    const { event_id } = event.common;
    ledger.append({
      event,
      decision: { decision: number === 2 ? "block" : "allow", rule: { id: "r" } },
      findings: [{ finding_id: `finding-${number}`, event_id, rule_id: "r" }],
      rows: [{ table: "approvals", record: { ask_id: "ask", event_id } }, {
        table: "body_blobs",
        bytes: new Uint8Array([number]),
      }],
    });
    ledger.end({ event_id });
  }
  await ledger.close();
  if (!keepsSeal) await Deno.remove(`${path}.seal`);
}

/** Takes the decision from an event. */
const UNDECIDE =
  "UPDATE entries SET decision = NULL, rule_id = NULL, record = NULL, record_hash = NULL WHERE sequence = 2";
const WITHOUT_RECORD = /^the event has a decision without a record$/;

const UNSEALED: [string, string, RegExp][] = [
  [
    "a decision taken from an event",
    UNDECIDE,
    /prev_hash is not the hash of the event before/,
  ],
  [
    "a finding gone",
    "DELETE FROM findings WHERE finding_id = 'finding-2'",
    /row finding-2 of findings is missing/,
  ],
  [
    "a finding gone with its row of the journal",
    "DELETE FROM findings WHERE finding_id = 'finding-2'; DELETE FROM journal WHERE id = 'finding-2'",
    /row of the journal 2 is missing/,
  ],
  [
    "a finding added",
    "INSERT INTO findings SELECT 'finding-x', event_id, rule_id, replace(finding, 'finding-1', 'finding-x'), hash FROM findings LIMIT 1",
    /row finding-x of findings was changed/,
  ],
  ["an answer gone", "DELETE FROM approvals", /row ask of approvals is missing/],
  [
    "an older answer in the place of a later one",
    "UPDATE approvals SET event_id = (SELECT event_id FROM entries LIMIT 1), record = json_set(record, '$.event_id', (SELECT event_id FROM entries LIMIT 1)), hash = (SELECT hash FROM journal WHERE kind = 'approval' ORDER BY number LIMIT 1)",
    /row ask of approvals was (added or )?changed/,
  ],
  ["a body gone", "DELETE FROM body_blobs WHERE rowid = 3", /^row [0-9a-f]{64} of body_blobs is missing$/],
  [
    "a body changed",
    "UPDATE body_blobs SET bytes = x'09' WHERE rowid = 1",
    /^body [0-9a-f]{64} was changed$/,
  ],
  [
    "a column of a finding",
    "UPDATE findings SET rule_id = 'x' WHERE finding_id = 'finding-1'",
    /^row finding-1 of findings was changed$/,
  ],
  [
    "the text of a finding",
    "UPDATE findings SET finding = json_set(finding, '$.severity', 'low') WHERE finding_id = 'finding-1'",
    /^row finding-1 of findings was changed$/,
  ],
  [
    "a decision record",
    "UPDATE entries SET record = replace(record, 'block', 'allow') WHERE sequence = 2",
    /^record_hash does not match the decision record$/,
  ],
  [
    "the column of a decision",
    "UPDATE entries SET decision = 'allow' WHERE sequence = 2",
    /^column decision differs from the decision record$/,
  ],
  [
    "the column of a rule",
    "UPDATE entries SET rule_id = 'x' WHERE sequence = 2",
    /^column rule_id differs from the decision record$/,
  ],
  ["the columns of a decision without its record", UNDECIDE.replace("decision = NULL, ", ""), WITHOUT_RECORD],
  ["the column of a rule without its record", UNDECIDE.replace("rule_id = NULL, ", ""), WITHOUT_RECORD],
  ["a hash of a record without it", UNDECIDE.replace(", record_hash = NULL", ""), WITHOUT_RECORD],
  [
    "a row of the journal",
    "UPDATE journal SET hash = 'x' WHERE number = 2",
    /^a row of the journal was changed$/,
  ],
  [
    "a row of the journal with its link",
    "UPDATE journal SET prev_hash = 'x' WHERE number = 2",
    /^prev_hash is not the hash of the row of the journal before$/,
  ],
  ["the owner", "DELETE FROM ledger_info", /^the ledger does not say which session it belongs to$/],
  [
    "the ids of the events",
    "UPDATE entries SET event_id = 'x'; DELETE FROM outcomes",
    /^column event_id differs from the event$/,
  ],
];
Deno.test("verify names a change in a ledger without a seal", (t) =>
  withLedgerPath(async (path) => {
    await writeOpenLedger(path);
    assertEquals(await verifyLedger(path), { ok: true, events: 4, sealed: false });
    for (const [what, statement, reason] of UNSEALED) {
      await t.step(what, async () => {
        const copy = await copyLedger(path);
        await runSql(copy, statement);
        const { ok, first_bad } = await verifyLedger(copy);
        assertEquals(ok, false);
        assertMatch(first_bad!.reason, reason);
      });
    }
  }));

Deno.test("an event that is forged with its hash is compared with its columns and its ledger", (t) =>
  withLedgerPath(async (path) => {
    await writeEvents(path, 2);
    await Deno.remove(`${path}.seal`);
    const [row] = await select(path, "SELECT event, prev_hash FROM entries WHERE sequence = 2");
    const forgeries: [reason: string, forge: (event: Event) => string][] = [
      ["the event is not canonical JSON", (event) => JSON.stringify(event, undefined, 1)],
      ["the event is not canonical JSON", () => "no JSON"],
      ["the event is not canonical JSON", () => "{}"],
      [
        "column sequence differs from the event",
        ({ common, ...rest }) => JSON.stringify({ common: { ...common, sequence: 3 }, ...rest }),
      ],
      [
        "the event is one of session x",
        ({ common, ...rest }) => JSON.stringify({ common: { ...common, session_id: "x" }, ...rest }),
      ],
      [
        "column event_type differs from the event",
        ({ common, ...rest }) =>
          JSON.stringify({ common: { ...common, event_type: "process.exit" }, ...rest }),
      ],
    ];
    for (const [reason, forge] of forgeries) {
      await t.step(reason, async () => {
        const copy = await copyLedger(path);
        const text = forge(JSON.parse(String(row.event)));
        const hash = digestText(text, String(row.prev_hash));
        await runSql(
          copy,
          `UPDATE entries SET event = '${text.replaceAll("'", "''")}', hash = '${hash}' WHERE sequence = 2`,
        );
        const { events, first_bad } = await verifyLedger(copy);
        assertEquals([events, first_bad?.sequence, first_bad?.reason], [1, 2, reason]);
      });
    }
  }));

Deno.test("rows of events that are not there are found, with their event", (t) =>
  withLedgerPath(async (path) => {
    const event_id = "0".repeat(12);
    const rows: [table: string, add: (ledger: Ledger) => void][] = [
      ["outcomes", (ledger) => ledger.end({ event_id })],
      ["findings", (ledger) => ledger.add({ findings: [{ finding_id: "f", event_id, rule_id: "r" }] })],
      [
        "approvals",
        (ledger) => ledger.add({ rows: [{ table: "approvals", record: { ask_id: "a", event_id } }] }),
      ],
    ];
    for (const [table, add] of rows) {
      await t.step(table, async () => {
        {
          await using ledger = await Ledger.open(`${path}.${table}`, { sessionId: SESSION });
          add(ledger);
        }
        assertEquals((await verifyLedger(`${path}.${table}`)).first_bad, {
          event_id,
          reason: `${table} has a row of an event that is not there`,
        });
      });
    }
    const folder = "0d9f4a1e-8f5c-4d57-9e6b-1f2a3b4c5d6e";
    assertEquals((await verifyLedger(`${path}.outcomes`, folder)).first_bad, {
      reason: `the ledger is that of session ${SESSION}, not of ${folder}`,
    });
  }));

Deno.test("a seal that differs from its ledger is found, whatever differs", (t) =>
  withLedgerPath(async (path) => {
    await writeOpenLedger(path, true);
    const seal = JSON.parse(await Deno.readTextFile(`${path}.seal`));
    const cases: [change: Record<string, unknown> | string, reason: string | undefined][] = [
      [{}, undefined],
      ["{", "the seal is damaged"],
      [{ session_id: "x" }, "the seal is that of session x"],
      [{ session_id: undefined }, undefined],
      [{ events: 5 }, "the ledger was sealed with 5 events and has 4"],
      [{ head_hash: "x" }, "the ledger was sealed with 4 events and has 4"],
      [{ outcomes: 5 }, "the ledger was sealed with 5 outcomes and has 4"],
      [{ outcome_hash: "x" }, "the ledger was sealed with 4 outcomes and has 4"],
      [{ journal: 13 }, "the ledger was sealed with 13 findings, answers and bodies and has 12"],
      [{ journal_hash: "x" }, "the ledger was sealed with 12 findings, answers and bodies and has 12"],
      [{ journal: undefined, journal_hash: undefined }, undefined],
      [{ file_hash: "x" }, "bytes of the file outside any event differ from the sealed ones"],
      [{ file_hash: undefined }, undefined],
    ];
    for (const [change, reason] of cases) {
      await t.step(JSON.stringify(change), async () => {
        const text = typeof change === "string" ? change : JSON.stringify({ ...seal, ...change });
        await Deno.writeTextFile(`${path}.seal`, text);
        assertEquals(await verifyLedger(path), {
          ok: reason === undefined,
          events: 4,
          sealed: true,
          ...(reason !== undefined && { first_bad: { reason } }),
        });
      });
    }
  }));
