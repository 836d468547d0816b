/** Development ports of a VM: those of its variable that programs listen on. */
import { assertEquals } from "@std/assert";
import { DevPorts } from "../../../lib/session/enforcement.ts";

Deno.test("ports of the variable are told, each once; others are not", () => {
  const told: number[][] = [];
  const ports = new DevPorts({ SBX_DEV_PORTS: "3000,5173, 8000,x,-1" }, (found) => told.push(found));
  for (const port of [22, 5173, 5173, 8000, 80, 3000]) ports.add(port);
  assertEquals(told, [[5173], [5173, 8000], [5173, 8000, 3000]]);
});

Deno.test("without the variable, or with an empty one, no port is told", () => {
  for (const env of [{}, { SBX_DEV_PORTS: "" }] as Record<string, string>[]) {
    new DevPorts(env, () => {
      throw new Error("told");
    }).add(3000);
  }
});
