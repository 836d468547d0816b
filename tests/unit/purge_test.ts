import { assertEquals } from "@std/assert";
import { leftBehind } from "../../cmd/service/routes/vms.ts";
import { VmStatus, type VmSummary } from "../../lib/api/vm.ts";

Deno.test("purge without all: neither what is persistent nor what runs, boots or stands still", () => {
  const vms = VmStatus.options.flatMap((status) =>
    [true, false].map((persistent): VmSummary => ({
      id: crypto.randomUUID(),
      name: `${status} ${persistent ? "kept" : "temporary"}`,
      profile_id: "code",
      status,
      persistent,
      available_actions: [],
    }))
  );
  assertEquals(leftBehind(vms).map(({ name }) => name), [
    "Stopped temporary",
    "Suspended temporary",
    "Defunct temporary",
  ]);
});
