/** sbx-bench: measures this guest, as JSON, for `sbx bench NAME`, which measures the host in the same way. */
import { type GuestBench, measure, MEASURE_NAMES, RUNS_DEFAULT } from "../../../lib/machine/bench/mod.ts";
import { GUEST_WORKSPACE } from "../../../lib/event/mod.ts";
import { writeAll } from "../../../lib/base/wire/mod.ts";

const ABOUT = `sbx-bench [--only NAME] [--runs N]

Prints milliseconds as JSON. NAME is one of ${MEASURE_NAMES.join(", ")}; N is the number of programs
that the measurement "process" starts.`;

/** Reserved address (RFC 5737) and name (RFC 6761): the host itself refuses it and asks no server. */
const PROBE = { hostname: "192.0.2.1", port: 80 };
const REQUEST = new TextEncoder().encode(
  "GET / HTTP/1.1\r\nHost: sbx-bench.invalid\r\nConnection: close\r\n\r\n",
);

async function request(): Promise<void> {
  using connection = await Deno.connect(PROBE);
  await writeAll(connection, REQUEST);
  const chunk = new Uint8Array(4096);
  let bytes = 0;
  for (let read = await connection.read(chunk); read !== null; read = await connection.read(chunk)) {
    bytes += read;
  }
  if (bytes === 0) throw new Error("the network proxy closed a connection without an answer");
}

const { only, runs } = readArguments(Deno.args);
// The workspace has snapshots: measuring there leaves no file behind.
const measures = await measure({ workspace: GUEST_WORKSPACE, own: "/var/tmp", request }, { only, runs })
  .catch((error) => {
    console.error(`sbx-bench: ${error.message}`);
    Deno.exit(1);
  });
const report: GuestBench = { schema: "sbx.guest-bench.v1", measures };
console.log(JSON.stringify(report));

function readArguments(args: string[]) {
  const [only, runs] = ["--only", "--runs"].map((option) =>
    args.includes(option) ? args[args.indexOf(option) + 1] : undefined
  );
  const name = MEASURE_NAMES.find((name) => name === only);
  const given = Number(runs ?? RUNS_DEFAULT);
  const isValid = args.length === 2 * [only, runs].filter((value) => value !== undefined).length &&
    (only === undefined || name !== undefined) && Number.isInteger(given) && given > 0;
  if (!isValid) {
    console.error(ABOUT);
    Deno.exit(2);
  }
  return { only: name && [name], runs: given };
}
