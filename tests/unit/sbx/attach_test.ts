/** The user's terminal, attached to one in a VM. */
import { assertEquals } from "@std/assert";
import { fromRoot } from "../../helper/repo.ts";
import { runChild } from "../../helper/child.ts";

/** A socket whose first frames come in the turn of the event loop in which the terminal is there. */
const PROGRAM = `
import { attach } from "${new URL("../../../cmd/sbx/vm/attach.ts", import.meta.url)}";
class Socket extends EventTarget {
  readyState = WebSocket.OPEN;
  send() {}
  close() {}
}
const socket = new Socket();
const text = (words) => ({ data: new TextEncoder().encode(words).buffer });
setTimeout(() => {
  socket.onmessage(text(""));
  socket.onmessage(text("first "));
  setTimeout(() => {
    socket.onmessage(text("second"));
    socket.onclose({ code: 1000, reason: "" });
  });
});
const { code } = await attach(socket, "a terminal", false);
Deno.exit(code === 1000 ? 0 : 1);
`;

Deno.test("output that comes with the opening of the terminal is shown", async () => {
  const { code, stdout, stderr } = await runChild(Deno.execPath(), {
    args: ["eval", "--quiet", "--config", fromRoot("deno.json"), PROGRAM],
  });
  const decoder = new TextDecoder();
  assertEquals([code, decoder.decode(stdout)], [0, "first second"], decoder.decode(stderr));
});
