import { compileRead } from "../../lib/detection/compile.ts";
import { irText } from "../../lib/detection/ir.ts";
import { readPack, validationOf } from "../../lib/detection/pack/pack.ts";
import type { Diagnostic } from "../../lib/detection/problem.ts";
import { compileReport } from "../../lib/detection/report.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { writeAtomic } from "../../lib/base/home/mod.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";

/** `sbx-admin detection validate` (spec.md, "Command-line operations"): exit 1 when the envelope is not in order. */
export const detectionValidate: Command = {
  name: "detection validate",
  synopsis: "<pack_file> [--json]",
  summary: "check the envelope of a detection pack: YAML, TOML or JSON",
  async run(args) {
    const { switches, positionals: [path] } = parseArguments(args, {
      values: [],
      switches: ["json"],
      positionals: ["<pack_file>"],
    });
    const report = validationOf(await readPack(path), path);
    if (switches.has("json")) console.log(JSON.stringify(report, null, 2));
    else {
      printDiagnostics(report.diagnostics);
      if (report.ok) console.log(`${path} is right: pack ${report.pack_id} ${report.version}`);
    }
    return report.ok ? 0 : 1;
  },
};

/** `sbx-admin detection compile` (spec.md, "Command-line operations"): exit 1 when anything in it is not supported. */
export const detectionCompile: Command = {
  name: "detection compile",
  synopsis: "<pack_file> [--out <ir_file>] [--json]",
  summary: "compile a detection pack to its IR; names every construct that is not supported, with its line",
  async run(args) {
    const { values: { out }, switches, positionals: [path] } = parseArguments(args, {
      values: ["out"],
      switches: ["json"],
      positionals: ["<pack_file>"],
    });
    const read = await readPack(path);
    const compiled = await compileRead(read);
    if (compiled.ir && out !== undefined) await write(out, irText(compiled.ir));
    const report = compileReport(compiled, read, out);
    if (switches.has("json")) console.log(JSON.stringify(report, null, 2));
    else {
      printDiagnostics(report.diagnostics);
      // Without a file the IR itself is the answer.
      if (compiled.ir && out === undefined) {
        await Deno.stdout.write(new TextEncoder().encode(irText(compiled.ir)));
      } else if (report.ok) {
        console.log(
          `${out}: ${report.rule_count} ${
            report.rule_count === 1 ? "rule" : "rules"
          } of ${read.id} ${read.version}`,
        );
      }
    }
    return report.ok ? 0 : 1;
  },
};

/** Diagnostics for people, on standard error. */
export function printDiagnostics(diagnostics: readonly Diagnostic[]): void {
  for (const { path, message } of diagnostics) {
    console.error(path && !message.includes(path) ? `${message} [${path}]` : message);
  }
}

/** Writes what a user asked for at a place of theirs. @throws {SbxError} `output.invalid` */
export async function write(path: string, text: string): Promise<void> {
  try {
    await writeAtomic(path, text, 0o644);
  } catch (cause) {
    throw new SbxError("output.invalid", `${path} cannot be written`, {
      cause,
      hint: "check its folder and permissions",
    });
  }
}
