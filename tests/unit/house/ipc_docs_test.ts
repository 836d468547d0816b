/**
 * docs/design/contracts/07-guest-wire.md §7, "Service and process", has every call with its fields, and every
 * answer.
 */
import { assert, assertEquals } from "@std/assert";
import { Call, MachineInfo, REPLIES } from "../../../lib/session/ipc/schema.ts";
import { fromRoot } from "../../helper/repo.ts";

Deno.test("each call of the service to a VM's process, its fields and its answers are in the contract", async () => {
  const contract = await Deno.readTextFile(fromRoot("docs/design/contracts/07-guest-wire.md"));
  const section = contract.slice(contract.indexOf("## Service and process"));
  const rows = section.split("\n").filter((line) => line.startsWith("| `")).map((line) =>
    line.split(/(?<!\\)\|/)
  );
  for (const { shape } of Call.options) {
    const { value } = shape.t;
    const row = rows.find(([, call]) => new RegExp("`" + value + "[{`]").test(call)) ?? [];
    assert(row.length > 0, value);
    const [, fields = ""] = new RegExp("`" + value + "\\{([^`]*)\\}`").exec(row[1]) ?? [];
    const documented = fields.replaceAll(/: *(?:\{.*\}|[a-z|\\]+)/g, "").split(/, */).filter((each) =>
      each !== ""
    );
    const inCode = Object.entries(shape).filter(([key]) => key !== "t").map(([key, type]) =>
      `${key}${type.isOptional() ? "?" : ""}`
    );
    assertEquals(documented.toSorted(), inCode.toSorted(), value);
    for (const reply of REPLIES[value]) {
      assert(new RegExp("`" + reply + "[{`]").test(row[2]), `${value}: ${reply}`);
    }
  }
  for (const [key, type] of Object.entries(MachineInfo.shape)) {
    assert(section.includes(`${key}${type.isOptional() ? "?" : ""}`), key);
  }
});
