/** Which conditions follow from which others, as far as their form shows it. What is answered is certain. */
import { type Condition, conditionText, type Probe } from "../engine/condition.ts";

/** Deepest nesting that is looked into, so that hostile rules cost no time. */
const DEPTH_MAX = 8;

/** Whether wherever `a` holds `b` holds too; false also where it is not plain to see. */
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
  if (conditionText(a) === conditionText(b)) return true;
  if (isPresence(b)) return b.strict.length === 1 && a.strict.includes(b.strict[0]);
  const [wanted] = b.probes;
  if (isDomain(b)) return a.probes.some((probe) => domainImplies(a, probe, wanted));
  return wanted !== undefined && isWhole(b) && a.probes.some((probe) => probeImplies(probe, wanted));
}

/** `has(f)` of one field. */
function isPresence({ node }: Test): boolean {
  return node.op === "call" && node.args[0] === "has";
}

/** Whether the test is no more than its probe: a pattern is more than the texts that it requires. */
function isWhole({ node }: Test): boolean {
  return !(node.op === "rcall" && node.args[0] === "matches") && !(node.op === "call");
}

/** `in_domain(f, d)`: its probe is the suffix d, but what stands before d is empty or ends in a dot. */
function isDomain({ node, probes }: Test): boolean {
  return node.op === "call" && node.args[0] === "in_domain" && probes.length === 1;
}

function domainImplies(a: Test, { path, op, values }: Probe, wanted: Probe): boolean {
  const domain = String(wanted.values[0]);
  return path === wanted.path && (op === "equals" || op === "suffix") &&
    values.map(String).every((value) =>
      value.endsWith(`.${domain}`) || (value === domain && (op === "equals" || isDomain(a)))
    );
}

function probeImplies(a: Probe, b: Probe): boolean {
  if (a.path !== b.path) return false;
  return a.values.every((value) =>
    b.values.some((wanted) => valueImplies(a.op, String(value), b.op, String(wanted)))
  );
}

function valueImplies(op: Probe["op"], value: string, wantedOp: Probe["op"], wanted: string): boolean {
  switch (wantedOp) {
    case "equals":
      return op === "equals" && value === wanted;
    case "prefix":
      return (op === "equals" || op === "prefix") && value.startsWith(wanted);
    case "suffix":
      return (op === "equals" || op === "suffix") && value.endsWith(wanted);
    case "contains":
      return value.includes(wanted);
  }
}
