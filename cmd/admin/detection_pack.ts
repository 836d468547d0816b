import { note, print, printJson } from "../../lib/base/print/mod.ts";
import { type Command, JSON_OPTION } from "../../lib/base/args/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { writeAtomic } from "../../lib/base/home/mod.ts";
import { count } from "../../lib/base/text/mod.ts";
import { writeAll } from "../../lib/base/wire/mod.ts";
import { compileRead, createCompileReport, type Diagnostic } from "../../lib/detection/compile/mod.ts";
import { formatIr } from "../../lib/detection/mod.ts";
import { readPack, validationOf } from "../../lib/detection/pack/mod.ts";

/**
 * `sbx-admin detection validate` (docs/design/contracts/13-command-line.md §13): exits with 1 when the
 * envelope is invalid.
 */
export const detectionValidate: Command = {
  name: "detection validate",
  usage: "PACK_FILE [--json]",
  summary: "check the envelope of a detection pack: YAML, TOML or JSON",
  notes: ["The exit code is 1 if the envelope is invalid."],
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin detection validate pack.yaml"],
  async run(args) {
    const [path] = args.words;
    const report = validationOf(await readPack(path), path);
    if (args.has("json")) await printJson(report);
    else {
      printDiagnostics(report.diagnostics);
      if (report.ok) await print(`${path} is valid: pack ${report.pack_id} ${report.version}`);
    }
    return report.ok ? 0 : 1;
  },
};

/**
 * `sbx-admin detection compile` (docs/design/contracts/13-command-line.md §13): exits with 1 when the pack
 * uses anything unsupported.
 */
export const detectionCompile: Command = {
  name: "detection compile",
  usage: "PACK_FILE [--out FILE] [--json]",
  summary: "compile a detection pack to its IR; names every unsupported construct with its line",
  notes: ["The exit code is 1 if the pack uses an unsupported construct."],
  options: [
    { name: "out", value: "FILE", about: "file for the IR; default standard output" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin detection compile pack.yaml --out pack.ir.json"],
  async run(args) {
    const [path] = args.words;
    const out = args.text("out");
    const read = await readPack(path);
    const compiled = await compileRead(read);
    if (compiled.ir && out !== undefined) await write(out, formatIr(compiled.ir));
    const report = createCompileReport(compiled, read, out);
    if (args.has("json")) await printJson(report);
    else {
      printDiagnostics(report.diagnostics);
      // Without --out, the IR goes to standard output.
      if (compiled.ir && out === undefined) {
        await writeAll(Deno.stdout, new TextEncoder().encode(formatIr(compiled.ir)));
      } else if (report.ok) {
        await print(`${out}: ${count(report.rule_count, "rule")} of ${read.id} ${read.version}`);
      }
    }
    return report.ok ? 0 : 1;
  },
};

/** Prints diagnostics as text to standard error. */
export function printDiagnostics(diagnostics: readonly Diagnostic[]): void {
  for (const { path, message } of diagnostics) {
    note(path && !message.includes(path) ? `${message} [${path}]` : message);
  }
}

/** Writes an output file named by the user. @throws {SbxError} `output.invalid` */
export async function write(path: string, text: string): Promise<void> {
  try {
    await writeAtomic(path, text, 0o644);
  } catch (cause) {
    throw new SbxError("output.invalid", `cannot write ${path}`, {
      cause,
      hint: "check its folder and permissions",
    });
  }
}
