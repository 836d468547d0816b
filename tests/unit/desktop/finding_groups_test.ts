/** Findings that a person reads as one row. */
import { assertEquals } from "@std/assert";
import { groupsOf, requestsOf } from "../../../cmd/desktop/page/vm/findings/group.ts";
import { FINDINGS_MAX } from "../../../lib/client/api/detection.ts";

const closed = [{ status: "closed" as const, at: "", by: { user: "ann", client: "" } }];
const finding = (finding_id: string, more: Record<string, unknown> = {}) => ({
  ...{ finding_id, session_id: "s", rule_id: "paste", title: "A paste", subject: "POST paste.example" },
  ...more,
} as Parameters<typeof groupsOf>[0][number]);
const ids = (...findings: Parameters<typeof groupsOf>[0]) => groupsOf(findings).map(({ ids }) => ids);

Deno.test("one rule about one subject is one row, its newest first", () => {
  assertEquals(
    ids(finding("3", { group: "3" }), finding("2", { group: "1" }), finding("1", { group: "1" })),
    [[
      "3",
      "2",
      "1",
    ]],
  );
  // Findings of one lookup differ in their subjects.
  assertEquals(
    ids(finding("2", { group: "1", subject: "AAAA" }), finding("1", { group: "1", subject: "A" })),
    [[
      "2",
      "1",
    ]],
  );
});

Deno.test("another rule, subject, session or state is another row, and so is one without a subject", () => {
  const others = [{ rule_id: "x" }, { subject: "x" }, { session_id: "x" }, { title: "x" }, {
    states: closed,
  }, { decision: { outcome: "blocked" } }];
  for (const other of others) {
    assertEquals(ids(finding("2", other), finding("1")), [["2"], ["1"]], JSON.stringify(other));
  }
  assertEquals(ids(finding("2", { subject: undefined }), finding("1", { subject: undefined })), [["2"], [
    "1",
  ]]);
});

Deno.test("a row has one outcome and one verdict: the ones that it shows are those of all its findings", () => {
  const as = (verdict: string) => ({ states: [{ ...closed[0], verdict }] });
  assertEquals(ids(finding("2", as("accepted")), finding("1", as("true-positive"))), [["2"], ["1"]]);
  assertEquals(ids(finding("2", as("accepted")), finding("1", as("accepted"))), [["2", "1"]]);
  assertEquals(
    ids(
      finding("3", { decision: { outcome: "blocked" } }),
      finding("2", { decision: { outcome: "allowed" } }),
      finding("1"),
    ),
    [
      ["3"],
      ["2"],
      ["1"],
    ],
  );
});

Deno.test("a row of more findings than a request takes is changed by several", () => {
  const ids = Array.from({ length: 2 * FINDINGS_MAX + 1 }, (_, at) => String(at));
  assertEquals(requestsOf(ids).map(({ length }) => length), [FINDINGS_MAX, FINDINGS_MAX, 1]);
  assertEquals(requestsOf(ids).flat(), ids);
  assertEquals(requestsOf(["1"]), [["1"]]);
});
