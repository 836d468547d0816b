/** sbx-admin: builds guest images, and writes and checks what releases are made of. */
import { asSbxError, errorBody, type SbxError } from "../../lib/base/error/mod.ts";
import { nearest } from "../../lib/event/mod.ts";
import { usage } from "./arguments.ts";
import { caRotate, caShow } from "./ca.ts";
import type { Command } from "./command.ts";
import { detectionBacktest } from "./detection_backtest.ts";
import { detectionCompile, detectionValidate } from "./detection_pack.ts";
import { detectionPortability } from "./detection_portability.ts";
import { imageBuild } from "./image_build.ts";
import { manifestCheck } from "./manifest_check.ts";
import { manifestGenerate } from "./manifest_generate.ts";
import { policyCheck, policyLint, policyTest } from "./policy.ts";
import { profileValidate } from "./profile_validate.ts";

export const COMMANDS: Command[] = [
  imageBuild,
  manifestGenerate,
  manifestCheck,
  profileValidate,
  policyCheck,
  policyLint,
  policyTest,
  detectionValidate,
  detectionCompile,
  detectionBacktest,
  detectionPortability,
  caShow,
  caRotate,
];

/** Exit codes: 0 done, 1 failed or not ok, 2 a call that cannot be meant, 130 interrupted. */
export async function main(args: string[]): Promise<number> {
  try {
    if (args.length === 0 || args.includes("--help") || args.includes("-h")) return help(args);
    const command = COMMANDS.find(({ name }) => name === args.slice(0, 2).join(" "));
    if (!command) throw unknown(args);
    return await command.run(args.slice(2));
  } catch (cause) {
    return fail(asSbxError(cause, `sbx-admin ${args.slice(0, 2).join(" ")}`), args.includes("--json"));
  }
}

function help(args: string[]): number {
  const words = args.filter((word) => !word.startsWith("-")).slice(0, 2).join(" ");
  const asked = COMMANDS.filter(({ name }) => words !== "" && name.startsWith(words));
  const shown = asked.length > 0 ? asked : COMMANDS;
  console.log("Usage:");
  for (const { name, synopsis, summary } of shown) {
    console.log(`  sbx-admin ${name} ${synopsis}\n      ${summary}`);
  }
  return args.length === 0 ? 2 : 0;
}

function unknown(args: string[]): SbxError {
  const [group, verb] = args;
  const verbs = COMMANDS.filter(({ name }) => name.startsWith(`${group} `))
    .map(({ name }) => name.slice(group.length + 1));
  if (verbs.length && (verb === undefined || verb.startsWith("-"))) {
    return usage(`sbx-admin ${group} needs to be told what to do`, `it can ${verbs.join(", ")}`);
  }
  const words = args.slice(0, 2).join(" ");
  const near = nearest(words, COMMANDS.map(({ name }) => name));
  const known = verbs.length ? `sbx-admin ${group} can ${verbs.join(", ")}` : undefined;
  return usage(`sbx-admin has no command "${words}"`, near ? `did you mean "${near}"?` : known);
}

function fail(error: SbxError, json: boolean): number {
  if (json) console.log(JSON.stringify(errorBody(error)));
  else console.error(`sbx-admin: ${error.message}${error.hint ? `\n  ${error.hint}` : ""}`);
  // A fault of ours: what it was is for whoever mends it.
  if (error.code === "internal") console.error(error.cause);
  if (error.code === "usage.invalid") return 2;
  return error.code === "image.interrupted" ? 130 : 1;
}
