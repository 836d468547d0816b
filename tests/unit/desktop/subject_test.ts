import { assertEquals } from "@std/assert";
import { subjectOf } from "../../../cmd/desktop/part/subject.ts";
import type { Event } from "../../../lib/event/mod.ts";

Deno.test("the subject of an event names its server, and the fate of a secret", () => {
  const subject = (family: Partial<Event>) => subjectOf(family as Event);
  const request = {
    method: "tools/call",
    server_name: "files",
    tool_name: "read",
    namespaced_tool_name: "files__read",
    arguments: {},
  };
  assertEquals(subject({ mcp: { request } }), "tools/call files read");
  const substitution = { provider: "github", credential_ref: "ref", outcome: "denied" } as const;
  assertEquals(subject({ credential: { substitution } }), "denied github");
  assertEquals(subject({}), "");
});
