import { SbxError } from "../../base/error/mod.ts";
import { accessProblem } from "../../base/home/mod.ts";
import { Client } from "../client.ts";

type Env = Pick<typeof Deno.env, "get">;

/**
 * A client of a server in front of a gateway: the token comes from the file that `SBX_TOKEN_FILE` names, a
 * certificate of this client from `SBX_CLIENT_CERT` and `SBX_CLIENT_KEY`, and an authority beside the
 * machine's own from `SBX_CA_FILE`.
 *
 * @throws {SbxError} `host.credential`: a file is missing, cannot be read, or may be read by others
 */
export async function connectByHttps(url: URL, env: Env): Promise<Client> {
  const tokenFile = env.get("SBX_TOKEN_FILE");
  if (!tokenFile) {
    throw new SbxError("host.credential", `${url.origin} wants a token`, {
      hint: "let SBX_TOKEN_FILE name a file with it; there it is run/gateway.token in the home of sbx",
    });
  }
  const token = (await secret("SBX_TOKEN_FILE", tokenFile)).trim();
  const [cert, key, ca] = await Promise.all([
    fileOf(env, "SBX_CLIENT_CERT", text),
    fileOf(env, "SBX_CLIENT_KEY", secret),
    fileOf(env, "SBX_CA_FILE", text),
  ]);
  if ((cert === undefined) !== (key === undefined)) {
    throw new SbxError("host.credential", "SBX_CLIENT_CERT and SBX_CLIENT_KEY belong together");
  }
  const http = Deno.createHttpClient({
    ...ca !== undefined && { caCerts: [ca] },
    ...cert !== undefined && key !== undefined && { cert, key },
  });
  return new Client(url.origin, token, http);
}

async function fileOf(
  env: Env,
  variable: string,
  read: (variable: string, path: string) => Promise<string>,
): Promise<string | undefined> {
  const path = env.get(variable);
  return path ? await read(variable, path) : undefined;
}

async function text(variable: string, path: string): Promise<string> {
  return await Deno.readTextFile(path).catch((cause) => {
    throw new SbxError("host.credential", `the file of ${variable} cannot be read: ${path}`, { cause });
  });
}

/** Reads a file that only its owner may read. */
async function secret(variable: string, path: string): Promise<string> {
  const content = await text(variable, path);
  const refused = accessProblem(path, await Deno.stat(path), { keep: "secret", root: "owns" });
  if (!refused) return content;
  throw new SbxError("host.credential", `the file of ${variable}, ${path}, ${refused.problem}`, {
    hint: refused.hint,
  });
}
