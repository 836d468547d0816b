/** Paths of the record: as Node resolves them. */
import { assertEquals } from "@std/assert";
import { posix } from "node:path";
import { resolve } from "../../../../cmd/guest/activity/proc.ts";

Deno.test("every path of a few parts is resolved as by Node", () => {
  const parts = ["", ".", "..", "a", "b c", "...", ".hidden"];
  for (const one of parts) {
    for (const two of parts) {
      for (const three of parts) {
        const path = [one, two, three].join("/");
        for (const folder of ["/", "/root", "/root/../a/"]) {
          assertEquals(resolve(folder, path), posix.resolve(folder, path), `${folder} ${path}`);
        }
      }
    }
  }
});
