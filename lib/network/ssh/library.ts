/**
 * The part of `ssh2` that is used, its algorithms, and its first load: most VMs never make an SSH connection.
 */
import type { Duplex, Readable, Writable } from "node:stream";
import type { Buffer } from "node:buffer";

/** A stream inside a connection. */
export interface Channel extends Duplex {
  /** a sink of a server, a source of a client */
  readonly stderr: Readable & Writable;
  readonly outgoing: { state: string };
  /** of a server; before `end`, which closes the channel */
  exit(status: number | string, coreDumped?: boolean, message?: string): void;
  /** of a client */
  setWindow(rows: number, cols: number, height: number, width: number): void;
  /** of a client */
  signal(name: string): void;
  close(): void;
}

/** Size and kind of a terminal. */
export interface Pty {
  cols: number;
  rows: number;
  width: number;
  height: number;
  term: string;
  modes: Record<string, number>;
}

type Reply = (() => unknown) | undefined;

/** A session of a client, before it runs anything. */
export interface Session {
  on(name: "env", listener: (accept: Reply, reject: Reply, info: { key: string; val: string }) => void): this;
  on(name: "pty" | "window-change", listener: (accept: Reply, reject: Reply, info: Pty) => void): this;
  on(name: "signal", listener: (accept: Reply, reject: Reply, info: { name: string }) => void): this;
  on(
    name: "exec",
    listener: (accept: () => Channel | undefined, reject: Reply, info: { command: string }) => void,
  ): this;
  on(name: "shell", listener: (accept: () => Channel | undefined, reject: Reply) => void): this;
  on(
    name: "subsystem",
    listener: (accept: () => Channel | undefined, reject: Reply, info: { name: string }) => void,
  ): this;
  once(name: "close", listener: () => void): this;
}

export interface AuthContext {
  readonly method: string;
  readonly username: string;
  accept(): void;
  reject(methods?: string[]): void;
}

/** A client of a server. */
export interface ServerClient {
  on(name: "authentication", listener: (context: AuthContext) => void): this;
  on(name: "session", listener: (accept: () => Session, reject: () => void) => void): this;
  on(name: "ready" | "close", listener: () => void): this;
  on(name: "error", listener: (error: Error) => void): this;
  end(): void;
}

export interface Server {
  on(name: "connection", listener: (client: ServerClient) => void): this;
  on(name: "error", listener: (error: Error) => void): this;
  injectSocket(socket: Duplex): void;
}

export interface ParsedKey {
  readonly type: string;
  getPublicSSH(): Buffer;
}

type Done<T extends unknown[]> = (error: Error | undefined | null, ...result: T) => void;

/** Options of a command. */
export interface ExecOptions {
  env?: Record<string, string>;
  pty?: Pty;
}

export interface Client {
  on(name: "ready" | "close", listener: () => void): this;
  on(name: "error", listener: (error: Error & { level?: string }) => void): this;
  connect(options: Record<string, unknown>): void;
  exec(command: string, options: ExecOptions, done: Done<[Channel]>): void;
  shell(window: Pty | false, options: ExecOptions, done: Done<[Channel]>): void;
  subsys(name: string, done: Done<[Channel]>): void;
  end(): void;
  destroy(): void;
}

export interface Ssh2 {
  Client: new () => Client;
  Server: { new (options: Record<string, unknown>): Server; KEEPALIVE_CLIENT_INTERVAL: number };
  BaseAgent: new () => object;
  utils: { parseKey(data: Uint8Array | string): ParsedKey | Error };
}

let loaded: Promise<Ssh2> | undefined;

export function loadSsh2(): Promise<Ssh2> {
  return loaded ??= import("ssh2").then(({ default: library }) => {
    const ssh2 = library as Ssh2;
    // A VM that is suspended answers nothing; the proxy has a deadline of its own.
    ssh2.Server.KEEPALIVE_CLIENT_INTERVAL = -1;
    return ssh2;
  });
}

/** Of both sides: without SHA-1, CBC, RC4, groups of less than 2,048 bits, and compression. */
export const ALGORITHMS = {
  kex: [
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp256",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp521",
    "diffie-hellman-group16-sha512",
    "diffie-hellman-group18-sha512",
    "diffie-hellman-group14-sha256",
  ],
  cipher: [
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
  ],
  hmac: [
    "hmac-sha2-256-etm@openssh.com",
    "hmac-sha2-512-etm@openssh.com",
    "hmac-sha2-256",
    "hmac-sha2-512",
  ],
  compress: ["none"],
};

/** Algorithms of a host key's signature, by the type of the key. */
export function hostKeyAlgorithms(type: string): string[] {
  return type === "ssh-rsa" ? ["rsa-sha2-512", "rsa-sha2-256"] : [type];
}
