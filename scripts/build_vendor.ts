import { createHash } from "node:crypto";
import { join } from "node:path";
import { hostModules, type HostPackage } from "./host_packages.ts";

/** Packages that load a native addon by a name that is computed: a bundle cannot hold it. */
export const NATIVE = ["@napi-rs/blake-hash"];
/**
 * Addons that packages do without where they are not built, as they never are here:
 * their require fails and is caught.
 */
const OPTIONAL = ["cpu-features", "*.node"];

/**
 * Bundles the packages that the program imports, with shared parts once: a tenth of their files' size, all of
 * which a compiled program reads into memory when it starts.
 *
 * @param sources folder of the sources, which get a folder `vendor`
 * @param bundle runs `deno bundle` with arguments
 * @returns file in `sources` by specifier
 */
export async function bundlePackages(
  root: string,
  sources: string,
  bundle: (args: string[]) => Promise<void>,
): Promise<Map<string, string>> {
  const entries = join(sources, "vendor-entries");
  await Deno.mkdir(entries);
  const files = new Map<string, string>();
  for (const { specifier, isBare, hasDefault } of await importedPackages(root)) {
    const name = `${specifier.replace(/^@|\.js$/g, "").replaceAll(/[^\w-]+/g, "_")}.js`;
    const names = Object.keys(await import(specifier))
      .filter((name) => /^[\w$]+$/.test(name) && (name !== "default" || hasDefault));
    const code = isBare
      ? `import "${specifier}";\n`
      : `export { ${names.join(", ")} } from "${specifier}";\n`;
    await Deno.writeTextFile(join(entries, name), code);
    files.set(specifier, `./vendor/${name}`);
  }
  const names = [...files.values()].map((file) => join(entries, file.slice("./vendor/".length)));
  await bundle([
    ...["--platform", "deno", "--packages", "bundle", "--minify", "--keep-names", "--code-splitting"],
    ...[...NATIVE, ...OPTIONAL].flatMap((name) => ["--external", name]),
    ...["--outdir", join(sources, "vendor"), ...names],
  ]);
  await Deno.remove(entries, { recursive: true });
  await giveRequire(join(sources, "vendor"));
  await nameByContent(join(sources, "vendor"));
  return files;
}

/**
 * CommonJS packages require modules of Node, and some name their folder; a bundle has a stand-in for
 * `require` that fails unless there is one, and no `__dirname`.
 */
async function giveRequire(dir: string): Promise<void> {
  for await (const { name } of Deno.readDir(dir)) {
    const code = await Deno.readTextFile(join(dir, name));
    const given = [
      code.includes("Dynamic require of") ? REQUIRE : "",
      /\b__dirname\b/.test(code) ? DIRNAME : "",
    ].join("");
    if (given !== "") await Deno.writeTextFile(join(dir, name), given + code);
  }
}

/**
 * The bundler names a chunk by the folders of its packages too: the same program has the
 * same bytes wherever it is built.
 */
export async function nameByContent(dir: string): Promise<void> {
  const files = (await Array.fromAsync(Deno.readDir(dir), ({ name }) => name)).filter((name) =>
    name.endsWith(".js")
  ).sort();
  const texts = new Map(
    await Promise.all(
      files.map(async (name): Promise<[string, string]> => [name, await Deno.readTextFile(join(dir, name))]),
    ),
  );
  let names = new Map(files.map((name) => [name, name.replace(CHUNK, "$1.js")]));
  const renamed = (text: string) =>
    text.replaceAll(new RegExp(CHUNK, "g"), (name) => names.get(name) ?? name);
  // Each round distinguishes chunks by the chunks that they import.
  for (let round = 0; round < NAMING_ROUNDS; round++) {
    names = new Map(files.map((name) => [
      name,
      name.replace(CHUNK, `$1-${hashOf(renamed(texts.get(name)!))}.js`),
    ]));
  }
  if (new Set(names.values()).size < files.length) {
    throw new Error("two chunks of packages have the same content");
  }
  for (const name of files) await Deno.remove(join(dir, name));
  for (const [name, text] of texts) await Deno.writeTextFile(join(dir, names.get(name)!), renamed(text));
}

/** Name of a chunk, or of a module that is loaded late. */
const CHUNK = /([a-z]+)-[A-Z0-9]{8}\.js/;
const NAMING_ROUNDS = 4;

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

const DIRNAME = "const __dirname=import.meta.dirname;\n";
const REQUIRE = 'import { createRequire } from "node:module";const require=createRequire(import.meta.url);\n';

/**
 * Packages that {@linkcode NATIVE} ones need, without those for another C
 * library than that of Deno's programs.
 */
export function nativePackages(packages: readonly HostPackage[]): HostPackage[] {
  const byKey = new Map(packages.map((each) => [each.key, each]));
  const found = new Set(packages.filter(({ name }) => NATIVE.includes(name)));
  // A set that grows is gone through to its end.
  for (const { dependencies } of found) {
    for (const key of dependencies) if (byKey.has(key)) found.add(byKey.get(key)!);
  }
  // Deno compares only system and processor.
  return [...found].filter(({ name }) => !name.includes("-musl"));
}

interface ImportedPackage {
  specifier: string;
  /** imported for its effects: before others, which may need them */
  isBare: boolean;
  hasDefault: boolean;
}

/** Specifiers of packages in the program's modules, as they are written. */
async function importedPackages(root: string): Promise<ImportedPackage[]> {
  const found = new Map<string, ImportedPackage>();
  for (const { local, dependencies = [] } of await hostModules(root)) {
    const code = local ? await Deno.readTextFile(local) : "";
    for (const { specifier, code: target } of dependencies) {
      if (!target?.specifier?.startsWith("npm:") || NATIVE.includes(specifier)) continue;
      const quoted = JSON.stringify(specifier).replaceAll(/[.$]/g, "\\$&");
      const known = found.get(specifier) ?? { specifier, isBare: true, hasDefault: false };
      known.isBare &&= new RegExp(`^import ${quoted}`, "m").test(code);
      known.hasDefault ||= new RegExp(`^import \\w+(?:, \\{[^}]*\\})? from ${quoted}`, "m").test(code);
      found.set(specifier, known);
    }
  }
  return [...found.values()].sort((a, b) =>
    Number(b.isBare) - Number(a.isBare) || (a.specifier < b.specifier ? -1 : 1)
  );
}
