/** The words of a ledger's failures, and its limits in pages. */
import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { connect, fullError, ledgerError, pageLimit, refusalBytes } from "../../../lib/ledger/failure.ts";
import { fromPlainError, toPlainError } from "../../../lib/ledger/batch.ts";
import { isOutdated, SCHEMA_VERSION } from "../../../lib/ledger/schema.ts";

const MB = 1024 * 1024;
const FULL_HINT = "free some space, or raise ledger.max_size_mb: the ledger continues where it stopped";

Deno.test("an error of the database becomes one of the ledger, in words for people", () => {
  const damaged = ["ledger.invalid", "the ledger /l is damaged, or not a ledger"];
  const verify = "sbx verify /l names the first bad event";
  const full = "the ledger /l cannot be written: its disk or its size limit is full";
  const cases: [code: string, action: "read" | "written" | undefined, expected: (string | undefined)[]][] = [
    ["SQLITE_NOTADB", undefined, [...damaged, verify]],
    ["SQLITE_CORRUPT_INDEX", "read", [...damaged, verify]],
    ["SQLITE_FULL", undefined, ["ledger.unavailable", full, FULL_HINT]],
    ["SQLITE_IOERR_SHMSIZE", "written", ["ledger.unavailable", full, FULL_HINT]],
    ["SQLITE_BUSY", undefined, ["ledger.unavailable", "the ledger /l cannot be written", undefined]],
    ["SQLITE_IOERR", "read", ["ledger.unavailable", "the ledger /l cannot be read", undefined]],
  ];
  for (const [code, action, expected] of cases) {
    const cause = { code };
    const error = ledgerError(cause, "/l", action);
    assertEquals([error.code, error.message, error.hint], expected, code);
    assertEquals(error.cause, cause);
  }
  const known = new SbxError("ledger.conflict", "x");
  assertEquals(ledgerError(known, "/l"), known);
  for (const other of [undefined, new Error("x"), "text"]) {
    assertEquals(ledgerError(other, "/l") instanceof SbxError, true);
  }
});

Deno.test("a database that cannot be opened is reported with its path", () => {
  const cause = new Error("x");
  const error = assertThrows(() =>
    connect("/l", () => {
      throw cause;
    }), SbxError);
  assertEquals([error.code, error.message, error.hint, error.cause], [
    "ledger.unavailable",
    "the ledger /l cannot be opened",
    "check that its folder exists and is writable",
    cause,
  ]);
  assertEquals(connect("/l", () => 7), 7);
});

Deno.test("the reserve of a ledger is a quarter of it, and 16 MB at most; half of it is for refusals", () => {
  const pages = (ordinary: number, all: number) => ({ ordinary, all });
  assertEquals(pageLimit(1600 * 16_384), pages(1600 - 400, 1600));
  assertEquals(pageLimit(1600 * 16_384 + 1), pages(1601 - 400, 1601));
  assertEquals(pageLimit(64 * MB), pages(4096 - 1024, 4096));
  assertEquals(pageLimit(1024 * MB), pages(65_536 - 1024, 65_536));
  const { ordinary, all } = pageLimit();
  assertEquals([ordinary === all, all > 4_000_000_000], [true, true]);
  assertEquals([refusalBytes(32 * MB), refusalBytes(1024 * MB), refusalBytes()], [4 * MB, 8 * MB, 0]);
});

Deno.test("an error passes between threads with its code, words, hint and cause", () => {
  const passed = (error: SbxError) => fromPlainError(structuredClone(toPlainError(error)));
  const full = passed(fullError("/l"));
  assertEquals([full.code, full.message, full.hint], [
    "ledger.full",
    "the ledger /l cannot be written: its size limit is full",
    "raise ledger.max_size_mb: the ledger continues where it stopped",
  ]);
  const plain = passed(new SbxError("ledger.unavailable", "x", { cause: new Error("why") }));
  assertEquals([plain.hint, plain.cause], [undefined, "Error: why"]);
});

Deno.test("an older version is outdated, a newer one a conflict", () => {
  const isOld = (version: number) => isOutdated(version, "/l");
  assertEquals([isOld(0), isOld(SCHEMA_VERSION - 1), isOld(SCHEMA_VERSION)], [true, true, false]);
  const error = assertThrows(() => isOld(SCHEMA_VERSION + 1), SbxError);
  assertEquals(error.code, "ledger.version.conflict");
});
