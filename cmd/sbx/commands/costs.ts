import type { CostReport, VmSummary } from "../../../lib/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { budgetLine } from "../budget_line.ts";
import { table } from "../output.ts";

export const command: Command = {
  name: "costs",
  usage: "[NAME] [--json]",
  summary:
    "show what the model calls of a session, or of every VM, used and cost; also after the VM was deleted",
  notes: [
    "Costs are estimates from a table of list prices; calls to other models are named without a price.",
  ],
  options: [JSON_OPTION],
  words: { min: 0, max: 1 },
  completesNames: true,
  examples: ["sbx costs", "sbx costs dev"],
  async run(args) {
    const client = await connect();
    const names = args.words.length > 0 ? args.words : await vmNames(client);
    const reports = await Promise.all(
      names.map(async (vm) => ({
        vm,
        ...await client.json<CostReport>("GET", `/sessions/${segment(vm)}/costs`),
      })),
    );
    await (args.has("json") ? printJson({ costs: reports }) : print(formatCosts(reports)));
    return 0;
  },
};

async function vmNames(client: Client): Promise<string[]> {
  const { vms } = await client.json<{ vms: VmSummary[] }>("GET", "/vms/list");
  return vms.map(({ name }) => name);
}

/** Formats costs, one model of a VM a line, and their sum; then a line for each limit of a budget. */
export function formatCosts(reports: (CostReport & { vm: string })[]): string {
  return [formatModels(reports), ...formatBudgets(reports)].join("\n");
}

function formatBudgets(reports: (CostReport & { vm: string })[]): string[] {
  return reports.flatMap(({ vm, budgets }) => budgets.map((use) => `${vm}: ${budgetLine(use)}`));
}

function formatModels(reports: (CostReport & { vm: string })[]): string {
  const lines = reports.flatMap(({ vm, models }) => models.map((each) => ({ vm, ...each })));
  if (lines.length === 0) return "no model calls";
  const rows = lines.map(({ vm, provider, model, calls, unpriced_calls, ...used }) => [
    vm,
    provider,
    model,
    ...[calls, used.input_tokens, used.cached_input_tokens, used.output_tokens].map(String),
    priceOf(used.cost_micros, calls, unpriced_calls),
  ]);
  const total = lines.reduce((sum, { cost_micros }) => sum + cost_micros, 0);
  const unpriced = lines.reduce((sum, { unpriced_calls }) => sum + unpriced_calls, 0);
  const rest = unpriced > 0 ? `, and ${count(unpriced, "call")} whose price is not known` : "";
  const head = ["VM", "PROVIDER", "MODEL", "CALLS", "INPUT", "OF IT CACHED", "OUTPUT", "COST"];
  return `${table(head, rows)}\ntotal ${dollars(total)}${rest}; ${reports[0].prices}`;
}

function priceOf(micros: number, calls: number, unpriced: number): string {
  if (unpriced === 0) return dollars(micros);
  return unpriced >= calls ? "price not known" : `${dollars(micros)}, ${unpriced} without a known price`;
}

function dollars(micros: number): string {
  return `$${(micros / 1e6).toFixed(4)}`;
}
