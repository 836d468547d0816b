import { assertEquals } from "@std/assert";
import { formatHistories } from "../../../cmd/sbx/start/agent_history.ts";

const KEPT = {
  agent: "claude",
  dir: "/home/me/shop",
  vm: "claude-shop",
  kept_at: "2026-01-02T03:04:05.000Z",
  size: 2048,
};

Deno.test("kept conversations are a table, and none of them a sentence", () => {
  const [head, row] = formatHistories([KEPT], "").split("\n");
  assertEquals(head.split(/ {2,}/), ["AGENT", "FOLDER", "VM", "KEPT", "SIZE"]);
  assertEquals(row.split(/ {2,}/).slice(0, 3), ["claude", "/home/me/shop", "claude-shop"]);
  assertEquals(
    formatHistories([], ""),
    "no conversations are kept yet: sbx delete NAME --keep-history keeps them",
  );
  assertEquals(
    formatHistories([], " of claude for /home/me/shop"),
    "no conversations of claude for /home/me/shop are kept yet: sbx delete NAME --keep-history keeps them",
  );
});
