/** Places that every family and every type of events needs: fields, a draft, a view, and the contracts. */
import { assert, assertEquals } from "@std/assert";
import { EVENT_TYPES } from "../../../lib/event/schema.ts";
import { catalogue, EVENT_FAMILIES, type EventFamily, familyOf } from "../../../lib/event/mod.ts";
import { RESPONDING } from "../../../lib/session/gate/passage.ts";
import { viewOf } from "../../../lib/ledger/schema.ts";
import { fromRoot } from "../../helper/repo.ts";

/**
 * Source file with the draft of each family's events; `undefined`: not built yet
 * (docs/design/contracts/15-open.md §15).
 */
const DRAFTS: Record<EventFamily, string | undefined> = {
  http: "lib/network/exchange/draft.ts",
  dns: "lib/network/dns/service.ts",
  db: "lib/network/database/event.ts",
  sign: "lib/session/signing_tool.ts",
  mcp: "lib/mcp/endpoint/event.ts",
  model: "lib/network/model/call.ts",
  file: undefined,
  process: "lib/session/program.ts",
  credential: "lib/network/exchange/draft.ts",
};

const FIELDS = [...catalogue.keys()];

/** Text between two headings of §5. */
async function contractsSection(from: string, to: string): Promise<string> {
  const text = await Deno.readTextFile(fromRoot("docs/design/contracts/05-policy.md"));
  const [start, end] = [from, to].map((heading) => text.indexOf(`\n## ${heading}\n`));
  assert(start >= 0 && end > start, `§5 has no headings "${from}" and "${to}" in this order`);
  return text.slice(start, end);
}

Deno.test("the reference names every event field and every event type, and §5 what makes each type", async () => {
  const reference = await Deno.readTextFile(fromRoot("docs/reference/event-fields.md"));
  assertEquals(FIELDS.filter((path) => !reference.includes(`\n| \`${path}\` | `)), [], "make docs");
  const row = /^\| `common\.event_type` .*$/m.exec(reference)![0];
  assertEquals(EVENT_TYPES.filter((type) => !row.includes(`\`${type}\``)), [], "make docs");
  const sources = await contractsSection("Sources of events", "Gate");
  for (const type of EVENT_TYPES) {
    assert(
      sources.includes(`\`${type}\``),
      `docs/design/contracts/05-policy.md §5, "Sources of events" lacks ${type}`,
    );
  }
});

for (const family of EVENT_FAMILIES) {
  Deno.test(`family ${family} has fields, types, a draft, a view and a documented object`, async () => {
    assert(
      FIELDS.some((path) => path.startsWith(`${family}.`)),
      "add it to the shape in lib/event/schema.ts",
    );
    const types = EVENT_TYPES.filter((type) => familyOf(type) === family);
    assert(types.length > 0, "add an event type to lib/event/schema.ts");
    const draft = DRAFTS[family];
    if (draft) {
      const text = await Deno.readTextFile(fromRoot(draft));
      assert(
        text.includes(`${family}.`) || text.includes(`${family}: {`),
        `${draft} drafts no ${family} event`,
      );
    }
    const named = (await contractsSection("Event", "Families")).includes(`\`${family}\``);
    assert(named, `add ${family} to the objects of "Event" in docs/design/contracts/05-policy.md §5`);
    const ledger = await Deno.readTextFile(fromRoot("docs/design/contracts/12-ledger.md"));
    assert(
      ledger.includes(`\`${viewOf(family)}\``),
      `add ${viewOf(family)} to docs/design/contracts/12-ledger.md §12, Views`,
    );
    const hasResponse = FIELDS.some((path) => path.startsWith(`${family}.response.`));
    assertEquals(RESPONDING.has(family), hasResponse, "correct RESPONDING in lib/session/gate/passage.ts");
  });
}

Deno.test("every event type belongs to a family", () => {
  assertEquals(EVENT_TYPES.filter((type) => !EVENT_FAMILIES.includes(familyOf(type))), []);
});
