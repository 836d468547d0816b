import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { writeAll } from "../../../lib/base/wire/mod.ts";
import { type BenchReport, benchReport, type BenchRound, measure } from "../../../lib/machine/bench/mod.ts";
import { connect } from "../connect.ts";
import { guestReport } from "./guest_report.ts";
import { table } from "../output.ts";

const ROUNDS_DEFAULT = 3;
const ROUNDS_MAX = 100;

export const command: Command = {
  name: "bench",
  usage: "NAME [--rounds N] [--json]",
  summary: "compare the speed of a running VM with this machine's",
  notes: [
    "Measures CPU, memory, disks, program starts and the network.",
    "VM and machine take turns; a ratio is the median of the rounds, and 1 is as fast as this machine.",
    "The network is measured with requests to sbx-bench.invalid, which sbx refuses itself and records.",
  ],
  options: [
    {
      name: "rounds",
      value: "N",
      about: `measure N times, 1 to ${ROUNDS_MAX}; ${ROUNDS_DEFAULT} unless given`,
    },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  completes: ["vms"],
  examples: ["sbx bench demo", "sbx bench demo --rounds 10 --json"],
  async run(args) {
    const { GuestBenchSchema } = await import("../../../lib/machine/bench/schema.ts");
    const [name] = args.words;
    const count = args.number("rounds", { min: 1, max: ROUNDS_MAX }) ?? ROUNDS_DEFAULT;
    const client = await connect();
    const rounds: BenchRound[] = [];
    for (let round = 1; round <= count; round++) {
      if (!args.has("json")) note(`round ${round} of ${count}`);
      const { measures } = await guestReport(client, name, ["sbx-bench"], GuestBenchSchema);
      rounds.push({ guest: measures, host: await measureHost() });
    }
    const report = benchReport(name, rounds);
    await (args.has("json") ? printJson(report) : print(formatBench(report)));
    return 0;
  },
};

/** Measures this machine: on the disk of the home, where workspaces and disks of VMs are, and on loopback. */
async function measureHost() {
  const { dir: folder } = home();
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr as Deno.NetAddr;
  const serving = serve(listener);
  try {
    return await measure({ workspace: folder, own: folder, request: () => request(port) });
  } finally {
    listener.close();
    await serving;
  }
}

async function serve(listener: Deno.TcpListener): Promise<void> {
  const answer = new Uint8Array(512);
  for await (const connection of listener) {
    await connection.read(new Uint8Array(512));
    await writeAll(connection, answer);
    connection.close();
  }
}

async function request(port: number): Promise<void> {
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  await writeAll(connection, new Uint8Array(64));
  const chunk = new Uint8Array(4096);
  while (await connection.read(chunk) !== null);
}

/** Formats a report, one measurement per line. */
export function formatBench({ measures }: BenchReport): string {
  const rows = measures.map((
    { what, vm_ms, host_ms, ratio },
  ) => [`${vm_ms} ms`, `${host_ms} ms`, `${ratio}×`, what]);
  return table(["VM", "HOST", "RATIO", "OF"], rows);
}
