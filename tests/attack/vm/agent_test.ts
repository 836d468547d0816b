/**
 * Attacks on the guest's agent and on the terminals and programs of the person, by a program
 * of the guest without privileges.
 */
import { assert, assertEquals } from "@std/assert";
import { eventually, Sbx } from "../../helper/sbx.ts";

/** Guest program that runs as nobody: `deno run … SCRIPT` with vsock. */
const AS_NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
const DENO = ["env", "DENO_DIR=/tmp/nobody", "deno", "run", "-A", "--unstable-vsock"];

/** Fills each port that the agent uses with silent connections, and goes on opening more. */
const FLOOD = `
const held = [];
while (true) {
  for (const port of [5001, 5005]) {
    for (let i = 0; i < 256; i++) {
      held.push(await Deno.connect({ transport: "vsock", cid: 2, port }).catch(() => null));
    }
  }
  await Deno.writeTextFile("/tmp/flooded", "");
  await new Promise((resolve) => setTimeout(resolve, 1000));
  for (const conn of held.splice(0, held.length - 1024)) conn?.close();
}
`;

/** Tries to become the stream of programs and terminals with ids that are easy to guess. */
const GUESS = `
const frame = (value) => {
  const body = new TextEncoder().encode(JSON.stringify(value));
  const bytes = new Uint8Array(4 + body.length);
  new DataView(bytes.buffer).setUint32(0, body.length);
  bytes.set(body, 4);
  return bytes;
};
const attempt = async (port, first, then) => {
  const conn = await Deno.connect({ transport: "vsock", cid: 2, port });
  await conn.write(frame(first));
  await conn.write(then);
  // The end of a vsock connection may get lost.
  setTimeout(() => conn.close(), 2000);
  const chunk = new Uint8Array(4096);
  for (let read = await conn.read(chunk); read !== null; read = await conn.read(chunk)) {
    await Deno.stdout.write(chunk.subarray(0, read));
  }
};
const forged = new TextEncoder().encode("FORGED");
const bad = frame({ stream: "stdout", data: "not base64!" });
const ids = Array.from({ length: 120 }, (_, i) => [i + 1, (i + 1).toString(16).padStart(32, "0")]).flat();
await Promise.all(ids.flatMap((id) => [
  attempt(5001, { t: "Attach", id }, forged).catch(() => {}),
  attempt(5005, { t: "ExecStarted", id }, bad).catch(() => {}),
]));
console.log("guessed");
`;

Deno.test("a program of the guest can neither end the agent nor get between it and the host", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  try {
    await sbx.ok("create", "dev");
    const { id } = JSON.parse(await sbx.ok("info", "dev", "--json"));
    const exec = async (body: Record<string, unknown>) => (await sbx.api("POST", "/vms/dev/exec", body)).body;
    const isAlive = async () =>
      assertEquals((await exec({ command: "echo alive" })).stdout, "alive\n", "the VM still runs programs");
    const write = (path: string, body: string) =>
      sbx.fetch(`/vms/dev/files/content?path=${path}`, { method: "POST", body }).then((it) =>
        it.body?.cancel()
      );
    await write("flood.js", FLOOD);
    await write("guess.js", GUESS);

    await t.step("a terminal that is left while its program writes ends only that program", async () => {
      for (let i = 0; i < 3; i++) {
        const yes = await attach(sbx, id, ["yes"]);
        await eventually("it writes", () => yes.text().includes("y"));
        yes.socket.close();
      }
      await eventually("it is gone", async () => {
        return (await exec({ command: "ps -e -o comm | grep -cx yes" })).stdout === "0\n";
      });
      await isAlive();
    });

    await t.step(
      "a program whose child leaves with its output ends by itself or at its limit, with what it wrote",
      async () => {
        for (const [rest, code] of [["", 0], ["; sleep 300", 124]] as const) {
          const command = ["sh", "-c", `setsid -f sleep 999; echo out${rest}`];
          const { exit_code, stdout } = await exec({ command, timeout_secs: 2 });
          assertEquals([exit_code, stdout], [code, "out\n"]);
        }
        await isAlive();
      },
    );

    await t.step("an error longer than the host takes is cut", async () => {
      assertEquals((await exec({ command: ["/" + "x".repeat(100_000)] })).exit_code, 126);
      await isAlive();
    });

    await t.step("a terminal and a program do not answer to a guessed id", async () => {
      const terminal = await attach(sbx, id, [
        "sh",
        "-c",
        "echo ready; read -r password; echo taken; sleep 300",
      ]);
      await eventually("it asks", () => terminal.text().includes("ready"));
      const guessing = exec({ command: [...AS_NOBODY, ...DENO, "guess.js"] });
      const ran = await exec({ command: "for i in $(seq 20); do echo $i; sleep 0.2; done" });
      terminal.type("secret of the person\n");
      await eventually("the program got it", () => terminal.text().includes("taken"));
      const { stdout } = await guessing;
      assertEquals(stdout, "guessed\n");
      assertEquals([ran.exit_code, ran.stdout.split("\n").length], [0, 21]);
      assert(!terminal.text().includes("FORGED"));
      terminal.socket.close();
      await isAlive();
    });

    await t.step(
      "a program has none of the agent's connections, not even those of another program",
      async () => {
        const terminal = await attach(sbx, id, ["sh", "-c", "ls /proc/self/fd; echo listed; sleep 300"]);
        await eventually("it lists its own", () => terminal.text().includes("listed"));
        const busy = exec({ command: "seq 100000; sleep 3" });
        const { stdout } = await exec({ command: "sleep 1; ls /proc/self/fd" });
        await busy;
        // The last one is the folder that is listed.
        assertEquals(stdout, "0\n1\n2\n3\n");
        assertEquals(terminal.text().split(/\s+/).slice(0, 4), ["0", "1", "2", "3"]);
        terminal.socket.close();
      },
    );

    await t.step("hundreds of silent connections keep nobody from programs and terminals", async () => {
      const flood = sbx.cli("exec", "dev", "--", ...AS_NOBODY, ...DENO, "flood.js");
      await eventually("it holds them", async () => {
        return (await exec({ command: "test -e /tmp/flooded" })).exit_code === 0;
      });
      for (let i = 0; i < 10; i++) {
        await isAlive();
        const terminal = await attach(sbx, id, ["echo", "a terminal"]);
        await eventually("it opens", () => terminal.text().includes("a terminal"));
        terminal.socket.close();
      }
      await exec({ command: "pkill -f flood.js" });
      await flood;
    });
  } finally {
    await sbx.dispose();
  }
});

/** A client of a VM's terminal. */
async function attach(sbx: Sbx, id: string, argv: string[]) {
  const program = encodeURIComponent(JSON.stringify(argv));
  const base = sbx.base.replace("http", "ws");
  const socket = new WebSocket(`${base}/terminal/${id}?token=${sbx.token}&argv=${program}`);
  socket.binaryType = "arraybuffer";
  const decoder = new TextDecoder();
  let text = "";
  socket.onmessage = ({ data }) => text = (text + decoder.decode(data, { stream: true })).slice(-100_000);
  await new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onerror = reject;
  });
  return { socket, text: () => text, type: (keys: string) => socket.send(new TextEncoder().encode(keys)) };
}
