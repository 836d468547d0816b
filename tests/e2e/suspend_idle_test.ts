/** VMs that nobody uses are suspended and come back by themselves; in Debian trixie by `make test-large`. */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { eventually, Sbx } from "../helper/sbx.ts";
import { suspendTest } from "../helper/suspend.ts";
import { attachTerminal } from "./terminal.ts";

const SETTING = "vm.idle_suspend_minutes";
/** A minute of the setting: the shortest time in which a busy host has an idle guest. */
const MINUTE_SECS = "6";

suspendTest("a VM that nobody uses is suspended, and what needs it brings it back", async (t) => {
  const sbx = await Sbx.make({ spare: false, env: { SBX_IDLE_MINUTE_SECS: MINUTE_SECS } });
  const info = async () => JSON.parse(await sbx.ok("info", "dev", "--json"));
  const suspended = () =>
    eventually("it is suspended", async () => (await info()).status === "Suspended", 120);
  try {
    await sbx.ok("settings", "set", SETTING, "1");
    await sbx.ok("create", "dev");
    const { id } = await info();

    await t.step("programs that are run at once share one resume", async () => {
      await sbx.ok("exec", "dev", "--", "sh", "-c", "echo kept >/run/kept");
      await suspended();
      assertEquals((await info()).suspended_by, "idle");
      assertMatch(await sbx.ok("status"), /idle VMs +suspended after 1 minute/);
      const kept = () => sbx.ok("exec", "dev", "--", "cat", "/run/kept");
      assertEquals(await Promise.all([kept(), kept(), kept()]), Array(3).fill("kept\n"));
      const { started_by, started_why } = await info();
      assertEquals(started_by, "resume");
      assertEquals(started_why, "it was suspended when idle, and a program needed it");
    });

    await t.step("a terminal brings it back, and so does a call of an MCP tool", async () => {
      await suspended();
      const terminal = await attachTerminal(sbx, id);
      terminal.type("cat /run/kept\n");
      await eventually("it answers", () => /[\r\n]kept\r/.test(terminal.text()));
      terminal.socket.close();
      await suspended();
      assertStringIncludes(await sbx.ok("mcp", "call", "local__echo", '{"text": "hello"}'), "hello");
      assertEquals((await info()).started_why, "it was suspended when idle, and an MCP tool needed it");
    });

    await t.step("a program that works by itself keeps it running", async () => {
      const work = "nohup sh -c 'while [ ! -e /workspace/enough ]; do :; done' >/dev/null 2>&1 &";
      await sbx.ok("exec", "dev", "--", "sh", "-c", work);
      await new Promise((resolve) => setTimeout(resolve, 20_000));
      assertEquals((await info()).status, "Running");
      await sbx.api("POST", `/vms/dev/files/content?path=enough`);
      await suspended();
    });

    await t.step("one that a person has suspended comes back when a person says so", async () => {
      await sbx.ok("resume", "dev");
      await sbx.ok("suspend", "dev");
      assertEquals((await info()).suspended_by, "person");
      const { code, stderr } = await sbx.cli("exec", "dev", "--", "true");
      assertEquals(code, 125);
      assertStringIncludes(stderr, "possible now: resume");
    });
  } finally {
    await sbx.dispose();
  }
});
