/** Names of terminals. */
import { assertEquals } from "@std/assert";
import { freeName, withName } from "../../../cmd/desktop/page/vm/terminal/names.ts";

Deno.test("a name is kept, replaced and taken away, and the oldest of very many are forgotten", () => {
  const named = withName(withName({}, "0a", " tests "), "0b", "server");
  assertEquals(named, { "0a": "tests", "0b": "server" });
  assertEquals(withName(named, "0a", "  "), { "0b": "server" });
  assertEquals(withName(named, "__proto__", "x")["0a"], "tests");
  let many = {};
  for (let at = 0; at < 300; at++) many = withName(many, `j${at}`, "n");
  assertEquals([Object.keys(many).length, Object.keys(many)[0]], [200, "j100"]);
});

Deno.test("a new terminal has the first free number", () => {
  const numbered = (number: number) => `Terminal ${number}`;
  assertEquals(freeName(numbered, []), "Terminal 2");
  assertEquals(freeName(numbered, ["Terminal 2", "x", "Terminal 4"]), "Terminal 3");
});
