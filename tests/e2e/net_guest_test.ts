/**
 * The guest's end of its network, from inside a VM: what its programs see, and what of theirs reaches the host's vsock
 * ports. A stand-in takes the host's ports over, because it can look at all that comes; what the host makes of it has
 * tests of its own.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { home } from "../../lib/base/home/mod.ts";
import { writeAll } from "../../lib/base/wire/mod.ts";
import { DnsService, Overrides } from "../../lib/network/dns/mod.ts";
import { PORTS } from "../../lib/machine/guest/mod.ts";
import { LAYER_PATH } from "../../lib/machine/guest/wire/mod.ts";
import { sessionPaths } from "../../lib/session/files/mod.ts";
import { vsockPath } from "../../lib/machine/vm/mod.ts";
import { TestGate } from "../helper/gate.ts";
import { type GuestConnection, GuestNet } from "../helper/guest_net.ts";
import { eventually, Sbx } from "../helper/sbx.ts";

const MEBIBYTE = 1024 * 1024;

/** Python of the guest: `told` prints what something answers, or its error, which is never a wait of a minute. */
const PYTHON = `
import socket, struct
socket.setdefaulttimeout(60)
def told(what):
    try: print(what())
    except Exception as error: print(type(error).__name__)
def read(s):
    data = b""
    while piece := s.recv(65536): data += piece
    return data
def query(name):
    labels = b"".join(bytes([len(part)]) + part for part in name.encode().split(b"."))
    return struct.pack(">6H", 7, 256, 1, 0, 0, 0) + labels + b"\\0\\0\\1\\0\\1"
`;

/** Tables of its rules, and how many proxies there are. */
const UP = "table inet sbx\ntable netdev sbx\n1\n";

const brokenOff: string[] = [];

/** Behaviour of the stand-in by port; the connection is closed afterwards. */
const SERVICES: Record<number, (connection: GuestConnection) => Promise<void>> = {
  async 1({ stream }) {
    const chunk = new Uint8Array(100);
    await writeAll(stream, chunk.subarray(0, await stream.read(chunk) ?? 0));
  },
  async 2({ stream }) {
    const chunk = new Uint8Array(64 * 1024);
    let bytes = 0;
    for (let read = await stream.read(chunk); read !== null; read = await stream.read(chunk)) bytes += read;
    await writeAll(stream, new TextEncoder().encode(`${bytes}`));
  },
  3: ({ stream }) => writeAll(stream, new Uint8Array(4 * MEBIBYTE)),
  async 4({ stream }) {
    const chunk = new Uint8Array(100);
    try {
      while (await stream.read(chunk) !== null);
    } catch (error) {
      brokenOff.push(`${error}`);
    }
  },
};

Deno.test("the network of a guest", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  let net: GuestNet | undefined;
  try {
    await sbx.ok("create", "dev");
    const { id } = JSON.parse(await sbx.ok("info", "dev", "--json"));
    const shell = async (command: string) => {
      const { stdout, stderr, exit_code } = (await sbx.api("POST", "/vms/dev/exec", { command })).body;
      assertEquals([stderr, exit_code], ["", 0], command);
      return stdout as string;
    };
    const python = async (program: string) => {
      await sbx.fetch("/vms/dev/files/content?path=x.py", { method: "POST", body: PYTHON + program });
      return (await shell("python3 x.py")).trimEnd().split("\n");
    };

    const { sockets } = sessionPaths(home(new Map(Object.entries(sbx.env))), id);
    for (const port of [PORTS.tcp, PORTS.dns]) await Deno.remove(vsockPath(sockets, port)).catch(() => {});
    const gate = new TestGate();
    const overrides = Overrides.parse(["api.test=127.0.0.1:1"]);
    const dns = new DnsService({ gate, resolvers: [], overrides });
    const host = net = new GuestNet(sockets, dns, (connection) => SERVICES[connection.open.port](connection));
    const up =
      `${LAYER_PATH}/bin/nft list tables 2>/dev/null; ps -C deno -o args= | grep -c net-proxy || true`;
    await eventually("sbx-net-proxy is up", async () => await shell(up) === UP);

    await t.step(
      "sbx-net-proxy that ends is started again, and takes its connection to the host up anew",
      async () => {
        await shell("kill $(ps -C deno -o pid=,args= | awk '/net-proxy/ {print $1}')");
        await eventually(
          "a name is found again",
          async () => (await shell("getent hosts api.test || true")) !== "",
        );
        assertEquals(await shell(up), UP);
      },
    );

    await t.step("there is an interface that leads nowhere, and a resolver behind it", async () => {
      const [interfaces, resolver] = await Promise.all([
        shell("ls /sys/class/net"),
        shell("cat /etc/resolv.conf"),
      ]);
      assertEquals(interfaces.split("\n").filter(Boolean), ["dummy0", "lo"]);
      assertEquals(resolver, "nameserver 192.0.2.53\noptions timeout:1 attempts:5\n");
    });

    await t.step(
      "UDP, ICMP, raw IP and raw frames end in an error at once, and the host is told of each",
      async () => {
        host.refused.length = 0;
        const lines = await python(`
kept = []
def send(family, kind, proto, to, data=b"x"):
    s = socket.socket(family, kind, proto); kept.append(s); s.connect((to, 123)); s.send(data); return s.recv(100)
told(lambda: send(socket.AF_INET, socket.SOCK_DGRAM, 0, "8.8.8.8"))
told(lambda: send(socket.AF_INET6, socket.SOCK_DGRAM, 0, "2001:4860:4860::8888"))
told(lambda: send(socket.AF_INET, socket.SOCK_RAW, 1, "8.8.8.8", b"\\x08\\0\\xf7\\xff\\0\\0\\0\\0"))
told(lambda: send(socket.AF_INET, socket.SOCK_RAW, 89, "8.8.8.8"))
def frame():
    udp = bytes.fromhex("1000007b0009000078")
    ip = bytes.fromhex("4500001d0001000040110000c000020208080404") + udp
    return socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM).sendto(ip, ("dummy0", 0x800))
told(frame)
import time; time.sleep(1)
`);
        assertEquals(lines, [...Array(4).fill("PermissionError"), "OSError"]);
        await eventually("the host is told", () => host.refused.length >= 5);
        assertEquals(host.refused.map(({ protocol, host_ip, port }) => [protocol, host_ip, port]), [
          [17, "8.8.8.8", 123],
          [17, "2001:4860:4860:0:0:0:0:8888", 123],
          [1, "8.8.8.8", undefined],
          [89, "8.8.8.8", undefined],
          [17, "8.8.4.4", 123],
        ]);
        assertEquals(host.refused[0].process_name, "python3");
      },
    );

    await t.step("DNS reaches the host, whichever resolver it is meant for, over UDP and TCP", async () => {
      const lines = await python(`
told(lambda: socket.getaddrinfo("api.test", 80, socket.AF_INET)[0][4][0])
def udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("8.8.8.8", 53)); s.send(query("api.test"))
    return socket.inet_ntoa(s.recv(512)[-4:])
def tcp():
    s = socket.create_connection(("2001:4860:4860::8888", 53)); message = query("api.test")
    for _ in range(2): s.sendall(struct.pack(">H", len(message)) + message)
    s.shutdown(1); return socket.inet_ntoa(read(s)[-4:])
told(udp)
told(tcp)
told(lambda: socket.getaddrinfo("nothing.test", 80))
`);
      assertEquals(lines, ["203.0.113.1", "203.0.113.1", "203.0.113.1", "gaierror"]);
      const asked = host.queries.filter(({ process_name }) => process_name === "python3").map(({ proto }) =>
        proto
      );
      assert(asked.includes("udp") && asked.filter((proto) => proto === "tcp").length === 2, `${asked}`);
      assert(gate.entries.some(({ event }) => event.common.process?.command === "python3"));
    });

    await t.step(
      "TCP reaches the host with where it was going and who it is, over IPv4 and IPv6",
      async () => {
        const lines = await python(`
for to in "203.0.113.1", "2001:4860:4860::8888":
    def hello():
        s = socket.create_connection((to, 1)); s.sendall(b"hello"); return read(s)
    told(hello)
`);
        assertEquals(lines, ["b'hello'", "b'hello'"]);
        const opened = host.opened.filter(({ port }) => port === 1);
        assertEquals(opened.map(({ host_ip }) => host_ip), ["203.0.113.1", "2001:4860:4860:0:0:0:0:8888"]);
        for (const { process_name, pid } of opened) {
          assert(process_name === "python3" && pid > 1, `${process_name} ${pid}`);
        }
      },
    );

    await t.step(
      "a program that ends its side still gets its answer, and not one byte is lost either way",
      async () => {
        const lines = await python(`
def upload():
    s = socket.create_connection(("api.test", 2)); s.sendall(b"x" * ${
          4 * MEBIBYTE
        }); s.shutdown(1); return read(s)
def download():
    return len(read(socket.create_connection(("api.test", 3))))
told(upload)
told(download)
`);
        assertEquals(lines, [`b'${4 * MEBIBYTE}'`, `${4 * MEBIBYTE}`]);
      },
    );

    await t.step(
      "a program that breaks off is told from one that ends, and so is a host that is not there",
      async () => {
        const proxy = "ps -C deno -o pid=,args= | awk '/net-proxy/ {print $1}'";
        const before = await shell(proxy);
        await python(`
import time
def break_off(seconds):
    s = socket.create_connection(("203.0.113.1", 4)); s.sendall(b"x"); time.sleep(seconds)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)); s.close()
for seconds in 0, 0, 0, 1: break_off(seconds)
`);
        await eventually("the host hears of it", () => brokenOff.length > 0);
        assertStringIncludes(brokenOff[0], "reset the connection");
        assertEquals(await shell(proxy), before, "the proxy has outlived connections that were gone at once");
        host.close();
        await Deno.remove(vsockPath(sockets, PORTS.tcp)).catch(() => {});
        assertEquals(await python(`told(lambda: read(socket.create_connection(("203.0.113.1", 80))))`), [
          "ConnectionResetError",
        ]);
      },
    );
  } finally {
    net?.close();
    await sbx.dispose();
  }
});
