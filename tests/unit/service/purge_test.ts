import { assertEquals } from "@std/assert";
import { MachineInfo } from "../../../lib/session/ipc/schema.ts";
import { isLeftBehind } from "../../../lib/service/vm/vm.ts";
import { recordOf } from "../../helper/vm.ts";

Deno.test("purge without all: neither what is persistent nor what runs, boots or stands still", () => {
  const vms = MachineInfo.shape.state.options.flatMap((state) =>
    [true, false].map((persistent) => ({
      record: {
        ...recordOf(crypto.randomUUID(), `${state} ${persistent ? "kept" : "temporary"}`),
        persistent,
      },
      state: { state, boot_stages: [], pid: 0 },
    }))
  );
  assertEquals(vms.filter(isLeftBehind).map(({ record }) => record.name), [
    "Stopped temporary",
    "Defunct temporary",
  ]);
});
