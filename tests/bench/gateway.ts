/**
 * Requests a second through the gateway, beside the same requests straight to the service's
 * socket (the floor). Service, gateway and client are processes of their own. Also printed: what
 * service and gateway hold when idle.
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const REQUESTS = 6000;
const ROUNDS = 3;
const CLIENTS = [1, 8, 32];
const self = fileURLToPath(import.meta.url);
const main = fileURLToPath(import.meta.resolve("../../main.ts"));

/** Parameters of the client process. */
interface Load {
  url: string;
  socket?: string;
  token?: string;
  clients: number;
}

/** Prints requests a second. */
async function client({ url, socket, token, clients }: Load): Promise<void> {
  const client = socket
    ? Deno.createHttpClient({ proxy: { transport: "unix", path: socket } })
    : Deno.createHttpClient({});
  const headers: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};
  const run = async (total: number) => {
    let left = total;
    const one = async () => {
      while (left-- > 0) {
        const answer = await fetch(url, { client, headers });
        if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
        await answer.text();
      }
    };
    const began = performance.now();
    await Promise.all(Array.from({ length: clients }, one));
    return total / (performance.now() - began) * 1000;
  };
  await run(REQUESTS / 4);
  console.log(await run(REQUESTS));
}

async function measure(load: Load): Promise<number> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--quiet", self, "client", JSON.stringify(load)],
  }).output();
  if (code !== 0) throw new Error(new TextDecoder().decode(stderr));
  return Number(new TextDecoder().decode(stdout));
}

function start(args: string[], env: Record<string, string> = {}): Deno.ChildProcess {
  return new Deno.Command(Deno.execPath(), { args: ["run", "-A", "--quiet", ...args], env, stdout: "null" })
    .spawn();
}

async function appears(path: string): Promise<void> {
  while (!(await Deno.lstat(path).then(() => true, () => false))) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Megabytes that a process holds in memory. */
function rssMb(pid: number): number {
  const pages = Number(Deno.readTextFileSync(`/proc/${pid}/statm`).split(" ")[1]);
  return Math.round(pages * 4096 / 1e6);
}

const median = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1];

async function compare(): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "sbx-bench-" });
  const run = join(dir, "run");
  await Deno.mkdir(run);
  const socket = join(run, "service.sock");
  const env = { SBX_HOME: dir, SBX_RUN_DIR: run };
  const children = [start([main, "service"], env)];
  try {
    await appears(socket);
    children.push(start([main, "gateway", "--port", "0"], env));
    await appears(join(run, "gateway.pid"));
    const port = Number(await Deno.readTextFile(join(run, "gateway.port")));
    const token = await Deno.readTextFile(join(run, "gateway.token"));
    const [service_rss_mb, gateway_rss_mb] = children.map(({ pid }) => rssMb(pid));
    const by_clients: Record<number, { straight: number; gateway: number; ratio: number }> = {};
    for (const clients of CLIENTS) {
      const straight: number[] = [];
      const gateway: number[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        straight.push(await measure({ url: "http://service/version", socket, clients }));
        gateway.push(await measure({ url: `http://127.0.0.1:${port}/version`, token, clients }));
      }
      const [floor, value] = [median(straight), median(gateway)].map(Math.round);
      by_clients[clients] = { straight: floor, gateway: value, ratio: Number((value / floor).toFixed(2)) };
    }
    const { ratio } = by_clients[32];
    console.log(
      JSON.stringify({
        name: "gateway",
        unit: "requests/s",
        ratio,
        target: ">= 0.6",
        by_clients,
        service_rss_mb,
        gateway_rss_mb,
      }),
    );
  } finally {
    for (const child of children.reverse()) {
      child.kill("SIGTERM");
      await child.status;
    }
    await Deno.remove(dir, { recursive: true });
  }
}

const [role, argument] = Deno.args;
if (role === "client") await client(JSON.parse(argument));
else await compare();
