/** Reading messages of gRPC by descriptors: hostile bytes, limits, and what descriptors know of fields. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { createFileRegistry, fromBinary, toJson } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { SbxError } from "../../../lib/base/error/mod.ts";
import {
  decodeMessage,
  GRPC_MESSAGE_MAX,
  GRPC_NESTING_MAX,
  GRPC_VALUES_MAX,
  loadDescriptors,
  openTypes,
  Unreadable,
} from "../../../lib/network/grpc/mod.ts";
import { echoDescriptors } from "../../helper/descriptors.ts";

const types = await openTypes(echoDescriptors());
const { input } = types.find("test.Echo", "Unary")!;
const same = (text: string) => text;
const decode = (...bytes: number[]) => decodeMessage(input, new Uint8Array(bytes), same);
const bytesOf = (text: string) => [...new TextEncoder().encode(text)];

Deno.test("bytes that two readers may read differently are not read", () => {
  const cases: Record<string, number[]> = {
    "a text as a number, which a server skips": [0x08, 1],
    "a number as a text": [0x12, 1, 0x61],
    "a field twice": [0x0a, 1, 0x61, 0x0a, 1, 0x62],
    "a message twice": [0x32, 0, 0x32, 0],
    "two members of a oneof": [0x52, 1, 0x61, 0x5a, 1, 0x62],
    "a key twice": [0x3a, 0, 0x3a, 0],
    "an entry with a third field": [0x3a, 2, 0x18, 1],
    "an unknown field": [0x78, 1],
    "field 0": [0x00, 1],
    "a group": [0x0b, 0x0c],
    "an end of a group": [0x0c],
    "wire type 7": [0x0f],
    "a text that is not UTF-8": [0x0a, 1, 0xff],
    "a text that is cut": [0x0a, 5, 0x61],
    "a length beyond 32 bits": [0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f],
    "an int32 of more bits": [0x10, 0xff, 0xff, 0xff, 0xff, 0x0f],
    "a bool of 2": [0x18, 2],
    "a varint of 11 bytes": [0x10, ...Array(10).fill(0x80), 1],
    "a varint beyond 64 bits": [0x10, ...Array(9).fill(0xff), 2],
    "a packed list that is cut": [0x2a, 1, 0x80],
    "a double of 7 bytes": [0x61, 0, 0, 0, 0, 0, 0, 0],
  };
  for (const [name, bytes] of Object.entries(cases)) {
    assertThrows(() => decode(...bytes), Unreadable, undefined, name);
  }
});

Deno.test("an absent field is its default, unless it may be absent", () => {
  const { inner, user, ...rest } = decode();
  assertEquals([inner, user], [undefined, undefined]);
  assertEquals(rest, {
    ...{ parent: "", count: 0, dry_run: false, tags: [], sizes: [], labels: {}, state: "UNKNOWN", data: "" },
    rate: 0,
  });
  assertEquals(decode(0x40, 7).state, 7);
  const { labels } = decode(0x3a, 11, 0x0a, 9, ...bytesOf("__proto__"));
  assertEquals(Object.entries(labels), [["__proto__", ""]]);
});

Deno.test("length, nesting and number of values have limits", () => {
  const nested = (depth: number) => {
    let bytes: number[] = [];
    for (let at = 1; at < depth; at++) {
      const size = bytes.length < 0x80 ? [bytes.length] : [bytes.length & 0x7f | 0x80, bytes.length >> 7];
      bytes = [0x32, ...size, ...bytes];
    }
    return bytes;
  };
  decode(...nested(GRPC_NESTING_MAX));
  assertThrows(() => decode(...nested(GRPC_NESTING_MAX + 1)), Unreadable, "nested too deeply");
  const tags = (count: number) =>
    decodeMessage(input, new Uint8Array(count * 2).fill(0x22).map((byte, at) => at % 2 ? 0 : byte), same);
  assertEquals((tags(60_000).tags as unknown[]).length, 60_000);
  assertThrows(() => tags(GRPC_VALUES_MAX + 1), Unreadable, "too many values");
  assertThrows(
    () => decodeMessage(input, new Uint8Array(GRPC_MESSAGE_MAX + 1), same),
    Unreadable,
    "too long",
  );
});

Deno.test("texts are scrubbed, also as keys", () => {
  const scrub = (text: string) => text.replaceAll("secret", "ref");
  const bytes = [0x0a, 6, ...bytesOf("secret"), 0x3a, 8, 0x0a, 6, ...bytesOf("secret")];
  const { parent, labels } = decodeMessage(input, new Uint8Array(bytes), scrub);
  assertEquals([parent, labels], ["ref", { ref: "" }]);
});

Deno.test("hostile bytes are read as the library reads them, or not at all", () => {
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, echoDescriptors()));
  const schema = registry.getMessage("test.Request")!;
  const random = generator(47);
  let read = 0;
  for (let round = 0; round < 20_000; round++) {
    const bytes = mutate(SEEDS[round % SEEDS.length], random);
    let own: Record<string, unknown>;
    try {
      own = decodeMessage(input, bytes, same);
    } catch (error) {
      assert(error instanceof Unreadable, `${round}: ${error}`);
      continue;
    }
    read++;
    const json = toJson(schema, fromBinary(schema, bytes), {
      alwaysEmitImplicit: true,
      useProtoFieldName: true,
    });
    assertEquals(alike(own), alike(json), `${round}: ${bytes.toHex()}`);
  }
  assert(read > 1000, `${read}`);
});

const SEEDS = [
  [0x0a, 3, 0x61, 0x62, 0x63, 0x10, 5, 0x18, 1, 0x22, 1, 0x61, 0x22, 1, 0x62],
  [0x2a, 3, 1, 2, 3, 0x28, 4, 0x32, 4, 0x0a, 2, 0x78, 0x79, 0x40, 1],
  [0x3a, 6, 0x0a, 1, 0x6b, 0x12, 1, 0x76, 0x4a, 2, 0, 1, 0x52, 1, 0x75],
  [
    0x61,
    0,
    0,
    0,
    0,
    0,
    0,
    0xf8,
    0x3f,
    0x5a,
    1,
    0x67,
    0x10,
    0xff,
    0xff,
    0xff,
    0xff,
    0xff,
    0xff,
    0xff,
    0xff,
    0xff,
    1,
  ],
].map((bytes) => new Uint8Array(bytes));

/** Numbers as texts: protobuf's JSON has integers of 64 bits as texts. */
function alike(value: unknown): unknown {
  if (typeof value === "number") return `${value}`;
  if (Array.isArray(value)) return value.map(alike);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, alike(each)]).toSorted());
}

function mutate(seed: Uint8Array, random: (below: number) => number): Uint8Array {
  const bytes = [...seed];
  for (let changes = random(4); changes > 0; changes--) {
    const at = random(bytes.length + 1);
    const change = random(4);
    if (change === 0) bytes[Math.min(at, bytes.length - 1)] = random(256);
    else if (change === 1) bytes.splice(at, 1);
    else if (change === 2) bytes.splice(at, 0, random(256));
    else bytes.push(...SEEDS[random(SEEDS.length)].slice(0, random(12)));
  }
  return new Uint8Array(bytes);
}

/** Numbers by xorshift, the same in every run. */
function generator(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

Deno.test("descriptors know the fields that a rule may name", () => {
  for (const steps of [[], ["parent"], ["inner", "inner", "count"], ["tags", 0], ["labels", "any"]]) {
    assertEquals(types.problem(steps), undefined, `${steps}`);
  }
  assertEquals(
    types.problem(["parnt"]),
    'no message of the profile\'s descriptors has a field parnt; did you mean "parent"?',
  );
  assert(types.problem(["inner", "cuont"])!.includes("nothing at inner has a field cuont"));
  assert(types.problem(["parent", "x"]));
  assert(types.problem(["tags", "x"]));
});

Deno.test("a file that is not a set of descriptors is an error with its name and the cause", async () => {
  const dir = await Deno.makeTempDir({ prefix: "sbx-grpc-" });
  try {
    const cases: [name: string, bytes: Uint8Array<ArrayBuffer>, problem: string][] = [
      ["cut.binpb", echoDescriptors().slice(0, -7), "is not a set of descriptors"],
      ["text.binpb", new TextEncoder().encode('syntax = "proto3";'), "is not a set of descriptors"],
      ["empty.binpb", new Uint8Array(), "describes no service"],
    ];
    for (const [name, bytes, problem] of cases) {
      await Deno.writeFile(`${dir}/${name}`, bytes);
      const error = await assertRejects(() => loadDescriptors([`${dir}/${name}`]), SbxError);
      assertEquals(error.code, "profile.invalid");
      assert(error.message.includes(`${dir}/${name}`) && error.message.includes(problem), error.message);
      assert(error.hint!.includes("--include_imports"));
    }
    const missing = await assertRejects(() => loadDescriptors([`${dir}/none.binpb`]), SbxError);
    assert(missing.message.includes("is missing"));
    await Deno.writeFile(`${dir}/a.binpb`, echoDescriptors());
    const changed = echoDescriptors([{ number: 20, name: "more", type: 9, label: 1 }]);
    await Deno.writeFile(`${dir}/b.binpb`, changed);
    assertEquals(await loadDescriptors([`${dir}/a.binpb`, `${dir}/a.binpb`]), echoDescriptors());
    const two = await assertRejects(() => loadDescriptors([`${dir}/a.binpb`, `${dir}/b.binpb`]), SbxError);
    assert(two.message.includes("describe test/echo.proto in different ways"), two.message);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("comments of descriptors are left out before anything is made of them, and so is what is too long", async () => {
  const dir = await Deno.makeTempDir({ prefix: "sbx-grpc-" });
  const path = `${dir}/long.binpb`;
  const file = echoDescriptors();
  try {
    // Places of nine bytes, in front of the file and behind it: the library would make an object of each.
    const places = new Uint8Array(3 * 1024 * 1024).map((_, at) => at % 9 === 0 ? 0x0a : at % 9 === 1 ? 7 : 0);
    const comments = [0x4a, ...length(places.length)];
    const own = file.subarray(1 + length(file.length - 3).length);
    const size = own.length + 2 * (comments.length + places.length);
    const parts = [[0x0a, ...length(size)], comments, places, own, comments, places];
    await Deno.writeFile(
      path,
      new Uint8Array(await new Blob(parts.map((part) => new Uint8Array(part))).bytes()),
    );
    assertEquals(await loadDescriptors([path]), file);
    await Deno.writeFile(path, new Uint8Array(3 * 1024 * 1024).map((_, at) => at % 2 === 0 ? 0x0a : 0));
    const error = await assertRejects(() => loadDescriptors([path]), SbxError);
    assert(error.message.includes("bytes without comments"), error.message);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

/** A length as protobuf writes it. */
function length(count: number): number[] {
  return count < 0x80 ? [count] : [count & 0x7f | 0x80, ...length(count >>> 7)];
}
