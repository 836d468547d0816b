/** docs/reference/api.md, "Error codes", has every code with a status of its own, and no other. */
import { assertEquals } from "@std/assert";
import { statusOf } from "../../../lib/base/error/mod.ts";
import { fromRoot } from "../../helper/repo.ts";

const read = (path: string) => Deno.readTextFile(fromRoot(path));

Deno.test("error codes: the reference has the statuses of the code", async () => {
  const page = await read("docs/reference/api.md");
  const section = page.slice(page.indexOf("## Error codes"), page.indexOf("## Shapes"));
  const documented = [...section.matchAll(/^- (\d{3}):((?:.|\n {2})*)/gm)].flatMap(([, status, codes]) =>
    [...codes.matchAll(/`([a-z_.]+)`/g)].map(([, code]) => [code, Number(status)] as const)
  );
  assertEquals(documented.map(([code]) => [code, statusOf(code)]), documented.map((each) => [...each]));
  const table = /BY_CODE[^{]*\{([^}]*)\}/.exec(await read("lib/base/error/status.ts"))![1];
  const inCode = [...table.matchAll(/"?([a-z_.]+)"?: \d{3}/g)].map(([, code]) => code);
  const known = new Set(documented.map(([code]) => code));
  // The rule by the last segment covers these too.
  const byRule = /\.(?:not_found|invalid|conflict|timeout)$/;
  assertEquals(inCode.filter((code) => !known.has(code) && !byRule.test(code)), []);
});
