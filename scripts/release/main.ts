/**
 * `make release`: a release from its tag to the published tree, in the order of
 * docs/design/contracts/10-release.md §10, "Release pipeline".
 *
 *     deno run -A scripts/release/main.ts VERSION --work DIR --releases WORKSPACE --publish DIR --source URI --builder URI
 *       [--channel stable] [--arch x86_64]… [--apt-key FILE] [--keys DIR] [--mac-application NAME --mac-installer NAME
 *       --mac-profile NAME] [--dry-run]
 *
 * The inputs and outputs of each stage are hashed into WORK/release-record.json. A stopped run continues
 * there.
 */
import { parseArgs } from "@std/cli";
import { resolve } from "node:path";
import { type Options, stagesOf } from "./pipeline.ts";
import { Runner } from "./runner.ts";
import { runStages } from "./stage.ts";
import { text } from "../command.ts";

/** Options that have a value. */
const STRINGS = ["work", "releases", "publish", "source", "builder", "channel", "apt-key", "keys"];
const MAC = ["mac-application", "mac-installer", "mac-profile"];
/** SemVer, as a tag has it behind its v. */
const VERSION = /^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$/;

/** Reads the command line. @throws {Error} one line for a person */
async function readOptions(words: string[]): Promise<{ options: Options; isDry: boolean }> {
  const args = parseArgs(words, {
    string: [...STRINGS, ...MAC, "arch", "_"],
    boolean: ["dry-run"],
    collect: ["arch"],
    default: { channel: "stable" },
    unknown: (word: string, key?: string) => {
      if (key !== undefined) throw new Error(`unknown option ${word}`);
    },
  }) as Record<string, unknown> & { _: unknown[]; arch: string[] };
  const given = (name: string) => args[name] ? String(args[name]) : undefined;
  const needed = (name: string): string => {
    const value = given(name);
    if (value !== undefined) return value;
    throw new Error(`missing option --${name}`);
  };
  const [version] = args._.map(String);
  if (!VERSION.test(version ?? "")) {
    throw new Error(`VERSION is a SemVer such as 1.2.0, not "${version ?? ""}"`);
  }
  const named = MAC.filter(given);
  if (named.length !== 0 && named.length !== MAC.length) throw new Error(`--${MAC.join(", --")} go together`);
  const isDry = args["dry-run"] === true;
  const [keys, aptKey] = ["keys", "apt-key"].map(given).map((path) => path && resolve(path));
  const options: Options = {
    version,
    commit: await commitOf(isDry ? "HEAD" : `v${version}`),
    work: resolve(needed("work")),
    releases: resolve(needed("releases")),
    publish: resolve(needed("publish")),
    source: needed("source"),
    builder: needed("builder"),
    channel: needed("channel"),
    keys,
    aptKey,
    arches: args.arch.length > 0 ? args.arch : ["x86_64"],
    mac: named.length === 0 ? undefined : {
      application: needed("mac-application"),
      installer: needed("mac-installer"),
      profile: needed("mac-profile"),
    },
  };
  return { options, isDry };
}

async function commitOf(name: string): Promise<string> {
  const commit = await text(["git", "rev-parse", "--verify", "--quiet", `${name}^{commit}`]).catch(() => "");
  if (commit === "") throw new Error(`there is no tag ${name}; make it: git tag -s ${name}`);
  return commit.trim();
}

try {
  const { options, isDry } = await readOptions(Deno.args);
  const stages = stagesOf(options, new Runner(isDry, console.log));
  if (isDry) {
    for (const { name, skip, run } of stages) {
      console.log(`${name}${skip === undefined ? "" : `: skipped: ${skip}`}`);
      // Missing keys are reported, and the commands of the other stages shown anyway.
      if (skip === undefined) await run().catch(({ message }) => console.log(`  ${message}`));
    }
  } else {
    await Deno.mkdir(options.work, { recursive: true });
    await runStages(options.work, options, stages, console.log);
  }
} catch (error) {
  console.error(`release: ${error instanceof Error ? error.message : error}`);
  Deno.exit(1);
}
