/** A machine that was set up has what unpacks the kernel of any suite. */
import { assertMatch } from "@std/assert";
import { UNPACKERS } from "../../../../lib/publish/image/command.ts";
import { fromRoot } from "../../../helper/repo.ts";

/** On every Debian. */
const ESSENTIAL = "gzip";

for (const name of Object.values(UNPACKERS).filter((name) => name !== ESSENTIAL)) {
  Deno.test(`make deps and the Debian package bring ${name}`, async () => {
    assertMatch(await Deno.readTextFile(fromRoot("scripts/deps.sh")), new RegExp(`echo "${name}\\|`));
    const control = await Deno.readTextFile(fromRoot("lib/publish/package/sbx.ts"));
    assertMatch(control, new RegExp(`Recommends: ".*\\b${name}\\b`));
  });
}
