/** The work of several VMs side by side, and a task that is typed into a terminal. */
import { assertEquals, assertThrows } from "@std/assert";
import { type Compared, formatChoice, formatCompared, parsePick } from "../../../cmd/sbx/start/compare.ts";
import { pasted } from "../../../cmd/sbx/start/send.ts";

const COST = {
  calls: 0,
  input_tokens: 0,
  cached_input_tokens: 0,
  output_tokens: 0,
  usd: 0,
  unpriced_calls: 0,
  estimated_calls: 0,
};

function compared(vm: string, more: Partial<Compared> = {}): Compared {
  const report = { live: false, refused: [], unanswered: [], cost: COST, budgets: [] };
  return { vm, status: "Running", commits: 0, files: [], findings: 0, report, ...more };
}

const file = (
  path: string,
  added?: number,
  removed?: number,
  status: "added" | "modified" | "deleted" = "modified",
) => ({
  path,
  status,
  old_id: "a",
  new_id: "b",
  ...added !== undefined && { added, removed },
});

const lines = (text: string) => text.split("\n").map((line) => line.split(/ {2,}/));

Deno.test("a VM a column: files, tests, refusals and cost, and rows only where a VM has something", () => {
  const one = compared("one", {
    test: { exit_code: 0, seconds: 3.2 },
    files: [file("src/a.ts", 10, 2), file("new.bin", undefined, undefined, "added")],
    commits: 2,
  });
  const refused = [{ subject: "http.request GET x", times: 3 }, { subject: "dns.query y", times: 1 }];
  const two = compared("two", {
    test: { exit_code: 1, seconds: 4 },
    files: [file("src/a.ts", 1, 0)],
    report: { live: false, refused, unanswered: [], cost: { ...COST, calls: 2, usd: 0.5 }, budgets: [] },
    findings: 1,
  });
  assertEquals(lines(formatCompared([one, two])), [
    ["", "one", "two"],
    ["test", "passed, 3.2 s", "failed (1), 4 s"],
    ["changed", "2 files +10 -2", "1 file +1 -0"],
    ["commits", "2", "0"],
    ["findings", "0", "1"],
    ["refused", "0", "4"],
    ["model calls", "0", "2"],
    ["cost", "$0.5000"],
    ["new.bin", "added binary"],
    ["src/a.ts", "+10 -2", "+1 -0"],
  ]);
});

Deno.test("names of files are a guest's: what would act on the terminal is shown escaped", () => {
  const text = formatCompared([compared("one", { files: [file("a\x1b[2Jb", 1, 0)] }), compared("two")]);
  assertEquals(text.includes("\x1b"), false);
});

Deno.test("the commands that follow name the VM whose tests alone passed, else the first with changes", () => {
  const passed = { test: { exit_code: 0, seconds: 1 }, files: [file("a", 1, 0)] };
  const failed = { test: { exit_code: 1, seconds: 1 }, files: [file("a", 1, 0)] };
  const named = (...all: Compared[]) => formatChoice(all).match(/^sbx pull (\S+)/)![1];
  assertEquals(named(compared("one", failed), compared("two", passed)), "two");
  assertEquals(named(compared("one"), compared("two", passed), compared("three", passed)), "two");
  assertEquals(named(compared("one"), compared("two")), "NAME");
});

Deno.test("a task of several lines is one paste, whose end it cannot forge", () => {
  assertEquals(pasted("fix it"), "fix it");
  assertEquals(pasted("a\nb"), "\x1b[200~a\nb\x1b[201~");
  assertEquals(pasted("a\x1b[201~\nrm\r\x03"), "\x1b[200~a[201~\nrm\x1b[201~");
});

Deno.test("a pick names a VM of the comparison, a path, and pieces by number", () => {
  const names = ["one", "two"];
  assertEquals(parsePick("one:src/a.ts", names), { vm: "one", path: "src/a.ts" });
  const shown = "5f0c7be21a90d4e3";
  assertEquals(parsePick(`two:a.ts:1,3,1@${shown}`, names), {
    vm: "two",
    path: "a.ts",
    pieces: [1, 3],
    shown,
  });
  assertEquals(parsePick(`one:a:b:2@${shown}`, names), { vm: "one", path: "a:b", pieces: [2], shown });
  assertEquals(parsePick(`one:a@b@${shown}`, names), { vm: "one", path: "a@b", shown });
  assertEquals(parsePick("one:a@b", names), { vm: "one", path: "a@b" });
  assertEquals(parsePick("one:a:0", names), { vm: "one", path: "a:0" });
  for (const text of ["", "one", "one:", ":a", "three:a", "one:a:2", "one:a:1,3"]) {
    assertThrows(() => parsePick(text, names), Error, "--pick");
  }
});
