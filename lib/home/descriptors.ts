/** Descriptors of gRPC that a profile names, and the rules on fields that only they know. */
import { dirname, resolve } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import type { Profile } from "../config/profile/mod.ts";
import type { MessageRead, Rule } from "../policy/mod.ts";

/** Most problems in one error. */
const PROBLEMS_SHOWN = 10;

/** A rule that reads a field which no descriptor has. */
interface FieldProblem {
  rule: Rule;
  /** offset in its match */
  at: number;
  message: string;
}

/**
 * Reads the descriptors of a profile.
 *
 * @returns a `FileDescriptorSet` in base64; `undefined` for a profile that names none
 * @throws {SbxError} `profile.invalid`: names the file and its fault
 */
export async function descriptorsOf(
  { grpc, path }: Pick<Profile, "grpc" | "path">,
): Promise<string | undefined> {
  if (!grpc) return undefined;
  const { loadDescriptors } = await import("../network/grpc/mod.ts");
  const folder = path === undefined ? "." : dirname(path);
  return (await loadDescriptors(grpc.descriptors.map((file) => resolve(folder, file)))).toBase64();
}

/**
 * Finds the fields of messages in rules that no descriptor has.
 *
 * @param descriptors of {@linkcode descriptorsOf}
 */
export async function fieldProblems(
  rules: readonly Rule[],
  descriptors: string | undefined,
): Promise<FieldProblem[]> {
  // Of most profiles no rule has the word.
  const candidates = rules.filter(({ match }) => match.includes("grpc"));
  if (candidates.length === 0) return [];
  const { MESSAGE, messageReads } = await import("../policy/mod.ts");
  const found = candidates.flatMap((rule) => messageReads(rule).map((read) => ({ rule, ...read })));
  if (found.length === 0) return [];
  const problemOf = await checker(descriptors);
  return found.flatMap(({ rule, at, ...read }) => {
    const problem = problemOf(read);
    return problem === undefined
      ? []
      : [{ rule, at, message: `${[MESSAGE, ...read.steps].join(".")}: ${problem}` }];
  });
}

async function checker(
  descriptors: string | undefined,
): Promise<(read: Pick<MessageRead, "steps">) => string | undefined> {
  if (descriptors === undefined) {
    return () => 'the profile has no descriptors; name them: [grpc] descriptors = ["FILE"]';
  }
  const { openTypes } = await import("../network/grpc/mod.ts");
  const types = await openTypes(Uint8Array.fromBase64(descriptors));
  return ({ steps }) => types.problem(steps);
}

/** Refuses rules on fields that no descriptor has. @throws {SbxError} `policy.invalid` */
export async function requireFields(rules: readonly Rule[], descriptors: string | undefined): Promise<void> {
  const problems = await fieldProblems(rules, descriptors);
  if (problems.length === 0) return;
  const { rulePlace } = await import("../policy/mod.ts");
  const lines = problems.map(({ rule, at, message }) => `${rulePlace(rule, at)}: ${message}`);
  const more = lines.length - PROBLEMS_SHOWN;
  throw new SbxError(
    "policy.invalid",
    lines.slice(0, PROBLEMS_SHOWN).join("\n") + (more > 0 ? `\n… and ${more} more` : ""),
    { hint: "docs/guides/grpc.md says how rules read messages" },
  );
}
