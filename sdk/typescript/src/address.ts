import { readFileSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { SbxError } from "./error.ts";

/** The sbx to use. Without any of these: `SBX_HOST`, or this user's own on this machine. */
export interface ConnectOptions {
  /** `ssh://[user@]host[:port][/home]`, `http://127.0.0.1:PORT` or `https://host[:port]` */
  host?: string;
  /** token of the gateway behind an http or https host */
  token?: string;
  /** file with that token, read again when a new gateway refuses the old one; default `SBX_TOKEN_FILE` */
  tokenFile?: string;
  /** home of the sbx on this machine; default `SBX_HOME`, or `~/.sbx` */
  home?: string;
  /** path of a socket of a gateway or service; default: the home's */
  socket?: string;
  /**
   * authority, certificate and key in PEM for https; defaults: files of `SBX_CA_FILE`,
   * `SBX_CLIENT_CERT`, `SBX_CLIENT_KEY`
   */
  tls?: { ca?: string; cert?: string; key?: string };
}

/** Where requests go. */
export interface Endpoint {
  /** Unix socket, in place of host and port */
  socket?: string;
  secure: boolean;
  hostname: string;
  port: number;
  /** the token for requests, read again with `true` */
  token(again?: boolean): string | undefined;
  tls?: { ca?: string; cert?: string; key?: string };
  /** home of an sbx of this machine; absent for others */
  home?: string;
  /** ends the way there */
  close(): void;
}

/** The endpoint of a Unix socket. The socket must belong to this user. */
export function socketEndpoint(options: ConnectOptions): Endpoint {
  const env = process.env;
  const home = options.home ?? (env.SBX_HOME || join(homedir(), ".sbx"));
  const run = options.home === undefined && env.SBX_RUN_DIR ? env.SBX_RUN_DIR : join(home, "run");
  const candidates = options.socket
    ? [options.socket]
    : [join(run, "gateway.sock"), join(run, "service.sock")];
  const socket = candidates.find((path) => ownerOf(path) !== undefined) ?? candidates[0];
  const owner = ownerOf(socket);
  if (owner !== undefined && process.getuid && owner !== process.getuid()) {
    throw new SbxError("host.credential", `the socket ${socket} belongs to another user`, {
      hint: "use a home of your own: SBX_HOME",
    });
  }
  return {
    socket,
    secure: false,
    hostname: "127.0.0.1",
    port: 80,
    token: () => undefined,
    home,
    close() {},
  };
}

function ownerOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.uid;
}

/** The endpoint of a gateway by TCP: plain to this machine, else by TLS. */
export function tcpEndpoint(url: URL, options: ConnectOptions): Endpoint {
  const secure = url.protocol === "https:";
  const isLocal = /^(localhost|127\.0\.0\.1|\[::1\])$/.test(url.hostname);
  if (!secure && !isLocal) {
    throw invalid("an http address is for this machine: another one gets the token by https or ssh only");
  }
  if (url.username || url.password || url.search || url.hash || url.pathname !== "/") {
    throw invalid("an address by http or https has a host and a port only");
  }
  const { env } = process;
  const file = options.tokenFile ?? (env.SBX_TOKEN_FILE || undefined);
  let token = options.token;
  const read = (again = false) => {
    if (file !== undefined && options.token === undefined && (token === undefined || again)) {
      token = fileText(file, "the token").trim();
    }
    // It becomes a header.
    if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) {
      throw new SbxError("host.credential", `the token for ${url.origin} is not one of a gateway`, {
        hint: "run/gateway.token in the home of that sbx has one line",
      });
    }
    return token;
  };
  if (read() === undefined) {
    throw new SbxError("host.credential", `${url.origin} wants a token`, {
      hint: "give token or tokenFile: run/gateway.token in the home of that sbx",
    });
  }
  const pem = (name: string, what: string) => env[name] ? fileText(env[name], what) : undefined;
  return {
    secure,
    hostname: url.hostname.replace(/^\[|\]$/g, ""),
    port: Number(url.port || (secure ? 443 : 80)),
    token: read,
    tls: options.tls ?? {
      ca: pem("SBX_CA_FILE", "the authority"),
      cert: pem("SBX_CLIENT_CERT", "the certificate"),
      key: pem("SBX_CLIENT_KEY", "the key"),
    },
    close() {},
  };
}

function fileText(path: string, what: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    throw new SbxError("host.credential", `${what} cannot be read: ${path}`, { cause });
  }
}

/** @throws {SbxError} `host.invalid` */
export function parseHost(host: string): URL {
  let url: URL;
  try {
    url = new URL(host);
  } catch (cause) {
    // The cause has the whole text, with a password in it.
    throw host.includes("@")
      ? invalid(`"${host.replace(/\/\/.*@/s, "//")}" is no address`)
      : invalid(`"${host}" is no address`, cause);
  }
  if (!["ssh:", "http:", "https:"].includes(url.protocol)) {
    throw invalid(`"${url.protocol}" is no way to an sbx`);
  }
  return url;
}

function invalid(message: string, cause?: unknown): SbxError {
  return new SbxError("host.invalid", message, {
    cause,
    hint: "ssh://[user@]host[:port][/home], https://host[:port] or http://127.0.0.1:PORT",
  });
}
