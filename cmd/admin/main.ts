/** sbx-admin: builds guest images, and creates and checks the parts of releases. */
import { brief, formatJson, note, print } from "../../lib/base/print/mod.ts";
import {
  type CommandGroup,
  dispatch,
  formatOverview,
  hasJsonOption,
  unknownCommand,
} from "../../lib/base/args/mod.ts";
import { asSbxError, errorBody } from "../../lib/base/error/mod.ts";
import { isLogged } from "../../lib/base/log/mod.ts";
import { VERSION } from "../../lib/base/version/mod.ts";
import { caRotate, caShow } from "./ca.ts";
import {
  detectionBacktest,
  detectionCompile,
  detectionPortability,
  detectionSql,
  detectionValidate,
} from "./detection.ts";
import { FLEET } from "./fleet/mod.ts";
import { imageBuild } from "./image_build.ts";
import { manifestCheck, manifestGenerate } from "./manifest_check.ts";
import { policyCheck, policyLint, policyTest } from "./policy.ts";
import { profileValidate } from "./profile_validate.ts";
import { PROGRAM } from "./program.ts";
import { RELEASE } from "./release/mod.ts";
import { PACKAGE } from "./package/mod.ts";

export const COMMANDS: CommandGroup[] = [
  { name: "image", summary: "build guest images", subcommands: [imageBuild] },
  {
    name: "manifest",
    summary: "generate and check manifests of assets",
    subcommands: [manifestGenerate, manifestCheck],
  },
  { name: "profile", summary: "validate profiles", subcommands: [profileValidate] },
  {
    name: "policy",
    summary: "check, lint and test rules",
    subcommands: [policyCheck, policyLint, policyTest],
  },
  {
    name: "detection",
    summary: "validate, compile and test detection packs",
    subcommands: [detectionValidate, detectionCompile, detectionBacktest, detectionPortability, detectionSql],
  },
  RELEASE,
  PACKAGE,
  FLEET,
  {
    name: "ca",
    summary: "show and replace the CA of inspected connections",
    subcommands: [caShow, caRotate],
  },
];

/** Exit codes: 0 success, 1 failure or a negative report, 2 invalid call, 130 interrupted. */
export async function main(argv: string[]): Promise<number> {
  const [word] = argv;
  if (argv.length === 1 && ["--version", "-V"].includes(word)) {
    await print(`${PROGRAM} ${VERSION}`);
    return 0;
  }
  if (word === undefined || ["help", "--help", "-h"].includes(word)) {
    await printOverview();
    return word === undefined ? 2 : 0;
  }
  return await dispatch({ name: PROGRAM, find: findGroup, fail }, argv);

  async function fail(cause: unknown): Promise<number> {
    // Loaded for errors only.
    const { withoutSecretWords } = await import("../../lib/credential/mod.ts");
    const error = withoutSecretWords(asSbxError(cause, `${PROGRAM} ${argv.slice(0, 2).join(" ")}`), argv);
    if (hasJsonOption(argv)) await print(formatJson(errorBody(error)));
    else note(brief(`${PROGRAM}: ${error.message}${error.hint ? `\n  ${error.hint}` : ""}`));
    // A bug of sbx: print the cause for its developers.
    if (error.code === "internal" || error.cause !== undefined && isLogged("debug")) {
      note(Deno.inspect(error.cause));
    }
    if (error.code === "usage.invalid") return 2;
    return error.code === "image.interrupted" ? 130 : 1;
  }
}

async function findGroup(word = ""): Promise<CommandGroup> {
  const group = COMMANDS.find(({ name }) => name === word);
  if (group) return group;
  throw await unknownCommand(PROGRAM, word, COMMANDS.map(({ name }) => name));
}

async function printOverview(): Promise<void> {
  await print(formatOverview(
    `${PROGRAM} COMMAND: guest images, and the parts of releases`,
    [{ title: "Commands", commands: COMMANDS.flatMap(({ subcommands }) => subcommands) }],
    `${PROGRAM} COMMAND --help shows the options of a command.`,
  ));
}
