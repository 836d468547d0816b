/** Code that no program uses. */
import { assertEquals } from "@std/assert";
import { codeBelow, fromRoot } from "../../helper/repo.ts";

const EXPORT =
  /^export (?:abstract |async )*(?:function\*?|class|const|let|interface|type|enum) +([A-Za-z_$][\w$]*)/gm;
/** `export { a, b } from "./c.ts"`: it passes a name on, and uses none. */
const PASSED_ON = /^export (?:type )?\{[^}]*\} from "[^"]*";$/gm;
const NAME = /[A-Za-z_$][\w$]*/g;

Deno.test("every name that lib exports is used by a program, not only by tests", async () => {
  const uses = new Map<string, number>();
  const exported: [path: string, name: string][] = [];
  const folders = await Promise.all(["lib", "cmd", "ffi", "scripts"].map(codeBelow));
  for (const path of ["main.ts", ...folders.flat()]) {
    const text = await Deno.readTextFile(fromRoot(path));
    if (path.startsWith("lib/")) {
      for (const [, name] of text.matchAll(EXPORT)) exported.push([path, name]);
    }
    for (const [name] of text.replace(PASSED_ON, "").matchAll(NAME)) {
      uses.set(name, (uses.get(name) ?? 0) + 1);
    }
  }
  // The definition is one.
  assertEquals(exported.filter(([, name]) => uses.get(name) === 1), []);
});
