import { assertEquals } from "@std/assert";
import { dirname } from "node:path";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { CorpStore } from "../../../lib/config/corp/mod.ts";
import { securityRoutes } from "../../../lib/client/api/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { SecurityReport, Service } from "../../../lib/service/mod.ts";
import { sessionPaths, writeRecord, writeState } from "../../../lib/session/mod.ts";
import { loadDefinitions, SettingsStore } from "../../../lib/config/settings/mod.ts";
import { requestEvent } from "../../helper/ledger.ts";
import { recordOf } from "../../helper/vm.ts";

Deno.test("the security of a VM: what its record sums up to, and what was refused last", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    const id = crypto.randomUUID();
    const paths = sessionPaths(home, id);
    for (const folder of [paths.dir, dirname(paths.ledger)]) await Deno.mkdir(folder, { recursive: true });
    await writeRecord(paths, recordOf(id, "v"));
    await writeState(paths, { state: "Stopped", boot_stages: [], pid: 0 });
    const corp = new CorpStore(home, { managed: `${dir}/corp.toml` });
    const definitions = await loadDefinitions({ get: () => undefined });
    const service = new Service({
      home,
      settings: await SettingsStore.open({ home, corp, definitions }),
      corp,
    });
    await service.supervisor.load();
    const report = new SecurityReport(service);
    const vm = service.supervisor.find("v");
    const before = await report.of(vm);
    assertEquals([before.ledger, before.evidence], [null, null]);
    assertEquals(await report.latest(vm), { findings: [], denied: [] });

    const ids: string[] = [];
    {
      await using ledger = await Ledger.open(paths.ledger, { sessionId: id });
      for (const decision of ["block", "allow", "block"]) {
        const event = requestEvent("http.request");
        event.common.session_id = id;
        ids.push(event.common.event_id);
        ledger.append({ event, decision: { decision, rule: { id: "r" } } });
      }
    }
    const { denied } = await report.latest(vm);
    assertEquals(denied.map(({ event_id }) => event_id), [ids[2], ids[0]]);
    const after = await report.of(vm);
    assertEquals(after.ledger?.events, 3);
    assertEquals(after.evidence?.hosts.rows.map(({ requests, blocked }) => [requests, blocked]), [[3, 2]]);
    const all = await report.service();
    assertEquals(all.vms.map(({ name, status }) => [name, status]), [["v", "Stopped"]]);
    const schemas = [securityRoutes.status, securityRoutes.vmStatus].map(({ responses }) =>
      responses[200].content["application/json"].schema
    );
    for (const [at, value] of [all, after].entries()) assertEquals(schemas[at].parse(value), value);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
