/** Binding of libsbxvm (interface: Sources/CSbxVM/sbxvm.h). Calls run on separate threads. */

/** SBXVM_ABI_VERSION of the header that this file was written for. */
export const ABI_VERSION = 1;

/** Longest answer of the library, in `bytes`; longer ones are cut. */
const ANSWER_BYTES = 16 * 1024;

const vmCall = { parameters: ["u64", "buffer", "u64"], result: "i32", nonblocking: true } as const;
const pathCall = {
  parameters: ["u64", "buffer", "u64", "buffer", "u64"],
  result: "i32",
  nonblocking: true,
} as const;

/** The functions of the header, with its types. */
export const SYMBOLS = {
  sbxvm_version: { parameters: [], result: "u32" },
  sbxvm_features: { parameters: ["buffer", "u64"], result: "i64" },
  sbxvm_create: { parameters: ["buffer", "u64", "buffer", "u64"], result: "u64" },
  sbxvm_start: vmCall,
  sbxvm_stop: vmCall,
  sbxvm_pause: vmCall,
  sbxvm_resume: vmCall,
  sbxvm_save: pathCall,
  sbxvm_restore: pathCall,
  sbxvm_listen: { parameters: ["u64", "u32", "buffer", "u64"], result: "i32", nonblocking: true },
  sbxvm_connect: {
    parameters: ["u64", "u32", "buffer", "u64", "buffer", "u64"],
    result: "i32",
    nonblocking: true,
  },
  sbxvm_free: vmCall,
} as const satisfies Deno.ForeignLibraryInterface;

/** Specification of a machine; the header describes its fields. */
export interface LibrarySpec {
  dir: string;
  cpus: number;
  memory_mb: number;
  kernel: string;
  initrd: string;
  command_line: string;
  disks: { path: string; read_only: boolean }[];
  share?: { path: string; tag: string };
  ports?: number[];
  events: string;
  console: string;
  logs: string;
  rosetta?: boolean;
  nested?: boolean;
}

/** A line of a machine's events. */
export interface LibraryEvent {
  state: string;
  code?: number;
  signal?: string;
  message?: string;
}

/** Abilities of a library on this host. */
export interface LibraryAbilities {
  hypervisor: string;
  /** device of the guest's console */
  console: string;
  features: Record<string, boolean>;
  /** why it lacks a feature */
  lacks: Record<string, string>;
}

/** Refusal by the library, with one of its codes (Sources/SbxVM/Failure.swift). */
export class LibraryError extends Error {
  constructor(readonly code: string, message: string) {
    super(message);
  }
}

/** A loaded library. It is never unloaded: its threads may be at work. */
export class VmLibrary {
  readonly #symbols: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"];

  /** @throws {Error} the file is missing, no library, or of another version */
  constructor(path: string) {
    this.#symbols = Deno.dlopen(path, SYMBOLS).symbols;
    const version = this.#symbols.sbxvm_version();
    if (version !== ABI_VERSION) {
      throw new Error(`${path} has version ${version} of the interface; this program needs ${ABI_VERSION}`);
    }
  }

  get abilities(): LibraryAbilities {
    const out = answer();
    this.#symbols.sbxvm_features(out, BigInt(out.length));
    return JSON.parse(textOf(out));
  }

  /** @throws {LibraryError} `spec.invalid` */
  create(spec: LibrarySpec | string): VmHandle {
    const error = answer();
    const json = encode(typeof spec === "string" ? spec : JSON.stringify(spec));
    const handle = this.#symbols.sbxvm_create(json, BigInt(json.length), error, BigInt(error.length));
    if (handle === 0n) throw failure(error);
    return new VmHandle(this.#symbols, handle);
  }
}

/** A machine of the library. Every call throws a {@linkcode LibraryError}. */
export class VmHandle {
  readonly #symbols: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"];

  constructor(symbols: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"], readonly id: bigint) {
    this.#symbols = symbols;
  }

  start(): Promise<void> {
    return settle((...out) => this.#symbols.sbxvm_start(this.id, ...out));
  }

  stop(): Promise<void> {
    return settle((...out) => this.#symbols.sbxvm_stop(this.id, ...out));
  }

  pause(): Promise<void> {
    return settle((...out) => this.#symbols.sbxvm_pause(this.id, ...out));
  }

  resume(): Promise<void> {
    return settle((...out) => this.#symbols.sbxvm_resume(this.id, ...out));
  }

  save(folder: string): Promise<void> {
    return withText(
      folder,
      (...text) => settle((...out) => this.#symbols.sbxvm_save(this.id, ...text, ...out)),
    );
  }

  restore(folder: string): Promise<void> {
    return withText(
      folder,
      (...text) => settle((...out) => this.#symbols.sbxvm_restore(this.id, ...text, ...out)),
    );
  }

  listen(port: number): Promise<void> {
    return settle((...out) => this.#symbols.sbxvm_listen(this.id, port, ...out));
  }

  connect(port: number, socket: string): Promise<void> {
    return withText(
      socket,
      (...text) => settle((...out) => this.#symbols.sbxvm_connect(this.id, port, ...text, ...out)),
    );
  }

  free(): Promise<void> {
    return settle((...out) => this.#symbols.sbxvm_free(this.id, ...out));
  }
}

type Bytes = Uint8Array<ArrayBuffer>;
type Text = [Bytes, bigint];

/** Texts of calls under way. */
const texts = new Set<Bytes>();

/** Its buffer lives until the call has returned, because it is read afterwards. */
async function settle(call: (error: Bytes, size: bigint) => Promise<number>): Promise<void> {
  const error = answer();
  if (await call(error, BigInt(error.length)) !== 0) throw failure(error);
}

/** Keeps a text alive until the call has returned. */
async function withText(text: string, call: (...text: Text) => Promise<void>): Promise<void> {
  const bytes = encode(text);
  texts.add(bytes);
  try {
    await call(bytes, BigInt(bytes.length));
  } finally {
    texts.delete(bytes);
  }
}

function encode(text: string): Bytes {
  return new TextEncoder().encode(text);
}

function answer(): Bytes {
  return new Uint8Array(ANSWER_BYTES);
}

function textOf(bytes: Bytes): string {
  return new TextDecoder().decode(bytes.subarray(0, bytes.indexOf(0)));
}

function failure(error: Bytes): LibraryError {
  const { code, message } = JSON.parse(textOf(error));
  return new LibraryError(code, message);
}
