import { type GuestLink, PORTS } from "../machine/guest/mod.ts";
import {
  ACTIVITY_FRAME_LIMIT,
  DNS_FRAME_LIMIT,
  MCP_FRAME_LIMIT,
  MCP_RESULT_FRAME_LIMIT,
  TCP_FRAME_LIMIT,
  TCP_STREAMS_MAX,
} from "../machine/guest/wire/mod.ts";
import type { Enforcement } from "./enforcement.ts";

/** Listens for a guest's connections for MCP, TCP, DNS and activity. No other link listens in its folder. */
export function serveGuest(link: GuestLink, enforcement: Promise<Enforcement>): void {
  link.accept(PORTS.mcp, async (channel) => (await (await enforcement).mcp()).serve(channel), {
    frameLimit: MCP_FRAME_LIMIT,
    sendLimit: MCP_RESULT_FRAME_LIMIT,
  });
  link.accept(
    PORTS.tcp,
    async (channel, conn) => (await (await enforcement).network.open()).serveTcp(channel, conn),
    { maxConnections: TCP_STREAMS_MAX, frameLimit: TCP_FRAME_LIMIT },
  );
  link.accept(PORTS.activity, async (channel) => (await enforcement).activity.serve(channel), {
    frameLimit: ACTIVITY_FRAME_LIMIT,
  });
  enforcement.then(({ activity }) => activity.follow(link), () => {});
  link.accept(PORTS.dns, async (channel) => {
    await (await (await enforcement).network.retry()).serveDns(channel);
  }, { frameLimit: DNS_FRAME_LIMIT, firstFrameLimit: DNS_FRAME_LIMIT });
}
