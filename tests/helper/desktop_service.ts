/** A service of canned answers for the benchmark of the desktop page: 50 VMs, one with many events. */
import info from "../../fixtures/settings/info.json" with { type: "json" };

const VMS = 50;
const PAGE = 1000;

interface CannedService {
  serve(request: Request): Response;
  /** Sends events to all listeners from now on. */
  flood(perSecond: number): void;
}

export function cannedService(events: number): CannedService {
  const listeners = new Set<WebSocket>();
  const vms = Array.from({ length: VMS }, (_, at) => ({
    id: idOf(at),
    name: `vm-${at}`,
    profile_id: "code",
    status: at === 0 ? "Running" : "Stopped",
    persistent: true,
    available_actions: ["start", "fork", "delete"],
    cpus: 2,
    ram_mb: 1024,
    disk: { size_gb: 20, used_bytes: 0 },
  }));
  const answers: Record<string, unknown> = {
    "/settings/info": info,
    "/vms/list": { vms },
    "/asks": { asks: [] },
    "/sessions/list": { sessions: [] },
  };
  const pageOf = (cursor: number) => ({
    events: Array.from({ length: Math.min(PAGE, events - cursor) }, (_, at) => eventOf(cursor + at + 1)),
    ...(cursor + PAGE < events && { next_cursor: String(cursor + PAGE) }),
  });
  return {
    serve(request) {
      const { pathname, searchParams } = new URL(request.url);
      if (pathname === "/events") {
        const { socket, response } = Deno.upgradeWebSocket(request);
        socket.onopen = () => listeners.add(socket);
        socket.onclose = () => listeners.delete(socket);
        return response;
      }
      if (pathname.endsWith("/events")) return Response.json(pageOf(Number(searchParams.get("cursor") ?? 0)));
      const answer = answers[pathname];
      return answer ? Response.json(answer) : Response.json({ error: "no", code: "no" }, { status: 404 });
    },
    flood(perSecond) {
      let sequence = events;
      setInterval(() => {
        for (let count = 0; count < perSecond / 50; count++) {
          const payload = {
            event: eventOf(++sequence),
            decision: { decision: "allow", rule: { id: "allow-http" } },
          };
          for (const socket of listeners) socket.send(JSON.stringify({ type: "security-event", payload }));
        }
      }, 20);
    },
  };
}

function idOf(at: number): string {
  return `00000000-0000-4000-8000-${String(at).padStart(12, "0")}`;
}

function eventOf(sequence: number) {
  return {
    schema_version: 1,
    common: {
      event_id: sequence.toString(16).padStart(12, "0"),
      event_type: "http.request",
      session_id: idOf(0),
      timestamp_unix_ms: 1_800_000_000_000 + sequence,
      sequence,
      source_engine: "network",
      actor: "vm",
    },
    http: { request: { method: "GET", scheme: "https", host: "example.com", path: `/path/${sequence}` } },
    decision: "allow",
    rule_id: "allow-http",
  };
}
