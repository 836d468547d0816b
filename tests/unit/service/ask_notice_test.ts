/** Desktop notifications of asks, by a real program in place of notify-send. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { AskNotifier } from "../../../lib/service/ask_notice.ts";
import { eventually } from "../../helper/sbx.ts";

const ask = (subject: string, status: "pending" | "expired" = "pending") => ({
  type: "ask" as const,
  payload: {
    ask_id: "ask-3f2a90c1d7e4",
    event_id: "3f2a90c1d7e4",
    session_id: "s1",
    event_type: "http.request",
    subject,
    rule_id: "r",
    reason: "a reason",
    created_at: "2026-01-01T00:00:00.000Z",
    expires_at: "2026-01-01T00:01:00.000Z",
    status,
  },
});

/** Takes notices with a program that writes its arguments to a file. @returns what it wrote */
async function shown(take: (notifier: AskNotifier) => void, env: Record<string, string>, isOn = true) {
  const dir = await Deno.makeTempDir();
  try {
    const program = join(dir, "notify");
    const out = join(dir, "out");
    await Deno.writeTextFile(program, `#!/bin/sh\nprintf '%s\\n' "$@" >${out}.new; mv ${out}.new ${out}\n`);
    await Deno.chmod(program, 0o755);
    const notifier = new AskNotifier({ isOn: () => isOn, nameOf: () => "dev", env, program });
    take(notifier);
    const read = () => Deno.readTextFile(out).catch(() => undefined);
    if (isOn && env.DISPLAY) await eventually("it is shown", async () => await read() !== undefined);
    else await new Promise((resolve) => setTimeout(resolve, 50));
    return await read();
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("an ask is shown with its VM, its subject and the answers, as text", async () => {
  const text = await shown((notifier) => {
    notifier.take(ask("GET http://x/<b>\u001b[2J --icon=x"));
    notifier.take(ask("another"));
  }, { DISPLAY: ":0" });
  assertEquals(text!.split("\n").slice(2, 5), ["--", "sbx: dev asks", "GET http://x/&lt;b&gt;�[2J --icon=x"]);
  assertStringIncludes(text!, "sbx allow ask-3f2a90c1d7e4, or sbx deny ask-3f2a90c1d7e4");
  assertEquals(text!.includes("another"), false);
});

Deno.test("nothing is shown without a display, when it is off, and for an ask that is over", async () => {
  assertEquals(await shown((notifier) => notifier.take(ask("x")), {}), undefined);
  assertEquals(await shown((notifier) => notifier.take(ask("x")), { DISPLAY: ":0" }, false), undefined);
  assertEquals(await shown((notifier) => notifier.take(ask("x", "expired")), { PATH: "" }), undefined);
});
