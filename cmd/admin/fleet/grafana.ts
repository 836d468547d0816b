import type { Command } from "../../../lib/base/args/mod.ts";
import { printJson } from "../../../lib/base/print/mod.ts";

/** `sbx-admin fleet grafana`: the questions as a dashboard. */
export const fleetGrafana: Command = {
  name: "fleet grafana",
  usage: "",
  summary: "print a dashboard of Grafana with the prepared questions, over a ClickHouse server",
  notes: ["It needs the plugin grafana-clickhouse-datasource, with an account that may only read."],
  options: [],
  examples: ["sbx-admin fleet grafana > sbx-fleet.json"],
  async run() {
    const { grafanaDashboard } = await import("../../../lib/fleet/question/mod.ts");
    await printJson(grafanaDashboard());
    return 0;
  },
};
