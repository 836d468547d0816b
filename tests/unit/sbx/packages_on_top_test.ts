/** The Dockerfile of a profile's packages on top of an image. */
import { assertEquals, assertThrows } from "@std/assert";
import { dockerfileOf } from "../../../cmd/sbx/vm/packages_on_top.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";

Deno.test("a base image's user ends the Dockerfile, and adds no line and no variable to it", () => {
  const of = (user?: string) =>
    dockerfileOf("a.example/b@sha256:1", { from: "a.example/b", apt: [], npm: ["x@^1"] }, "x86_64", user);
  const head = "FROM a.example/b@sha256:1\nUSER 0:0\nRUN npm install --global --no-audit --no-fund 'x@^1'\n";
  assertEquals([of(), of("app"), of("1000:1000")], [head, `${head}USER app\n`, `${head}USER 1000:1000\n`]);
  for (const user of ["app\nCOPY --from=corp.example/private / /", "a\rRUN x", "$X", "a b", "a\\", "a:b:c"]) {
    assertEquals(assertThrows(() => of(user), SbxError).code, "build.base_invalid", user);
  }
});
