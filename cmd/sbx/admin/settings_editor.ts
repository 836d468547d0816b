import { dirname, join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home, writeAtomic } from "../../../lib/base/home/mod.ts";
import { requireThisMachine } from "../host.ts";
import { note } from "../../../lib/base/print/mod.ts";

/** Opens settings.toml in the user's editor, then validates it. @returns the exit code */
export async function editSettings(): Promise<number> {
  requireThisMachine("sbx settings edit opens settings.toml");
  const path = join(home().dir, "settings.toml");
  if (!await Deno.lstat(path).then(() => true, () => false)) {
    await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeAtomic(
      path,
      '# Settings of sbx, such as:\n#\n# [settings."ledger.on_full"]\n# value = "block"\n',
    );
  }
  await runEditor(path);
  return await check(path);
}

async function runEditor(path: string) {
  const [program, ...args] = (Deno.env.get("VISUAL") || Deno.env.get("EDITOR") || "vi").split(" ").filter(
    Boolean,
  );
  try {
    const { success } = await new Deno.Command(program, { args: [...args, path], stdin: "inherit" }).spawn()
      .status;
    if (success) return;
  } catch (cause) {
    throw new SbxError("editor.not_found", `the editor "${program}" cannot be started`, {
      cause,
      hint: "set EDITOR to an installed editor",
    });
  }
  throw new SbxError("editor.failed", `the editor "${program}" failed`, {
    hint: `check ${path}: it is as the editor left it`,
  });
}

/** Prints the issues of the file. @returns exit code 1 if any of them is an error */
async function check(path: string): Promise<number> {
  const { loadDefinitions, userLayer } = await import("../../../lib/config/settings/mod.ts");
  const { readToml } = await import("../../../lib/base/toml/mod.ts");
  const { issues } = userLayer(await readToml(path), await loadDefinitions());
  for (const { severity, message } of issues) note(`${severity}: ${message}`);
  return issues.some(({ severity }) => severity === "error") ? 1 : 0;
}
