import type { AcrossCosts, CostReport, VmSummary } from "../../../lib/client/api/mod.ts";
import {
  type Arguments,
  type Command,
  daysOption,
  JSON_OPTION,
  sinceOf,
} from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { budgetLine, formatTotal, PRICE_HINT } from "./event_totals.ts";
import { table, usageError } from "../output.ts";
import { exitCode } from "./across.ts";

/** Days of a list by day. */
const DAYS = 30;

export const command: Command = {
  name: "costs",
  usage: "[NAME] [--by-day [--days N]] [--json]",
  summary: "show tokens and cost of model calls, of one VM or of all",
  notes: [
    "Works also after the VM was deleted.",
    "--by-day has a line for each day (UTC, as budgets count) and model, over all sessions, of deleted VMs too.",
    "Costs are estimates from a table of list prices. A model outside of it counts at its family's price, else as the dearest of its provider, and is marked, as is a price that no source has; network.model_price_file adds prices.",
  ],
  options: [{ name: "by-day", about: "by day and model, of all sessions" }, daysOption(DAYS), JSON_OPTION],
  words: { min: 0, max: 1 },
  completes: ["vms"],
  examples: ["sbx costs", "sbx costs dev", "sbx costs --by-day --days 7"],
  async run(args) {
    const client = await connect();
    if (args.has("by-day")) return await listDays(client, args);
    if (args.has("days")) throw usageError(command, "--days is for --by-day");
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

async function listDays(client: Client, args: Arguments): Promise<number> {
  const [vm] = args.words;
  const query = { vm, since: String(sinceOf(args, DAYS)) };
  const costs = await client.json<AcrossCosts>("GET", "/sessions/costs", { query });
  await (args.has("json") ? printJson(costs) : print(formatDays(costs)));
  return exitCode(args, costs.days.length, costs.unreadable);
}

/** Formats costs by day and model, the oldest day first, and their sum. */
export function formatDays({ days, prices }: Pick<AcrossCosts, "days" | "prices">): string {
  if (days.length === 0) return "no model calls";
  const rows = days.map((line) => [
    ...[line.day, line.provider, line.model],
    ...[line.calls, line.input_tokens, line.cached_input_tokens, line.output_tokens].map(String),
    priceOf(line),
  ]);
  return [table(["DAY (UTC)", "PROVIDER", "MODEL", ...AMOUNTS], rows), ...totalLines(days, prices)].join(
    "\n",
  );
}

const AMOUNTS = ["CALLS", "INPUT", "OF IT CACHED", "OUTPUT", "COST"];

function totalLines(lines: Amounts[], prices: string): string[] {
  const sum = (key: "cost_micros" | "unpriced_calls" | "estimated_calls") =>
    lines.reduce((total, line) => total + line[key], 0);
  const [unpriced, estimated] = [sum("unpriced_calls"), sum("estimated_calls")];
  const total = formatTotal({
    usd: sum("cost_micros") / 1e6,
    unpriced_calls: unpriced,
    estimated_calls: estimated,
  });
  return [`total ${total}; ${prices}`, ...unpriced + estimated > 0 ? [PRICE_HINT] : []];
}

type VmCosts = Omit<CostReport, "days"> & { vm: string };

/** Formats costs, one line per model of a VM, and their sum; then a line for each limit of a budget. */
export function formatCosts(reports: VmCosts[]): string {
  return [formatModels(reports), ...formatBudgets(reports)].join("\n");
}

function formatBudgets(reports: VmCosts[]): string[] {
  return reports.flatMap(({ vm, budgets }) => budgets.map((use) => `${vm}: ${budgetLine(use)}`));
}

function formatModels(reports: VmCosts[]): string {
  const lines = reports.flatMap(({ vm, models }) => models.map((each) => ({ vm, ...each })));
  if (lines.length === 0) return "no model calls";
  const rows = lines.map((line) => [
    line.vm,
    line.provider,
    line.model,
    ...[line.calls, line.input_tokens, line.cached_input_tokens, line.output_tokens].map(String),
    priceOf(line),
  ]);
  return [table(["VM", "PROVIDER", "MODEL", ...AMOUNTS], rows), ...totalLines(lines, reports[0].prices)].join(
    "\n",
  );
}

type Amounts = CostReport["models"][number];

function priceOf({ provider, cost_micros, unpriced_calls, price_basis }: Amounts): string {
  const cost = `$${(cost_micros / 1e6).toFixed(4)}`;
  if (unpriced_calls > 0) {
    return cost_micros === 0 ? "price not known" : `${cost}, ${unpriced_calls} without a known price`;
  }
  switch (price_basis) {
    case "family":
      return `about ${cost}, its family's price`;
    case "dearest":
      return `at most ${cost}, the dearest of ${provider}`;
    case "unchecked":
      return `about ${cost}, an unchecked price`;
    default:
      return cost;
  }
}
