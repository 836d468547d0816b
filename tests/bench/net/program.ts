/** Our own programs of the network's bench. */
import { join } from "node:path";
import { caFiles, openCa } from "../../../lib/network/ca/mod.ts";
import { fromRoot } from "../../helper/repo.ts";
import { Peer } from "./peer.ts";

/** Host that the bench asks for. */
export const HOST = "api.example.com";

/** The upstream, and what its clients need. */
export interface Upstream {
  port: number;
  /** certificate of its host, and the key */
  certFile: string;
  keyFile: string;
  /** root certificate to trust */
  rootFile: string;
}

/** Starts one of our programs. @param root checkout that it is taken from */
export function startProgram(
  all: Peer[],
  script: string,
  args: string[],
  root: string = fromRoot("."),
): Peer {
  const config = join(root, "deno.json");
  const path = join(root, "tests", "bench", "net", script);
  return Peer.start(all, Deno.execPath(), ["run", "-A", "--quiet", "--config", config, path, ...args]);
}

/** Starts the upstream, with a certificate of its own root. @param dir for its files */
export async function startUpstream(all: Peer[], dir: string): Promise<Upstream> {
  const roots = await openCa({ dir: join(dir, "upstream") });
  const rootFile = caFiles({ dir: join(dir, "upstream") }).certificate;
  const leaf = await roots.leaf(HOST);
  const [certFile, keyFile] = [join(dir, "leaf.crt"), join(dir, "leaf.key")];
  await Deno.writeTextFile(certFile, leaf.cert);
  await Deno.writeTextFile(keyFile, leaf.key);
  const upstream = startProgram(all, "upstream.ts", [certFile, keyFile]);
  return { port: Number(await upstream.line()), certFile, keyFile, rootFile };
}
