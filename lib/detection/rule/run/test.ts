/** Tests of a plan as functions. */
import { parseAddress, parseCidr } from "../../../base/address/mod.ts";
import type { GlobPart, PlanExpr, PlanTest, TextPosition } from "../plan.ts";
import { compileRegex } from "./regex.ts";
import type { Slot, Texts, View } from "./slot.ts";

export type Check = () => boolean;

/** What compiling an expression needs. */
export interface CheckContext {
  view: View;
  slotOf(on: readonly string[]): Slot;
  /** compiled selections of the rule */
  selections: readonly Check[];
}

/** Compiles an expression. */
export function compileExpr(expr: PlanExpr, context: CheckContext): Check {
  if (typeof expr === "boolean") return () => expr;
  if ("sel" in expr) return context.selections[expr.sel] ?? (() => false);
  if ("not" in expr) {
    const inner = compileExpr(expr.not, context);
    return () => !inner();
  }
  if ("all" in expr) return every(expr.all.map((part) => compileExpr(part, context)));
  if ("any" in expr) return some(expr.any.map((part) => compileExpr(part, context)));
  if ("words" in expr) {
    const checks = expr.words.map((test) => textCheck(test, context.view.words));
    return expr.every ? every(checks) : some(checks);
  }
  const slot = context.slotOf(expr.on);
  if (expr.every) return every(expr.is.map((test) => slotCheck(test, slot, context)));
  return some(
    grouped(expr.is).map((tests) =>
      Array.isArray(tests) ? oneOf(tests, slot) : slotCheck(tests, slot, context)
    ),
  );
}

function every(checks: readonly Check[]): Check {
  if (checks.length === 1) return checks[0];
  if (checks.length === 2) {
    const [a, b] = checks;
    return () => a() && b();
  }
  return () => {
    for (let at = 0; at < checks.length; at++) if (!checks[at]()) return false;
    return true;
  };
}

function some(checks: readonly Check[]): Check {
  if (checks.length === 1) return checks[0];
  return () => {
    for (let at = 0; at < checks.length; at++) if (checks[at]()) return true;
    return false;
  };
}

type Exact = Extract<PlanTest, { t: "text" }>;

/** Number of exact texts from which a set is faster. */
const SET_MIN = 4;

/** Groups exact texts: many of them are one look-up. */
function grouped(tests: readonly PlanTest[]): (PlanTest | Exact[])[] {
  const isExact = (test: PlanTest): test is Exact => test.t === "text" && test.at === "is" && !test.cased;
  const exact = tests.filter(isExact);
  return exact.length < SET_MIN ? [...tests] : [exact, ...tests.filter((test) => !isExact(test))];
}

function oneOf(tests: readonly Exact[], texts: Texts): Check {
  const set = new Set(tests.map(({ text }) => text));
  return () => {
    const { folded } = texts;
    for (let at = 0; at < folded.length; at++) if (set.has(folded[at])) return true;
    return false;
  };
}

function slotCheck(test: PlanTest, slot: Slot, { slotOf }: CheckContext): Check {
  if (test.t === "null") return () => slot.isNull;
  if (test.t === "present") return () => slot.isPresent;
  if (test.t !== "ref") return textCheck(test, slot);
  const other = slotOf(test.on);
  const compare = POSITION[test.at];
  return () => {
    const [mine, theirs] = test.cased ? [slot.texts, other.texts] : [slot.folded, other.folded];
    return mine.some((text) => theirs.some((part) => compare(text, part)));
  };
}

const POSITION: Record<TextPosition, (text: string, part: string) => boolean> = {
  is: (text, part) => text === part,
  has: (text, part) => text.includes(part),
  begins: (text, part) => text.startsWith(part),
  ends: (text, part) => text.endsWith(part),
};

/** Characters of a text that a regular expression sees (docs/design/contracts/14-limits.md §14). */
const REGEX_TEXT_MAX = 65_536;

/** A test that some text passes. */
function textCheck(test: PlanTest, texts: Texts): Check {
  if (test.t === "text" && !test.cased) return FOLDED[test.at](texts, test.text);
  const passes = textTest(test);
  if ("cased" in test && test.cased || test.t === "re") {
    return () => anyText(texts.texts, passes);
  }
  return () => anyText(texts.folded, passes);
}

/**
 * The commonest tests by far, each in one function: closures of a rule are rarely in the processor's caches.
 */
const FOLDED: Record<TextPosition, (texts: Texts, part: string) => Check> = {
  is: (texts, part) => () => {
    const { folded } = texts;
    for (let at = 0; at < folded.length; at++) if (folded[at] === part) return true;
    return false;
  },
  has: (texts, part) => () => {
    const { folded } = texts;
    for (let at = 0; at < folded.length; at++) if (folded[at].includes(part)) return true;
    return false;
  },
  begins: (texts, part) => () => {
    const { folded } = texts;
    for (let at = 0; at < folded.length; at++) if (folded[at].startsWith(part)) return true;
    return false;
  },
  ends: (texts, part) => () => {
    const { folded } = texts;
    for (let at = 0; at < folded.length; at++) if (folded[at].endsWith(part)) return true;
    return false;
  },
};

function anyText(texts: readonly string[], passes: (text: string) => boolean): boolean {
  for (let at = 0; at < texts.length; at++) if (passes(texts[at])) return true;
  return false;
}

function textTest(test: PlanTest): (text: string) => boolean {
  switch (test.t) {
    case "text": {
      const { text } = test;
      const compare = POSITION[test.at];
      return (value) => compare(value, text);
    }
    case "glob":
      return (value) => globMatches(test.parts, value);
    case "re": {
      const regex = compileRegex(test.re, test.flags);
      return (value) => regex.test(value.length > REGEX_TEXT_MAX ? value.slice(0, REGEX_TEXT_MAX) : value);
    }
    case "cidr":
      return cidrTest(test.net);
    case "number":
      return numberTest(test);
    default:
      return () => false;
  }
}

/** Addresses as programs write them: other spellings are texts to Sigma. */
const ADDRESS = /^(\d{1,3}(\.\d{1,3}){3}|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*)$/;

function cidrTest(text: string): (value: string) => boolean {
  const net = parseCidr(text);
  if (!net) return () => false;
  return (value) => {
    const bytes = ADDRESS.test(value) ? parseAddress(value) : undefined;
    if (!bytes || bytes.length !== net.bytes.length) return false;
    for (let bit = 0; bit < net.bits; bit++) {
      const mask = 0x80 >> (bit & 7);
      if ((bytes[bit >> 3] ^ net.bytes[bit >> 3]) & mask) return false;
    }
    return true;
  };
}

/** Tests whether a text is a number. */
export function isNumber(text: string): boolean {
  return /^[-+]?\d+(\.\d+)?([eE][-+]?\d+)?$/.test(text);
}

function numberTest({ op, n }: Extract<PlanTest, { t: "number" }>): (value: string) => boolean {
  const compare: Record<typeof op, (value: number) => boolean> = {
    lt: (value) => value < n,
    lte: (value) => value <= n,
    gt: (value) => value > n,
    gte: (value) => value >= n,
  };
  const holds = compare[op];
  return (value) => isNumber(value) && holds(Number(value));
}

/**
 * Matches a text with `*` and `?`. Each piece between two `*` is found as far left as possible,
 * so that nothing is tried twice.
 */
function globMatches(parts: readonly GlobPart[], text: string): boolean {
  const pieces: (string | 1)[][] = [[]];
  for (const part of parts) {
    if (part === 0) pieces.push([]);
    else pieces.at(-1)!.push(part);
  }
  const lengths = pieces.map((piece) =>
    piece.reduce<number>((sum, part) => sum + (part === 1 ? 1 : part.length), 0)
  );
  const last = pieces.length - 1;
  if (last === 0) return lengths[0] === text.length && pieceAt(pieces[0], text, 0);
  const end = text.length - lengths[last];
  if (end < lengths[0] || !pieceAt(pieces[0], text, 0) || !pieceAt(pieces[last], text, end)) return false;
  let at = lengths[0];
  for (let index = 1; index < last; index++) {
    at = findPiece(pieces[index], text, at, end - lengths[index]);
    if (at < 0) return false;
    at += lengths[index];
  }
  return true;
}

function findPiece(piece: readonly (string | 1)[], text: string, from: number, to: number): number {
  const first = piece.findIndex((part) => part !== 1);
  if (first < 0) return from <= to ? from : -1;
  // `?` before the first literal: that many characters before it.
  const literal = piece[first] as string;
  for (
    let at = text.indexOf(literal, from + first);
    at >= 0 && at - first <= to;
    at = text.indexOf(literal, at + 1)
  ) {
    if (pieceAt(piece, text, at - first)) return at - first;
  }
  return -1;
}

function pieceAt(piece: readonly (string | 1)[], text: string, from: number): boolean {
  let at = from;
  for (const part of piece) {
    if (part === 1) {
      if (at >= text.length) return false;
      at++;
    } else {
      if (!text.startsWith(part, at)) return false;
      at += part.length;
    }
  }
  return true;
}
