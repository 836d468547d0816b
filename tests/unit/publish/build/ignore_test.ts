import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { Ignore } from "../../../../lib/publish/build/ignore.ts";

/** Paths that a file leaves out, of those given. */
function ignored(text: string, ...paths: string[]): string[] {
  const ignore = new Ignore(text);
  return paths.filter((path) => ignore.ignores(path));
}

Deno.test("patterns of .dockerignore mean what they mean to Docker", () => {
  assertEquals(ignored("*.log", "a.log", "sub/a.log", "a.logs"), ["a.log"]);
  assertEquals(ignored("**/*.log", "a.log", "sub/a.log", "sub/x/a.log"), [
    "a.log",
    "sub/a.log",
    "sub/x/a.log",
  ]);
  assertEquals(ignored("node_modules", "node_modules", "node_modules/a/b", "sub/node_modules"), [
    "node_modules",
    "node_modules/a/b",
  ]);
  assertEquals(ignored("/dist/", "dist", "dist/x", "sub/dist"), ["dist", "dist/x"]);
  assertEquals(ignored("*/temp*", "temp", "a/temp", "a/temporary", "a/b/temp"), ["a/temp", "a/temporary"]);
  assertEquals(ignored("temp?", "temp", "tempa", "tempab"), ["tempa"]);
  assertEquals(ignored("./a/../b", "a", "b"), ["b"]);
  assertEquals(ignored("a[0-9]", "a1", "ab"), ["a1"]);
  assertEquals(ignored("\\*.md", "*.md", "a.md"), ["*.md"]);
  assertEquals(ignored("**", "a", "a/b"), ["a", "a/b"]);
});

Deno.test("the last pattern that matches decides, and exceptions take files back", () => {
  const text = "*.md\n!README*.md\nREADME-secret.md";
  assertEquals(ignored(text, "a.md", "README.md", "README-secret.md"), ["a.md", "README-secret.md"]);
  assertEquals(ignored("*\n!src", "a", "src", "src/a", "src/b/c"), ["a"]);
  assertEquals(new Ignore("*\n!src").hasExceptions, true);
});

Deno.test("comments, empty lines, spaces and a byte order mark are no patterns", () => {
  assertEquals(ignored("\ufeff# all\n\n  a  \r\n#b\n", "a", "#b", "# all"), ["a"]);
});

Deno.test("characters of regular expressions are plain ones", () => {
  for (const name of ["a(1).txt", "c++", "x{2}", "a|b", "a.b", "$HOME"]) {
    assertEquals(ignored(name, name, "a1.txt", "ccc", "xx", "a", "b", "aXb"), [name]);
  }
});

Deno.test("patterns that cannot be read are named, and none takes longer for its form", () => {
  for (const text of ["a[", "!", "[z-a]"]) {
    const error = assertThrows(() => new Ignore(text, "app.dockerignore"), SbxError);
    assertEquals(error.code, "build.ignore_invalid");
    assertEquals(error.message.startsWith("app.dockerignore "), true);
  }
  assertThrows(() => new Ignore("a\n".repeat(10_001)), SbxError);
  assertEquals(ignored(`${"**/a/".repeat(50)}c`, `${"a/".repeat(200)}b`), []);
});
