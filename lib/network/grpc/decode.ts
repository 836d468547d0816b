/**
 * Reads a message by its descriptor, for rules. Stricter than a server: bytes that two readers of protobuf
 * may read in different ways, or that the descriptor does not explain, are not read at all.
 */
import type { DescEnum, DescField, DescMessage } from "@bufbuild/protobuf";
import { GRPC_MESSAGE_MAX, GRPC_NESTING_MAX, GRPC_VALUES_MAX } from "./limit.ts";

/**
 * A value as JSON. As in protobuf's JSON, integers beyond 2^53, bytes (base64), NaN and infinities are texts.
 */
export type MessageValue =
  | string
  | number
  | boolean
  | MessageValue[]
  | { [name: string]: MessageValue };

/** Why a message cannot be read; its text quotes nothing of the message. */
export class Unreadable extends Error {}

/** Wire types (https://protobuf.dev/programming-guides/encoding/). */
const VARINT = 0, I64 = 1, LEN = 2, I32 = 5;
/** Groups, of proto2. */
const GROUPS = [3, 4];
/** Longest varint, in `bytes`. */
const VARINT_MAX = 10;

/** Wire types of scalars, by `ScalarType`. */
const WIRE: Readonly<Record<number, number>> = {
  1: I64,
  2: I32,
  3: VARINT,
  4: VARINT,
  5: VARINT,
  6: I64,
  7: I32,
  8: VARINT,
  9: LEN,
  12: LEN,
  13: VARINT,
  15: I32,
  16: I64,
  17: VARINT,
  18: VARINT,
};
const STRING = 9, BYTES = 12, BOOL = 8;
/** Presence of proto3's fields without `optional`. */
const IMPLICIT = 2;

/**
 * Reads a message.
 *
 * @param scrub puts refs in place of secrets in its texts
 * @returns its fields by their name in the .proto; one that may be absent, and is, is left out
 * @throws {Unreadable}
 */
export function decodeMessage(
  type: DescMessage,
  bytes: Uint8Array,
  scrub: (text: string) => string,
): Record<string, MessageValue> {
  if (bytes.length > GRPC_MESSAGE_MAX) throw new Unreadable("it is too long");
  return new Decoder(scrub).message(type, bytes, 1);
}

const fieldsByNumber = new WeakMap<DescMessage, Map<number, DescField>>();

function fieldsOf(type: DescMessage): Map<number, DescField> {
  let fields = fieldsByNumber.get(type);
  if (!fields) {
    fieldsByNumber.set(type, fields = new Map(type.fields.map((field) => [field.number, field])));
  }
  return fields;
}

/** Type of a field, or of each of its elements. */
type Kind = { scalar: number } | { enum: DescEnum } | { message: DescMessage };

function kindOf(field: DescField): Kind {
  if (field.message) return { message: field.message };
  return field.enum ? { enum: field.enum } : { scalar: field.scalar! };
}

class Decoder {
  readonly #scrub: (text: string) => string;
  #left = GRPC_VALUES_MAX;

  constructor(scrub: (text: string) => string) {
    this.#scrub = scrub;
  }

  message(type: DescMessage, bytes: Uint8Array, depth: number): Record<string, MessageValue> {
    if (depth > GRPC_NESTING_MAX) throw new Unreadable("its messages are nested too deeply");
    const fields = fieldsOf(type);
    const reader = new WireReader(bytes);
    const values = new Map<string, MessageValue>();
    const maps = new Map<string, Map<string, MessageValue>>();
    const oneofs = new Set<unknown>();
    while (!reader.done) {
      const { number, wire } = reader.tag();
      const field = fields.get(number);
      if (!field) {
        throw new Unreadable(`the descriptors have no field ${number} of ${type.typeName}`);
      }
      this.#count();
      if (isDelimited(field)) throw new Unreadable(`${field} is a group`);
      if (field.fieldKind === "list") {
        const list = (values.get(field.name) ?? []) as MessageValue[];
        values.set(field.name, list);
        this.#element(kindOf(field), { reader, wire, depth, field }, list);
      } else if (field.fieldKind === "map") {
        if (wire !== LEN) throw wrongType(field);
        const entries = maps.get(field.name) ?? new Map<string, MessageValue>();
        maps.set(field.name, entries);
        this.#entry(field, reader.bytes(), depth, entries);
      } else {
        // Of several, one reader takes the last, and another merges them.
        if (values.has(field.name)) throw new Unreadable(`${field} is there twice`);
        if (field.oneof) {
          if (oneofs.has(field.oneof)) throw new Unreadable(`${field.oneof} has two members`);
          oneofs.add(field.oneof);
        }
        values.set(field.name, this.#value(kindOf(field), { reader, wire, depth, field }));
      }
    }
    for (const [name, entries] of maps) values.set(name, Object.fromEntries(entries));
    for (const field of type.fields) {
      if (values.has(field.name)) continue;
      const value = defaultOf(field);
      if (value === undefined) continue;
      this.#count();
      values.set(field.name, value);
    }
    return Object.fromEntries(values);
  }

  #count(): void {
    if (this.#left-- === 0) throw new Unreadable("it has too many values");
  }

  /** One element of a list, or all of a packed one. */
  #element(kind: Kind, at: Place, list: MessageValue[]): void {
    const isPackable = !("message" in kind) && wireOf(kind) !== LEN;
    if (!isPackable || at.wire !== LEN) {
      list.push(this.#value(kind, at));
      return;
    }
    const reader = new WireReader(at.reader.bytes());
    while (!reader.done) {
      this.#count();
      list.push(this.#value(kind, { ...at, reader, wire: wireOf(kind) }));
    }
  }

  /** An entry of a map: a message with a key (1) and a value (2), of which each may be left out. */
  #entry(
    field: DescField & { fieldKind: "map" },
    bytes: Uint8Array,
    depth: number,
    entries: Map<string, MessageValue>,
  ): void {
    if (depth + 1 > GRPC_NESTING_MAX) throw new Unreadable("its messages are nested too deeply");
    const reader = new WireReader(bytes);
    const kinds: Kind[] = [{ scalar: field.mapKey }, kindOf(field)];
    const found: (MessageValue | undefined)[] = [undefined, undefined];
    while (!reader.done) {
      const { number, wire } = reader.tag();
      const kind = kinds[number - 1];
      if (!kind || found[number - 1] !== undefined) throw new Unreadable(`an entry of ${field} is malformed`);
      found[number - 1] = this.#value(kind, { reader, wire, depth: depth + 1, field });
    }
    const key = `${found[0] ?? zeroOf(kinds[0])}`;
    if (entries.has(key)) throw new Unreadable(`${field} has a key twice`);
    const value = found[1] ??
      ("message" in kinds[1]
        ? this.message(kinds[1].message, new Uint8Array(), depth + 2)
        : zeroOf(kinds[1]));
    entries.set(key, value);
  }

  #value(kind: Kind, { reader, wire, depth, field }: Place): MessageValue {
    if ("message" in kind) {
      if (wire !== LEN) throw wrongType(field);
      return this.message(kind.message, reader.bytes(), depth + 1);
    }
    if (wire !== wireOf(kind)) throw wrongType(field);
    if ("enum" in kind) {
      const number = Number(reader.signed(32));
      const name = kind.enum.value[number]?.name;
      if (name === undefined && !kind.enum.open) throw new Unreadable(`${field} has an unknown value`);
      return name ?? number;
    }
    switch (kind.scalar) {
      case STRING:
        return this.#scrub(reader.text());
      case BYTES:
        return reader.bytes().toBase64();
    }
    return reader.scalar(kind.scalar);
  }
}

/** Where a value is. */
interface Place {
  reader: WireReader;
  wire: number;
  depth: number;
  field: DescField;
}

function wireOf(kind: Kind): number {
  return "scalar" in kind ? WIRE[kind.scalar] : "enum" in kind ? VARINT : LEN;
}

function wrongType(field: DescField): Unreadable {
  return new Unreadable(`${field} has the wire type of another field`);
}

function isDelimited(field: DescField): boolean {
  return "delimitedEncoding" in field && field.delimitedEncoding === true;
}

/** Value of a field that a message does not have; `undefined` for one that may be absent. */
function defaultOf(field: DescField): MessageValue | undefined {
  if (field.fieldKind === "list") return [];
  if (field.fieldKind === "map") return {};
  if (field.fieldKind === "message" || field.presence !== IMPLICIT) return undefined;
  return zeroOf(kindOf(field));
}

function zeroOf(kind: Kind): MessageValue {
  if ("enum" in kind) return kind.enum.value[0]?.name ?? kind.enum.values[0]?.name ?? 0;
  const scalar = "scalar" in kind ? kind.scalar : STRING;
  return scalar === BOOL ? false : scalar === STRING || scalar === BYTES ? "" : 0;
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Reads the wire format. */
export class WireReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  get done(): boolean {
    return this.#at === this.#bytes.length;
  }

  tag(): { number: number; wire: number } {
    const tag = this.#count32();
    const [number, wire] = [tag >>> 3, tag & 7];
    if (GROUPS.includes(wire)) throw new Unreadable("it has a group");
    if (number === 0 || wire > I32) throw new Unreadable("it is no message of protobuf");
    return { number, wire };
  }

  bytes(): Uint8Array {
    return this.#take(this.#count32());
  }

  /** Reads a field whole. @returns its number, and its bytes with the tag */
  field(): { number: number; bytes: Uint8Array } {
    const from = this.#at;
    const { number, wire } = this.tag();
    if (wire === LEN) this.bytes();
    else if (wire === VARINT) this.#varint();
    else this.#take(wire === I64 ? 8 : 4);
    return { number, bytes: this.#bytes.subarray(from, this.#at) };
  }

  text(): string {
    try {
      return utf8.decode(this.bytes());
    } catch (error) {
      throw error instanceof Unreadable ? error : new Unreadable("a text in it is not UTF-8");
    }
  }

  /** A tag or a length, which mostly is one byte. */
  #count32(): number {
    const byte = this.#bytes[this.#at];
    if (byte < 0x80) {
      this.#at++;
      return byte;
    }
    return Number(this.unsigned(32));
  }

  unsigned(bits: number): bigint {
    const value = this.#varint();
    if (BigInt.asUintN(bits, value) !== value) throw new Unreadable("a number in it is out of range");
    return value;
  }

  signed(bits: number): bigint {
    const value = BigInt.asIntN(64, this.#varint());
    if (BigInt.asIntN(bits, value) !== value) throw new Unreadable("a number in it is out of range");
    return value;
  }

  /** @param type `ScalarType` of a number or a bool */
  scalar(type: number): MessageValue {
    switch (type) {
      case 1:
        return real(this.#fixed(8, (at) => this.#view.getFloat64(at, true)));
      case 2:
        return real(this.#fixed(4, (at) => this.#view.getFloat32(at, true)));
      case 3:
        return integer(this.signed(64));
      case 4:
        return integer(this.unsigned(64));
      case 5:
        return integer(this.signed(32));
      case 6:
        return integer(this.#fixed(8, (at) => this.#view.getBigUint64(at, true)));
      case 7:
        return this.#fixed(4, (at) => this.#view.getUint32(at, true));
      case BOOL:
        return this.unsigned(1) === 1n;
      case 13:
        return integer(this.unsigned(32));
      case 15:
        return this.#fixed(4, (at) => this.#view.getInt32(at, true));
      case 16:
        return integer(this.#fixed(8, (at) => this.#view.getBigInt64(at, true)));
      case 17:
        return integer(zigzag(this.unsigned(32)));
      case 18:
        return integer(zigzag(this.unsigned(64)));
    }
    throw new Unreadable("it has a type that is not known");
  }

  #fixed<T>(size: number, read: (at: number) => T): T {
    const at = this.#at;
    this.#take(size);
    return read(at);
  }

  #take(count: number): Uint8Array {
    if (count > this.#bytes.length - this.#at) throw new Unreadable("it ends too early");
    return this.#bytes.subarray(this.#at, this.#at += count);
  }

  #varint(): bigint {
    let value = 0n;
    for (let count = 0; count < VARINT_MAX; count++) {
      if (this.done) throw new Unreadable("it ends too early");
      const byte = this.#bytes[this.#at++];
      value |= BigInt(byte & 0x7f) << BigInt(7 * count);
      if (byte < 0x80) {
        if (value >= 2n ** 64n) break;
        return value;
      }
    }
    throw new Unreadable("a number in it is too long");
  }
}

function zigzag(value: bigint): bigint {
  return (value >> 1n) ^ -(value & 1n);
}

function integer(value: bigint): MessageValue {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : `${value}`;
}

function real(value: number): MessageValue {
  return Number.isFinite(value) ? value : `${value}`;
}
