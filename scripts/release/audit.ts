/**
 * Audit of the program's dependencies, before a release: exact versions, licences that may be distributed,
 * and npm's advisories where its registry can be reached.
 *
 *     deno run -A scripts/release/audit.ts OUT.json
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { components } from "../sbom.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Licences whose conditions third-party-notices.gz meets. */
const LICENSES = ["0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "PSF-2.0"];
/** Advisories from this level on stop a release. */
const LEVELS = ["high", "critical"];

/** Result of an audit. */
export interface Audit {
  ok: boolean;
  problems: string[];
  packages: number;
  /** what npm says; absent where its registry was not reached */
  advisories?: Record<string, number>;
}

/** Packages whose version or licence no release may have. */
export function packageProblems(
  imports: Record<string, string>,
  packages: { name: string; version?: string; license?: string }[],
): string[] {
  return [
    ...Object.values(imports).filter((specifier) => !/@\d+\.\d+\.\d+(\/|$)/.test(specifier))
      .map((specifier) => `${specifier} has no exact version`),
    ...packages.filter(({ license }) => !LICENSES.includes(license ?? ""))
      .map(({ name, version, license }) => `${name} ${version} has the licence ${license ?? "none"}`),
  ];
}

/** Counts of npm's advisories by level, of its report as JSON; undefined when it has none. */
export function readAdvisories(report: string): Record<string, number> | undefined {
  try {
    const counts = JSON.parse(report).metadata?.vulnerabilities;
    return counts && typeof counts === "object" ? counts : undefined;
  } catch {
    return undefined;
  }
}

async function npmAudit(packages: { name: string; version?: string }[]): Promise<string> {
  const dir = await Deno.makeTempDir();
  const npm = async (...args: string[]) => {
    const { stdout } = await new Deno.Command("npm", { args, cwd: dir, stdin: "null", stderr: "null" })
      .output();
    return new TextDecoder().decode(stdout);
  };
  try {
    // Two versions of one package go in under names of their own.
    const dependencies = Object.fromEntries(packages.map(({ name, version }, at) => [
      packages.findIndex((other) => other.name === name) === at ? name : `alias-${at}`,
      packages.findIndex((other) => other.name === name) === at ? version : `npm:${name}@${version}`,
    ]));
    await Deno.writeTextFile(join(dir, "package.json"), JSON.stringify({ private: true, dependencies }));
    await npm("install", "--package-lock-only", "--ignore-scripts", "--no-fund", "--force");
    return await npm("audit", "--json");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

if (import.meta.main) {
  const [out] = Deno.args;
  const { imports } = JSON.parse(await Deno.readTextFile(join(ROOT, "deno.json")));
  const packages = (await components({ version: "0", runtime: "0", target: "linux-x64" }))
    .filter(({ purl }) => purl?.startsWith("pkg:npm/"));
  const problems = packageProblems(imports, packages);
  const advisories = readAdvisories(await npmAudit(packages));
  for (const level of LEVELS) {
    if (advisories?.[level]) problems.push(`npm has ${advisories[level]} advisories of level ${level}`);
  }
  const audit: Audit = {
    ok: problems.length === 0,
    problems,
    packages: packages.length,
    ...(advisories && { advisories }),
  };
  await Deno.writeTextFile(out, JSON.stringify(audit, null, 2) + "\n");
  if (!advisories) console.error("audit: npm's advisories could not be read; the audit says nothing of them");
  for (const problem of problems) console.error(`audit: ${problem}`);
  Deno.exit(audit.ok ? 0 : 1);
}
