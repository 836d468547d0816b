/** Packets that a guest's kernel refused, as its session records them; the guest may say anything. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { home } from "../../../lib/base/home/mod.ts";
import { FrameChannel } from "../../../lib/base/wire/mod.ts";
import { CredentialBroker, CredentialStore, storePath } from "../../../lib/credential/mod.ts";
import type { PacketRefusal } from "../../../lib/machine/guest/mod.ts";
import { Network, REFUSALS_MAX } from "../../../lib/session/network.ts";
import { eventually } from "../../helper/sbx.ts";
import { contractOf, withGate } from "../../helper/session_gate.ts";

/** Record of one refused packet. */
interface Recorded {
  url: string;
  program?: string;
  reason?: string;
  rule: string;
}

interface Guest {
  notes: FrameChannel;
  /** the host's end of the notes: settles when that ends */
  served: Promise<void>;
  recorded(): Recorded[];
  network: Network;
}

/** Runs with the connection for notes between a guest and the network of a real session. */
function withGuest(run: (guest: Guest) => Promise<void>): Promise<void> {
  return withGate("", async ({ gate, path, notices }) => {
    const folder = path.slice(0, path.lastIndexOf("/"));
    const place = home(new Map([["SBX_HOME", folder]]));
    const broker = await CredentialBroker.open({
      store: new CredentialStore(storePath(place)),
      providers: [],
    });
    const network = await Network.open({ home: place, contract: contractOf(""), gate, broker });
    const listener = Deno.listen({ transport: "unix", path: `${folder}/tcp` });
    const [guest, conn] = await Promise.all([
      Deno.connect({ transport: "unix", path: `${folder}/tcp` }),
      listener.accept(),
    ]);
    const notes = new FrameChannel(guest);
    const host = new FrameChannel(conn);
    const served = network.serveTcp(host, conn);
    served.catch(() => {});
    const recorded = () =>
      notices.flatMap((notice) => {
        if (notice.type !== "security-event") return [];
        const { event, decision } = notice.payload;
        assertEquals(decision?.decision, "block");
        const { rule } = decision!;
        const url = event.http!.request.url;
        return [{ url, program: event.common.process?.executable, reason: rule.reason, rule: rule.id }];
      });
    try {
      await run({ notes, served, recorded, network });
    } finally {
      notes.close();
      host.close();
      listener.close();
      network.close();
      await broker.close();
    }
  });
}

const packet = (more: Partial<PacketRefusal>): PacketRefusal => ({
  t: "Refused",
  protocol: 17,
  host_ip: "198.51.100.7",
  process_name: "",
  pid: 0,
  ...more,
});

Deno.test("each refused packet is an event of guard-transport that says what it was and what to do", () =>
  withGuest(async ({ notes, recorded }) => {
    await notes.send(packet({ port: 4242, process_name: "ntpd", pid: 7 }));
    await notes.send(packet({ protocol: 58, host_ip: "2001:db8:0:0:0:0:0:7" }));
    await notes.send({ t: "End", stream: 1, bytes: 2 });
    await notes.send(packet({ protocol: 89 }));
    await notes.send(packet({ protocol: 6, port: 22 }));
    await eventually("they are recorded", () => recorded().length === 4);
    const rule = "guard-transport";
    assertEquals(recorded(), [
      {
        url: "udp://198.51.100.7:4242",
        program: "ntpd",
        reason: "UDP to 198.51.100.7 port 4242 has no way out of a VM",
        rule,
      },
      {
        url: "icmp://[2001:db8::7]",
        program: undefined,
        reason: "ICMP to 2001:db8::7 has no way out of a VM",
        rule,
      },
      {
        url: "ip://198.51.100.7",
        program: undefined,
        reason: "IP protocol 89 to 198.51.100.7 has no way out of a VM",
        rule,
      },
      {
        url: "tcp://198.51.100.7:22",
        program: undefined,
        reason: "TCP outside of a connection to 198.51.100.7 port 22 has no way out of a VM",
        rule,
      },
    ]);
  }));

Deno.test("packets to one place are one event a second, and a flood to many places is bounded and counted", () =>
  withGuest(async ({ notes, recorded, network }) => {
    for (let at = 0; at < 50; at++) await notes.send(packet({ port: 9 }));
    const places = 4 * REFUSALS_MAX;
    for (let at = 0; at < places; at++) await notes.send(packet({ port: 1000 + at }));
    await notes.send(packet({ port: 9 }));
    const count = () =>
      recorded().map(({ reason }) => Number(/one of (\d+) in a second/.exec(reason ?? "")?.[1] ?? 1))
        .reduce((sum, count) => sum + count, 0);
    await eventually("the whole flood is recorded", () => count() > places);
    await network.close();
    const all = recorded();
    const total = count();
    // A slow machine may begin another second within the flood: then port 9 counts twice.
    assert(total === places + 1 || total === places + 2, `${total}`);
    assert(all.length < places, `${all.length}`);
    assert(all.filter(({ url }) => url.endsWith(":9")).length <= 2);
  }));

for (
  const [what, frame] of Object.entries({
    "an address that is none": packet({ host_ip: "1.2.3.4.5" }),
    "a name for an address": packet({ host_ip: "evil.example" }),
    "a protocol over 255": packet({ protocol: 256 }),
    "a port over 65535": packet({ port: 65_536 }),
    "a field too many": { ...packet({}), reason: "let it through" },
    "another type": { ...packet({}), t: "Allowed" },
  })
) {
  Deno.test(`${what} ends the connection for notes, and leaves no event`, () =>
    withGuest(async ({ notes, served, recorded }) => {
      await notes.send(frame);
      await assertRejects(() => served);
      assertEquals(recorded(), []);
    }));
}
