/** Files that count only while no other user has changed or read them. */
import { assertEquals } from "@std/assert";
import { accessProblem, type AccessTerms } from "../../../lib/base/home/mod.ts";

const ME = Deno.uid()!;
const SECRET: AccessTerms = { keep: "secret" }, RULES: AccessTerms = { keep: "unchanged" };

const CASES: [what: string, uid: number, mode: number, terms: AccessTerms, problem?: string][] = [
  ["a secret of this user", ME, 0o600, SECRET],
  ["a secret that others may read", ME, 0o644, SECRET, "can be read by other users (mode 0644)"],
  ["a secret that others may write", ME, 0o602, SECRET, "can be changed by other users (mode 0602)"],
  ["rules that others may read", ME, 0o644, RULES],
  ["rules that a group may write", ME, 0o664, RULES, "can be changed by other users (mode 0664)"],
  ["a secret of another user", ME + 7, 0o600, SECRET, "belongs to another user"],
  [
    "a secret of another user, where root's would do",
    ME + 7,
    0o600,
    { keep: "secret", root: "owns" },
    "belongs to another user",
  ],
  ["root's secret that all may read, where that is root's decision", 0, 0o644, {
    keep: "secret",
    root: "shares",
  }],
  [
    "root's secret that all may read",
    0,
    0o644,
    { keep: "secret", root: "owns" },
    "can be read by other users (mode 0644)",
  ],
  [
    "root's secret that all may write",
    0,
    0o666,
    { keep: "secret", root: "shares" },
    "can be changed by other users (mode 0666)",
  ],
];
for (const [what, uid, mode, terms, problem] of CASES) {
  Deno.test(`access: ${what}`, () => {
    assertEquals(accessProblem("/f", { isFile: true, uid, mode: 0o100000 | mode }, terms)?.problem, problem);
  });
}

Deno.test("access: a folder is no file", () => {
  assertEquals(
    accessProblem("/f", { isFile: false, uid: ME, mode: 0o700 }, SECRET)?.problem,
    "is not a file",
  );
});
