/** Records that a person removes: not one of a VM, nor one that corp or its collectors still need. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { isHeld, type RemovalParts, removeSession } from "../../../lib/service/record/removal.ts";

const ID = "0192f0c1-2222-7333-8444-5555aaaa0001";
const NOW = Date.UTC(2026, 0, 31);
const BY = { user: "ann", client: "sbx" };

/** Parts of a home with one session that ended ten days ago. */
function partsWith(
  { hold, days, isCollected = true, ...more }:
    & { hold?: string[]; days?: number | null; isCollected?: boolean }
    & Partial<RemovalParts> = {},
) {
  const removed: string[] = [];
  // Corp switches a setting off without a value of its own, which locks none.
  const isOff = days === null;
  const leaf = { corp_locked: !isOff, enabled: !isOff, effective_value: days ?? 30 };
  const entry = isOff ? { enabled: false } : { value: days };
  const ofCorp = days === undefined ? {} : { "vm.resources.retention_days": entry };
  const parts = {
    corp: { state: { status: "ok", config: { file: { settings: ofCorp, corp: { records: { hold } } } } } },
    settings: {
      resolved: { byId: new Map(days === undefined ? [] : [["vm.resources.retention_days", leaf]]) },
    },
    registry: { all: () => [] },
    bin: { list: () => Promise.resolve([]) },
    fleet: { release: () => Promise.resolve(true), isSent: () => Promise.resolve(true) },
    feeds: { release: () => Promise.resolve(true), isSent: () => Promise.resolve(true) },
    sessions: {
      get: (id: string) =>
        Promise.resolve(
          id === ID
            ? { id, name: "demo", profile_id: "code", user: "ann", ended_at: "2026-01-21T00:00:00.000Z" }
            : undefined,
        ),
      isCollected: () => Promise.resolve(isCollected),
      remove: (id: string) => {
        removed.push(id);
        return Promise.resolve({ events: 3, bytes: 4096 });
      },
    },
    ...more,
  } as unknown as RemovalParts;
  return { parts, removed };
}

const away = { release: () => Promise.resolve(false), isSent: () => Promise.resolve(false) };
const CASES: [string, Parameters<typeof partsWith>[0], string][] = [
  ["of a VM", { registry: { all: () => [{ record: { id: ID, name: "demo" } }] } as never }, "session.in_use"],
  [
    "of a VM that can be restored",
    { bin: { list: () => Promise.resolve([{ id: ID }]) } as never },
    "session.in_use",
  ],
  ["that corp holds by its id", { hold: [`session:${ID}`] }, "corp.hold"],
  ["that corp holds by its profile", { hold: ["profile:code"] }, "corp.hold"],
  ["that corp holds by its user", { hold: ["user:ann"] }, "corp.hold"],
  ["while corp holds all", { hold: ["all"] }, "corp.hold"],
  ["while corp.toml cannot be read", { corp: { state: { status: "closed" } } as never }, "corp.hold"],
  ["within corp's retention", { days: 30 }, "corp.retention"],
  ["where corp removes none", { days: null }, "corp.retention"],
  ["that the fleet lacks", { fleet: away }, "session.not_sent"],
  ["that a sink lacks", { feeds: away }, "session.not_sent"],
  ["that corp's server of ledgers lacks", { isCollected: false }, "session.not_sent"],
];
for (const [what, change, code] of CASES) {
  Deno.test(`a record ${what} is not removed`, async () => {
    const { parts, removed } = partsWith(change);
    const error = await assertRejects(() => removeSession(parts, ID, BY, NOW), SbxError);
    assertEquals([error.code, removed], [code, []]);
    assert(error.hint);
    assert(!error.message.includes("Infinity"));
  });
}

Deno.test("a record past corp's retention is removed, and one that is not there is named", async () => {
  const { parts, removed } = partsWith({ days: 9, hold: ["profile:other", "user:bob"] });
  assertEquals(await removeSession(parts, ID, BY, NOW), { id: ID, name: "demo", events: 3, bytes: 4096 });
  assertEquals(removed, [ID]);
  const error = await assertRejects(() => removeSession(parts, crypto.randomUUID(), BY, NOW), SbxError);
  assertEquals(error.code, "session.not_found");
});

Deno.test("a record whose maker or profile is unknown is held with ones that corp holds by them", () => {
  const held = (hold: string[], entry: Partial<Parameters<typeof isHeld>[1]>) =>
    isHeld(partsWith({ hold }).parts.corp.state, { id: ID, ...entry });
  // The index was rebuilt from ledgers, which name no user.
  assert(held(["user:ann"], { profile_id: "code" }));
  assert(held(["profile:code"], { profile_id: "unknown", user: "bob" }));
  assert(held(["profile:code"], {}));
  assert(!held(["user:ann"], { profile_id: "code", user: "bob" }));
  assert(!held(["session:0192f0c1-2222-7333-8444-5555aaaa0002"], { profile_id: "unknown" }));
});

Deno.test("no record is held without corp", () => {
  assertEquals(isHeld({ status: "absent" }, { id: ID }), false);
});
