/**
 * Connections to the gateway of another machine: through SSH, or by HTTPS to a server in front of it
 * (docs/guides/remote.md).
 */
import { SbxError } from "../../base/error/mod.ts";
import type { Client } from "../client.ts";
import { connectByHttps } from "./https.ts";
import { connectBySsh } from "./ssh.ts";

/**
 * Connects to another machine's sbx.
 *
 * @param address `ssh://[user@]host[:port][/home]` or `https://host[:port]`
 * @throws {SbxError} `host.invalid`, `host.unreachable`, `host.credential`
 */
export async function connectRemote(address: string, env: Pick<typeof Deno.env, "get">): Promise<Client> {
  const url = parse(address);
  return url.protocol === "ssh:" ? await connectBySsh(url) : await connectByHttps(url, env);
}

function parse(address: string): URL {
  const url = URL.parse(address);
  const isSsh = url?.protocol === "ssh:";
  if (!url || !isSsh && url.protocol !== "https:") {
    throw invalid("the address of a machine is ssh://[user@]host[:port][/home] or https://host[:port]");
  }
  if (url.password || url.search || url.hash) {
    throw invalid("an address has no password, query or fragment: SSH asks, and HTTPS takes SBX_TOKEN_FILE");
  }
  // ssh(1) would take it for an option.
  if (!/^[\w[]/.test(url.hostname) || /^-/.test(decodeURIComponent(url.username))) {
    throw invalid("the name of a host or user begins with a letter or digit");
  }
  if (!isSsh && (url.username || url.pathname !== "/")) {
    throw invalid("an https address has a host and a port only");
  }
  return url;
}

function invalid(message: string): SbxError {
  return new SbxError("host.invalid", message, { hint: "such as sbx --host ssh://me@build.example list" });
}
