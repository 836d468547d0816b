/** Implication between conditions, decided by their form: a true answer is certain. */
import type { Condition, Probe } from "../engine/condition.ts";
import { lower } from "../engine/lower.ts";

/** Maximum nesting examined, to bound the time for hostile rules. */
const DEPTH_MAX = 8;

/** True if `b` holds wherever `a` holds; false also if that is not evident from the form. */
export function implies(a: Condition, b: Condition, depth = 0): boolean {
  if (depth > DEPTH_MAX) return false;
  const next = depth + 1;
  if (b.kind === "constant") return b.value || (a.kind === "constant" && !a.value);
  if (a.kind === "constant") return !a.value;
  if (b.kind === "and") return b.parts.every((part) => implies(a, part, next));
  if (a.kind === "or") return a.parts.every((part) => implies(part, b, next));
  if (b.kind === "or" && b.parts.some((part) => implies(a, part, next))) return true;
  if (a.kind === "and") return a.parts.some((part) => implies(part, b, next));
  // An absent field makes a test false, not unknown, so the contrapositive holds.
  if (a.kind === "not" && b.kind === "not") return implies(b.part, a.part, next);
  if (a.kind === "test" && b.kind === "test") return testImplies(a, b);
  return false;
}

type Test = Condition & { kind: "test" };

function testImplies(a: Test, b: Test): boolean {
  if (formOf(a) === formOf(b)) return true;
  if (isPresence(b)) return b.strict.length === 1 && a.strict.includes(b.strict[0]);
  const [expected] = b.probes;
  if (isDomain(b)) return a.probes.some((probe) => domainImplies(a, probe, expected));
  return expected !== undefined && isExact(b) && a.probes.some((probe) => probeImplies(probe, expected));
}

const forms = new WeakMap<Test, string>();

/** The test with every grouping written out: equal forms are equal tests. */
function formOf(test: Test): string {
  let form = forms.get(test);
  if (form === undefined) forms.set(test, form = lower(test.node).text);
  return form;
}

/** `has(f)` of one field. */
function isPresence({ node }: Test): boolean {
  return node.op === "call" && node.args[0] === "has";
}

/** True for a test equivalent to its probe; a pattern requires more than its literals. */
function isExact({ node }: Test): boolean {
  return !(node.op === "rcall" && node.args[0] === "matches") && !(node.op === "call");
}

/** `in_domain(f, d)`: stricter than its probe, the suffix d: the text before d must be empty or end in a dot. */
function isDomain({ node, probes }: Test): boolean {
  return node.op === "call" && node.args[0] === "in_domain" && probes.length === 1;
}

function domainImplies(a: Test, { path, op, values }: Probe, expected: Probe): boolean {
  const domain = String(expected.values[0]);
  return path === expected.path && (op === "equals" || op === "suffix") &&
    values.map(String).every((value) =>
      value.endsWith(`.${domain}`) || (value === domain && (op === "equals" || isDomain(a)))
    );
}

function probeImplies(a: Probe, b: Probe): boolean {
  if (a.path !== b.path) return false;
  return a.values.every((value) =>
    b.values.some((expected) => valueImplies(a.op, String(value), b.op, String(expected)))
  );
}

function valueImplies(op: Probe["op"], value: string, expectedOp: Probe["op"], expected: string): boolean {
  switch (expectedOp) {
    case "equals":
      return op === "equals" && value === expected;
    case "prefix":
      return (op === "equals" || op === "prefix") && value.startsWith(expected);
    case "suffix":
      return (op === "equals" || op === "suffix") && value.endsWith(expected);
    case "contains":
      return value.includes(expected);
  }
}
