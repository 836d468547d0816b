/** Opening handshakes of WebSockets (RFC 6455 §4): one reading, or none. */
import { assertEquals, assertThrows } from "@std/assert";
import { MessageFault } from "../../../lib/network/fault.ts";
import type { RequestHead } from "../../../lib/network/message/head.ts";
import type { Header } from "../../../lib/network/message/header.ts";
import { checkAccept, upgradeOf } from "../../../lib/network/websocket/mod.ts";

/** Key and accept of the example in RFC 6455 §1.3. */
const KEY: Header = ["sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="];
const ACCEPT: Header = ["sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="];
const VERSION: Header = ["sec-websocket-version", "13"];
const UPGRADE: Header = ["upgrade", "WebSocket"];

/** The upgrade of a request with these fields beside those of a valid one. */
function upgrade(
  { without, more = [], hasBody = false, ...head }: Partial<RequestHead> & {
    without?: string;
    more?: Header[];
    hasBody?: boolean;
  },
): string | undefined {
  const valid: Header[] = [["connection", "keep-alive, Upgrade"], UPGRADE, VERSION, KEY];
  const headers = [...valid.filter(([name]) => name !== without), ...more];
  return upgradeOf({ method: "GET", target: "/", old: false, headers, ...head }, hasBody);
}

Deno.test("a request asks for a WebSocket when it names it in both fields", () => {
  assertEquals(upgrade({}), "websocket");
  for (const connection of ["upgrade", "UPGRADE", "te,upgrade", "upgrade\t,te"]) {
    assertEquals(upgrade({ without: "connection", more: [["connection", connection]] }), "websocket");
  }
  for (const connection of ["xupgrade", "upgraded", "close"]) {
    assertEquals(upgrade({ without: "connection", more: [["connection", connection]] }), undefined);
  }
  assertEquals(upgrade({ without: "upgrade" }), undefined);
  assertEquals(upgrade({ without: "connection", more: [["x-connection", "upgrade"]] }), undefined);
  assertEquals(upgrade({ without: "upgrade", more: [["upgrade", "h2c"]], method: "POST" }), undefined);
});

Deno.test("a request for a WebSocket that is no valid handshake is refused", () => {
  const cases: [Parameters<typeof upgrade>[0], reason: string][] = [
    [{ method: "POST" }, "not a plain GET"],
    [{ old: true }, "not a plain GET"],
    [{ hasBody: true }, "not a plain GET"],
    [{ without: "sec-websocket-version" }, "other than 13"],
    [{ without: "sec-websocket-version", more: [["sec-websocket-version", "8"]] }, "other than 13"],
    [{ more: [VERSION] }, "other than 13"],
    [{ without: "sec-websocket-key" }, "invalid Sec-WebSocket-Key"],
    [{ without: "sec-websocket-key", more: [["sec-websocket-key", "short=="]] }, "invalid Sec-WebSocket-Key"],
    [{ more: [KEY] }, "invalid Sec-WebSocket-Key"],
  ];
  for (const [request, reason] of cases) assertThrows(() => upgrade(request), MessageFault, reason);
});

Deno.test("an upstream accepts with the digest of the key, and once", () => {
  checkAccept([["x", "y"], KEY], [["x", "y"], ACCEPT]);
  const cases: [Header[], reason: string][] = [
    [[], "invalid Sec-WebSocket-Accept"],
    [[[ACCEPT[0], "AAAAAAAAAAAAAAAAAAAAAAAAAAA="]], "invalid Sec-WebSocket-Accept"],
    [[ACCEPT, ACCEPT], "invalid Sec-WebSocket-Accept"],
  ];
  for (const [response, reason] of cases) {
    assertThrows(() => checkAccept([KEY], response), MessageFault, reason);
  }
});
