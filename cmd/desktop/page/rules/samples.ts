/** Samples of events to try, by type. */
export const SAMPLES: Record<string, Record<string, unknown>> = {
  "http.request": {
    http: {
      request: {
        method: "GET",
        scheme: "https",
        host: "example.com",
        port: 443,
        path: "/",
        query: "",
        headers: {},
      },
    },
  },
  "dns.query": { dns: { request: { qname: "example.com", qtype: "A" } } },
  "mcp.tool_call": { mcp: { request: { server_id: "server", tool_name: "tool", arguments: {} } } },
  "model.call": { model: { request: { provider: "anthropic", model: "claude" } } },
  "file.activity": { file: { activity: { operation: "write", path: "/root/.bashrc" } } },
  "process.exec": {
    process: { activity: { operation: "exec", executable: "/usr/bin/curl", command: "curl" } },
  },
};
