/**
 * A server in a VM through a forwarded port, beside the floor: the same requests by curl in the VM itself. A
 * short request has a connection of its own, as each is a decision and an event; a long one is 32 MiB.
 */
import { Sbx } from "../helper/sbx.ts";
import { median, rounded, timed } from "../helper/statistics.ts";

const ROUNDS = 10;
const REQUESTS = 10;
const MEBIBYTES = 32;
const PORT = 8123;
const SERVER =
  `head -c ${MEBIBYTES}M /dev/zero >/root/long; echo short >/root/short; exec python3 -m http.server -d /root ${PORT}`;

const sbx = await Sbx.make();
try {
  await sbx.ok("create", "bench");
  await sbx.ok("exec", "--detach", "bench", "-c", SERVER);
  await sbx.ok(
    "exec",
    "bench",
    "-c",
    `until curl -sf -o /dev/null localhost:${PORT}/short; do sleep 0.1; done`,
  );
  const { host_port } = JSON.parse(await sbx.ok("port", "bench", String(PORT), "--json"));

  /** Seconds of curl in the guest for some requests, without its start, as `ms`. */
  const inGuest = async (path: string, times: number): Promise<number[]> => {
    const line =
      `for i in $(seq ${times}); do curl -s -o /dev/null -w '%{time_total}\\n' 127.0.0.1:${PORT}/${path}; done`;
    return (await sbx.ok("exec", "bench", "-c", line)).trim().split("\n").map((seconds) =>
      Number(seconds) * 1000
    );
  };
  const throughPort = async (path: string): Promise<number> => {
    const client = Deno.createHttpClient({ poolMaxIdlePerHost: 0 });
    try {
      return await timed(async () => {
        const answer = await fetch(`http://127.0.0.1:${host_port}/${path}`, { client });
        for await (const _ of answer.body!);
      });
    } finally {
      client.close();
    }
  };

  const times: Record<"short" | "long", { floor: number[]; value: number[] }> = {
    short: { floor: [], value: [] },
    long: { floor: [], value: [] },
  };
  for (let round = 0; round < ROUNDS; round++) {
    times.short.floor.push(median(await inGuest("short", REQUESTS)));
    const each: number[] = [];
    for (let i = 0; i < REQUESTS; i++) each.push(await throughPort("short"));
    times.short.value.push(median(each));
    times.long.floor.push((await inGuest("long", 1))[0]);
    times.long.value.push(await throughPort("long"));
  }
  const beside = ({ floor, value }: { floor: number[]; value: number[] }) => ({
    floor: rounded(median(floor)),
    value: rounded(median(value)),
    ratio: rounded(median(value.map((each, round) => each / floor[round]))),
  });
  const long = beside(times.long);
  console.log(JSON.stringify({
    name: "port",
    unit: "ms, p50",
    short: beside(times.short),
    long: { ...long, mib_per_s: rounded(MEBIBYTES / long.value * 1000) },
    rounds: ROUNDS,
  }));
} finally {
  await sbx.dispose();
}
