/** Manual pages as a strict reader has them. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { adminPage, sbxPage } from "../../scripts/man.ts";
import { runChild } from "../helper/child.ts";

Deno.test("manual pages: mandoc has no warning, and shows every section", async () => {
  const dir = await Deno.makeTempDir();
  try {
    for (const [name, make] of Object.entries({ "sbx": sbxPage, "sbx-admin": adminPage })) {
      const path = join(dir, `${name}.1`);
      await Deno.writeTextFile(path, await make("1.2.3", 1_700_000_000));
      const { code, stdout } = await runChild("mandoc", { args: ["-T", "lint", "-W", "warning", path] });
      assertEquals([code, new TextDecoder().decode(stdout)], [0, ""]);
      if (name !== "sbx") continue;
      const shown = await runChild("mandoc", { args: ["-T", "ascii", path] });
      const text = new TextDecoder().decode(shown.stdout).replaceAll(/.[\b]/g, "");
      const titles = text.split("\n").filter((line) => /^[A-Z][A-Z ]+$/.test(line));
      for (const title of ["NAME", "SYNOPSIS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES"]) {
        assertEquals(titles.filter((each) => each === title).length, 1, title);
      }
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
