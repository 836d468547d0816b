/** A launcher of sbx whose runtime is a file of its own, so that an upgrade can replace it. */
import { join } from "node:path";
import { fromRoot } from "./repo.ts";

/** Folder with a launcher `sbx`; `replace` puts another file in the runtime's place, as dpkg does. */
export async function ownRuntime(): Promise<{ dir: string; replace(): Promise<void> }> {
  const dir = await Deno.makeTempDir();
  const runtime = join(dir, "deno"), source = await Deno.realPath(Deno.execPath());
  const replace = async () => {
    await Deno.copyFile(source, `${runtime}.new`);
    await Deno.chmod(`${runtime}.new`, 0o755);
    await Deno.rename(`${runtime}.new`, runtime);
  };
  await replace();
  const line = [
    `exec -a sbx "${runtime}" run -A --no-prompt --quiet --cached-only --config "${fromRoot("deno.json")}"`,
    `"${fromRoot("main.ts")}" "$@"`,
  ].join(" ");
  const launcher = `#!/bin/bash\nexport DENO_DIR="${fromRoot(".deno/cache")}"\n${line}\n`;
  await Deno.writeTextFile(join(dir, "sbx"), launcher, { mode: 0o755 });
  return { dir, replace };
}
