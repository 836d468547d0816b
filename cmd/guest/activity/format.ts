/** Fields of a kind of trace record, as the kernel describes them in its `format` file. */
import type { TraceRecord } from "./page.ts";

const FIELD = /^\tfield:(.+?)(\w+)(?:\[\d*\])?;\toffset:(\d+);\tsize:(\d+);\tsigned:([01]);$/gm;

interface Field {
  isText: boolean;
  offset: number;
  size: number;
}

const decoder = new TextDecoder();

export class TraceFormat {
  readonly type: number;
  readonly #fields = new Map<string, Field>();

  /** @param text of `events/<group>/<name>/format` */
  constructor(text: string) {
    this.type = Number(/^ID: (\d+)$/m.exec(text)?.[1]);
    for (const [, kind, name, offset, size] of text.matchAll(FIELD)) {
      this.#fields.set(name, {
        isText: kind.includes("__data_loc"),
        offset: Number(offset),
        size: Number(size),
      });
    }
  }

  number({ data }: TraceRecord, name: string): bigint {
    const { offset, size } = this.#field(name);
    if (size === 2) return BigInt(data.getUint16(offset, true));
    return size === 8 ? data.getBigUint64(offset, true) : BigInt(data.getInt32(offset, true));
  }

  /** @returns undefined where the kernel could not read it */
  text({ data }: TraceRecord, name: string): string | undefined {
    const place = data.getUint32(this.#field(name).offset, true);
    const length = place >>> 16, offset = place & 0xffff;
    // An empty one has its end.
    if (length === 0) return undefined;
    const bytes = new Uint8Array(data.buffer, data.byteOffset + offset, length);
    return decoder.decode(bytes.at(-1) === 0 ? bytes.subarray(0, -1) : bytes);
  }

  #field(name: string): Field {
    const field = this.#fields.get(name);
    if (!field) throw new Error(`the kernel's trace has no field ${name}`);
    return field;
  }
}
