import { join } from "node:path";
import { npmFolder } from "./npm_folder.ts";
import { components } from "./sbom.ts";

const NAMES = /^(?:licen[cs]e|copying|notice)/i;

/** Licence texts of the npm packages in the program, one after the other. */
export async function notices(target: string): Promise<string> {
  const packages = (await components({ version: "0", runtime: "0", target }))
    .filter(({ purl }) => purl?.startsWith("pkg:npm/"));
  const parts = packages.map(async ({ name, version, license }) => {
    const dir = await npmFolder(name, version!);
    const files = (await Array.fromAsync(Deno.readDir(dir))).filter((entry) =>
      entry.isFile && NAMES.test(entry.name)
    );
    const texts = files.map((entry) => entry.name).sort().map((file) => Deno.readTextFile(join(dir, file)));
    return `${name} ${version} (${license})\n\n${
      (await Promise.all(texts)).join("\n").trim() || "no text"
    }\n`;
  });
  return (await Promise.all(parts)).join(`\n${"-".repeat(78)}\n\n`);
}
