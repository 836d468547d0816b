/** Manual pages of the packages. */
import { assert, assertEquals } from "@std/assert";
import { allCommands } from "../../../cmd/sbx/commands.ts";
import { isGroup } from "../../../lib/base/args/mod.ts";
import { adminPage, sbxPage } from "../../../scripts/man.ts";

Deno.test("sbx(1) has every command with its options, in ASCII and known requests", async () => {
  const page = await sbxPage("1.2.3", 1_700_000_000);
  assert(page.startsWith('.TH SBX 1 2023-11-14 "sbx 1.2.3"\n'), page.slice(0, 80));
  for (const each of await allCommands()) {
    for (const { name, options } of isGroup(each) ? each.subcommands : [each]) {
      const start = page.indexOf(`.SS sbx ${name.replaceAll("-", "\\-")}`);
      assert(start > 0, name);
      const section = page.slice(start, page.indexOf("\n.SS ", start + 1));
      for (const option of options) {
        assert(section.includes(`\\-\\-${option.name.replaceAll("-", "\\-")}`), `${name} ${option.name}`);
      }
    }
  }
  for (const text of [page, await adminPage("1.2.3", 1_700_000_000)]) {
    assertEquals(text.match(/[^\n -~]/g), null);
    const requests = new Set([...text.matchAll(/^[.'](\S*)/gm)].map(([, request]) => request));
    assertEquals(
      [...requests].filter((request) => !/^(TH|SH|SS|PP|TP|EX|EE|B|I)$/.test(request)),
      [],
    );
  }
});
