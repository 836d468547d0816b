import { assertEquals } from "@std/assert";
import { type Entry, findEntries } from "../../../cmd/desktop/app/palette/find.ts";

const entry = (label: string, kind = "Page", words?: string): Entry => ({
  id: label,
  kind,
  label,
  words,
  run() {},
});
const ENTRIES = [
  entry("Credentials"),
  entry("dev", "VM", "code"),
  entry("dev: Terminal", "VM"),
  entry("Stop dev", "Action"),
  entry("ask-deploy", "Rule", "mine"),
  entry("CPUs of a new VM", "Setting", "vm.resources.cpu_count"),
];
const found = (typed: string) => findEntries(ENTRIES, typed).map(({ label }) => label);

Deno.test("the palette finds by starts of words, parts and letters in order, the best first", () => {
  assertEquals(found("dev"), ["dev", "dev: Terminal", "Stop dev"]);
  assertEquals(found("st dev"), ["Stop dev"]);
  assertEquals(found("dploy"), ["ask-deploy"]);
  assertEquals(found("cpu_count"), ["CPUs of a new VM"]);
  assertEquals(found("rule mine"), ["ask-deploy"]);
  assertEquals(found("(.*"), []);
});

Deno.test("without words the palette lists its first entries", () => {
  assertEquals(found("  "), ENTRIES.map(({ label }) => label));
});
