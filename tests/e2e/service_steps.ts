/** Steps of jobs_test.ts: services of the profile `mine` in the VM `dev`. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Job } from "../../lib/client/api/mod.ts";
import type { DecidedEvent } from "../../lib/event/mod.ts";
import { eventually, type Sbx } from "../helper/sbx.ts";

/** A server, one that needs it, and one that policy blocks. */
export const SERVICES = `
[services.web]
command = ["python3", "-m", "http.server", "--bind", "127.0.0.1", "8123"]
cwd = "/tmp"
ready = { port = 8123 }

[services.client]
command = ["sh", "-c", "python3 -c 'import urllib.request as u; print(u.urlopen(\\"http://127.0.0.1:8123\\").status)'; exec sleep 400"]
after = ["web"]

[services.blocked]
command = ["curl", "x"]
`;

export async function serviceSteps(t: Deno.TestContext, sbx: Sbx): Promise<void> {
  const service = async (name: string): Promise<Job> => {
    const { services } = JSON.parse(await sbx.ok("services", "dev", "--json"));
    return services.find((each: Job) => each.service?.name === name)!;
  };
  const ready = (name: string, restarts: number) =>
    eventually(`${name} is ready`, async () => {
      const found = (await service(name)).service;
      return found?.state === "Ready" && found.restarts === restarts;
    });
  /** process ids of the server, as the guest has them */
  const pids = async () => (await sbx.cli("exec", "dev", "--", "pgrep", "-f", "http.server.*812[3]")).stdout;

  await t.step("services start with the VM, the second once the first one listens", async () => {
    await ready("web", 0);
    await ready("client", 0);
    await eventually(
      "it was there",
      async () => (await sbx.ok("services", "logs", "dev", "client")).includes("200\n"),
    );
    const { service: blocked, exit_code } = await service("blocked");
    assertEquals([blocked?.state, blocked?.reason, exit_code], ["Failed", "policy blocked it", 126]);
    assertStringIncludes(await sbx.ok("info", "dev"), "its service blocked has failed: policy blocked it");
    assertStringIncludes(
      (await sbx.cli("status")).stdout,
      "its service blocked has failed: policy blocked it",
    );
    assertStringIncludes(await sbx.ok("jobs", "dev"), "web: python3 -m http.server");
    const statements = await sbx.ok("sql", "dev", "SELECT record FROM statements WHERE kind = 'service'");
    assertStringIncludes(statements, "policy blocked it");
  });

  await t.step("a service that is killed starts again, and both ends are on record", async () => {
    const { event_id } = await service("web");
    await sbx.ok("exec", "dev", "--", "pkill", "-9", "-f", "http.server.*812[3]");
    await ready("web", 1);
    assertEquals((await service("web")).service?.last_exit_code, 137);
    const { events }: { events: DecidedEvent[] } = JSON.parse(await sbx.ok("events", "dev", "--json"));
    const own = events.filter(({ common }) => common.labels?.service === "web" && common.actor === "host");
    assertEquals(own.map(({ common }) => common.event_type), [
      "process.exec",
      "process.exit",
      "process.exec",
    ]);
    assertEquals(own[1].common.labels?.event_id, event_id);
  });

  await t.step("stop, start and restart of one service", async () => {
    assertStringIncludes(await sbx.ok("services", "stop", "dev", "web"), "web is Stopped");
    assertEquals(await pids(), "");
    await sbx.ok("services", "start", "dev", "web");
    await ready("web", 0);
    const before = await pids();
    await sbx.ok("services", "restart", "dev", "web");
    await ready("web", 0);
    assert(before !== await pids() && before !== "");
    const { code, stderr } = await sbx.cli("services", "stop", "dev", "nope");
    assertEquals(code, 1);
    assertStringIncludes(stderr, 'no service "nope"');
  });

  const { features } = JSON.parse(await sbx.ok("info", "dev", "--json"));
  await t.step({
    name: "a service goes on over a fork and a suspension of its VM, watched again afterwards",
    ignore: !features.live_fork || !features.save_state,
    async fn() {
      const before = await pids();
      await sbx.ok("fork", "dev", "copy");
      const inCopy = await sbx.ok("exec", "copy", "--", "pgrep", "-f", "http.server.*812[3]");
      assertEquals([await pids(), inCopy], [before, before]);
      await sbx.ok("delete", "copy", "--force");
      await sbx.ok("suspend", "dev");
      assertStringIncludes(await sbx.ok("services", "dev"), "Suspended");
      await sbx.ok("resume", "dev");
      await ready("web", 0);
      assertEquals(await pids(), before);
      await sbx.ok("exec", "dev", "--", "pkill", "-9", "-f", "http.server.*812[3]");
      await ready("web", 1);
    },
  });

  await t.step("a stop and a start of the VM start them again", async () => {
    const { id } = await service("web");
    await sbx.ok("stop", "dev");
    assertEquals((await service("web")).service?.state, "Stopped");
    await sbx.ok("start", "dev");
    await ready("web", 0);
    assertEquals((await service("web")).id, id);
  });
}
