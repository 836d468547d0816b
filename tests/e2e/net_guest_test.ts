/**
 * The guest's end of its network, from inside a VM: what its programs see, and what of theirs reaches the
 * host's vsock ports. A stand-in takes the host's ports over, because it can look at all that comes; what the
 * host makes of it has tests of its own.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { home } from "../../lib/base/home/mod.ts";
import { exists } from "../helper/exists.ts";
import { join } from "node:path";
import { writeAll } from "../../lib/base/wire/mod.ts";
import { DnsService, Overrides } from "../../lib/network/dns/mod.ts";
import { PORTS } from "../../lib/machine/guest/mod.ts";
import { LAYER_PATH } from "../../lib/machine/guest/wire/mod.ts";
import { readStatements } from "../../lib/ledger/read/mod.ts";
import type { SessionStatement } from "../../lib/session/mod.ts";
import { sessionPaths } from "../../lib/session/files/mod.ts";
import { vsockPath } from "../../lib/machine/vm/mod.ts";
import { TestGate } from "../helper/gate.ts";
import { type GuestConnection, GuestNet } from "../helper/guest_net.ts";
import { eventually, Sbx } from "../helper/sbx.ts";

const MEBIBYTE = 1024 * 1024;

/**
 * Python of the guest: `told` prints what something answers, or its error, which is never a wait of a minute.
 */
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

/**
 * What container engines make: a bridge, and a program in a network namespace of its own at one end of a
 * veth. Each line: to a program outside, DNS, TCP, and UDP to where no rule leads.
 */
const CONTAINER = `
import os, fcntl
netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
def attribute(kind, value):
    return struct.pack("HH", 4 + len(value), kind) + value + b"\\0" * (-len(value) % 4)
def new_link(name, kind, *more, master=0):
    info = attribute(1, kind) + (attribute(2, b"".join(more)) if more else b"")
    body = struct.pack("BxHiII", 0, 0, 0, 0, 0) + attribute(3, name + b"\\0") + attribute(18, info)
    if master: body += attribute(10, struct.pack("I", master))
    netlink.send(struct.pack("IHHII", 16 + len(body), 16, 0x605, 1, 0) + body)
    code, = struct.unpack_from("i", netlink.recv(4096), 16)
    if code: raise OSError(-code, name)
def set_up(name, address):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    def set(request, value): fcntl.ioctl(s, request, struct.pack("16s", name) + value)
    def address_of(text): return struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(text))
    if address: set(0x8916, address_of(address)); set(0x891c, address_of("255.255.255.0"))
    set(0x8914, struct.pack("H14x", 0x1 | 0x40))
def route(gateway):
    def address_of(text): return struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(text))
    entry = struct.pack("Q16s16s16sHhQQ", 0, address_of("0.0.0.0"), address_of(gateway), address_of("0.0.0.0"), 3, 0, 0, 0)
    fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x890b, entry.ljust(120, b"\\0"))
ready, go = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.unshare(os.CLONE_NEWNET)
    os.write(ready[1], b"x"); os.read(go[0], 1)
    open("/proc/self/comm", "w").write("container")
    set_up(b"lo", None); set_up(b"inner", "10.99.0.2"); route("10.99.0.1")
    def talk(to, port):
        s = socket.create_connection((to, port)); s.sendall(b"hello"); return read(s)
    def name():
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("192.0.2.53", 53)); s.send(query("api.test"))
        return socket.inet_ntoa(s.recv(512)[-4:])
    def elsewhere():
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("8.8.8.8", 123)); s.send(b"x"); return s.recv(100)
    told(lambda: talk("10.99.0.1", 81)); told(name); told(lambda: talk("203.0.113.9", 1)); told(elsewhere)
    import sys; sys.stdout.flush(); os._exit(0)
os.read(ready[0], 1)
new_link(b"br9", b"bridge")
bridge = socket.if_nametoindex("br9")
peer = struct.pack("BxHiII", 0, 0, 0, 0, 0) + attribute(3, b"inner\\0") + attribute(19, struct.pack("I", child))
new_link(b"outer", b"veth", attribute(1, peer), master=bridge)
set_up(b"br9", "10.99.0.1"); set_up(b"outer", None)
open("/proc/sys/net/ipv4/ip_forward", "w").write("1")
server = socket.create_server(("10.99.0.1", 81))
os.write(go[1], b"x")
conn, _ = server.accept(); conn.recv(5); conn.sendall(b"inside"); conn.close()
os.waitpid(child, 0)
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

    await t.step("a container on a bridge is held to the same rules, and its program is known", async () => {
      host.refused.length = 0;
      const lines = await python(CONTAINER);
      assertEquals(lines, ["b'inside'", "203.0.113.1", "b'hello'", "OSError"]);
      const { process_name, pid } = host.opened.findLast(({ host_ip }) => host_ip === "203.0.113.9")!;
      assert(process_name === "container" && pid > 1, `${process_name} ${pid}`);
      assertEquals(host.queries.at(-1)?.process_name, "container");
      await eventually("the host is told", () => host.refused.length > 0);
      const [{ protocol, host_ip, port }] = host.refused;
      assertEquals([protocol, host_ip, port], [17, "8.8.8.8", 123]);
      assertEquals(host.problems, []);
    });

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

Deno.test("the host sleeps for an hour: the guest has the right time before its next lookup", async () => {
  const time = await Deno.makeTempFile();
  await Deno.writeTextFile(time, "+0");
  const sbx = await Sbx.make({
    spare: false,
    env: {
      LD_PRELOAD: `/usr/lib/${Deno.build.arch}-linux-gnu/faketime/libfaketimeMT.so.1`,
      FAKETIME_TIMESTAMP_FILE: time,
      FAKETIME_NO_CACHE: "1",
      // The clock that stands still while a machine sleeps.
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
    },
  });
  try {
    await sbx.ok("create", "dev");
    const { id, workspace } = (await sbx.api("GET", "/vms/dev/info")).body;
    // It runs before the sleep and afterwards, and is not started by the host meanwhile.
    const line = "touch /workspace/ready; until [ -e /workspace/awake ]; do sleep 0.05; done; date +%s; " +
      "getent hosts site.example; date +%s";
    const running = sbx.cli("exec", "dev", "-c", line);
    await eventually("it waits", () => exists(join(workspace, "ready")));
    await Deno.writeTextFile(time, "+3600");
    await Deno.writeTextFile(join(workspace, "awake"), "");
    const [, after] = (await running).stdout.trim().split("\n").map(Number);
    const slow = Date.now() / 1000 + 3600 - after;
    assert(Math.abs(slow) < 60, `the guest is slow by ${slow} s`);
    await sbx.ok("stop", "dev");
    await sbx.ok("verify", id);
    const { ledger } = sessionPaths(home(new Map(Object.entries(sbx.env))), id);
    const jumps = (await readStatements<SessionStatement>(ledger, Number.MAX_SAFE_INTEGER))
      .flatMap((each) => each.kind === "clock" ? [each.jump_ms] : []);
    assertEquals(jumps.length, 1);
    assert(Math.abs(jumps[0] - 3_600_000) < 2000, `${jumps[0]}`);
  } finally {
    await sbx.dispose();
    await Deno.remove(time);
  }
});
