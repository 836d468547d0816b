import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import {
  isForSbx,
  type ManifestRecord,
  selectable,
  selectRecord,
  type Status,
} from "../../../lib/release/mod.ts";

const HEX = "a".repeat(64);

function record(version: string, status: Status, bounds: Partial<ManifestRecord> = {}): ManifestRecord {
  return { version, status, url: "m", digest: { sha256: HEX, blake3: HEX, hmac: HEX }, ...bounds };
}

const versions = (records: ManifestRecord[], sbx = "1.0.0") =>
  selectable(records, sbx).map(({ version }) => version);

Deno.test("current before supported before deprecated, then the highest version; revoked never", () => {
  const records = [
    record("3.0.0", "deprecated"),
    record("1.9.0", "current"),
    record("1.10.0", "current"),
    record("2.0.0", "supported"),
    record("9.0.0", "revoked"),
    record("1.10.0-rc.2", "current"),
    record("1.10.0-rc.10", "current"),
  ];
  assertEquals(versions(records), ["1.10.0", "1.10.0-rc.10", "1.10.0-rc.2", "1.9.0", "2.0.0", "3.0.0"]);
  assertEquals(selectRecord("stable", records, "1.0.0").version, "1.10.0");
});

Deno.test("both bounds of sbx are inclusive", () => {
  const bounds = { min_sbx_version: "1.2.0", max_sbx_version: "1.4.0" };
  const fits = ["1.1.9", "1.2.0-rc.1", "1.2.0", "1.3.7", "1.4.0", "1.4.1"].filter((sbx) =>
    isForSbx(bounds, sbx)
  );
  assertEquals(fits, ["1.2.0", "1.3.7", "1.4.0"]);
  assertEquals(isForSbx({}, "0.0.1"), true);
  const records = [record("2.0.0", "current", { min_sbx_version: "1.5.0" }), record("1.0.0", "deprecated")];
  assertEquals(versions(records), ["1.0.0"]);
  assertEquals(versions(records, "1.5.0"), ["2.0.0", "1.0.0"]);
});

Deno.test("a channel with nothing to install says why", () => {
  const records = [record("1.0.0", "revoked"), record("2.0.0", "current", { min_sbx_version: "9.0.0" })];
  assertThrows(
    () => selectRecord("stable", records, "1.0.0"),
    SbxError,
    'channel "stable" has no release for sbx 1.0.0: 1 of its 2 are revoked, the others need another version',
  );
});
