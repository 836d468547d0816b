/** Pieces of work that a person chooses, and the request that takes them. */
import { assertEquals } from "@std/assert";
import {
  allFiles,
  type Chosen,
  countOf,
  flaggedOf,
  keyOf,
  takeOf,
  withFile,
  withPiece,
} from "../../../cmd/desktop/page/vm/work/chosen.ts";

const file = (hunks: number) => ({ hunks: Array(hunks).fill({ lines: [] }) });
const WORK = {
  units: [
    { repository: "a", path: "", tree: "a".repeat(40), files: [file(3), file(0)] },
    { repository: "b", path: "sub", tree: "b".repeat(40), files: [file(1)] },
  ],
} as unknown as Parameters<typeof takeOf>[1];

Deno.test("desktop: a piece is chosen and left out; all pieces are the file", () => {
  const key = keyOf(0, 0);
  let chosen: Chosen = withPiece(new Map(), key, 2, 3);
  chosen = withPiece(chosen, key, 0, 3);
  assertEquals(takeOf(chosen, WORK).units, [
    { repository: "a", path: "", tree: "a".repeat(40), files: [{ file: 0, hunks: [0, 2] }] },
  ]);
  assertEquals(countOf(chosen, WORK), 2);
  assertEquals(withPiece(chosen, key, 1, 3).get(key), "all");
  assertEquals(withPiece(withPiece(chosen, key, 0, 3), key, 2, 3).size, 0);
  assertEquals([...withPiece(withFile(new Map(), key, true), key, 1, 3).get(key)!], [0, 2]);
});

Deno.test("desktop: files of several units are taken, each with the state that was shown", () => {
  const chosen = withFile(withFile(new Map(), keyOf(1, 0), true), keyOf(0, 1), true);
  assertEquals(takeOf(chosen, WORK), {
    units: [
      { repository: "a", path: "", tree: "a".repeat(40), files: [{ file: 1 }] },
      { repository: "b", path: "sub", tree: "b".repeat(40), files: [{ file: 0 }] },
    ],
  });
  assertEquals(countOf(chosen, WORK), 2);
});

Deno.test("desktop: all is chosen with or without files that programs run by themselves, which are named", () => {
  const files = [{ ...file(2), path: "a.ts", notable: false }, {
    ...file(1),
    path: "Makefile",
    notable: true,
  }];
  const work = { units: [{ ...WORK.units[0], files }, WORK.units[1]] } as unknown as typeof WORK;
  const all = allFiles(work, true);
  assertEquals([...all], [["0 0", "all"], ["0 1", "all"], ["1 0", "all"]]);
  assertEquals(flaggedOf(all, work), ["Makefile"]);
  const safe = allFiles(work, false);
  assertEquals([...safe.keys()], ["0 0", "1 0"]);
  assertEquals(flaggedOf(safe, work), []);
});
