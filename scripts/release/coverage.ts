/**
 * Coverage of lib/ by the unit tests; a release needs the part named here.
 *
 *     deno run -A scripts/release/coverage.ts OUT.txt [TESTS…]
 */
import { text } from "../command.ts";

/** Least part of lines, in percent. */
const LINES_MIN = 80;

/** Lines of all files, in percent, of what `deno coverage` prints. */
export function linesOf(report: string): number {
  const row = report.split("\n").find((line) => /^\|? *All files/.test(line));
  const cells = row?.split("|").map((cell) => cell.trim()).filter(Boolean);
  const lines = Number(cells?.at(-1));
  if (!Number.isFinite(lines)) throw new Error("coverage: the report has no line for all files");
  return lines;
}

if (import.meta.main) {
  const [out, ...tests] = Deno.args;
  const dir = await Deno.makeTempDir();
  try {
    const paths = tests.length > 0 ? tests : ["tests/unit"];
    await text([
      Deno.execPath(),
      "test",
      "-A",
      "--quiet",
      "--no-check",
      "--parallel",
      `--coverage=${dir}`,
      ...paths,
    ]);
    const report = await text([
      "env",
      "NO_COLOR=1",
      Deno.execPath(),
      "coverage",
      "--quiet",
      "--include=/lib/",
      dir,
    ]);
    await Deno.writeTextFile(out, report);
    const lines = linesOf(report);
    console.log(`coverage: ${lines} % of the lines of lib/`);
    if (tests.length === 0 && lines < LINES_MIN) {
      throw new Error(`coverage: ${lines} % is below ${LINES_MIN} %`);
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}
