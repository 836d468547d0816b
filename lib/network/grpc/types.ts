/** The services that descriptors describe, and the fields of their requests. */
import type { DescField, DescMessage, DescMethod } from "@bufbuild/protobuf";
import { nearest, suggestion } from "../../base/text/mod.ts";

/** A method whose messages can be read. */
export interface GrpcMethod {
  input: DescMessage;
  /** the client sends any number of messages */
  streams: boolean;
}

/** A step from a value into it: the name of a field, a key of a map, or an index. */
type Step = string | number;

/** Where a step may lead. */
type Value = { message: DescMessage } | { list: Value } | { map: Value } | "scalar";

/** Services by name, of all descriptors of a profile. */
export class GrpcTypes {
  readonly #services: ReadonlyMap<string, ReadonlyMap<string, GrpcMethod>>;
  /** their names in lower case */
  readonly #names: ReadonlySet<string>;

  constructor(methods: Iterable<DescMethod>) {
    const services = new Map<string, Map<string, GrpcMethod>>();
    for (const { name, parent, input, methodKind } of methods) {
      const known = services.get(parent.typeName) ?? new Map<string, GrpcMethod>();
      services.set(parent.typeName, known);
      known.set(name, {
        input,
        streams: methodKind === "client_streaming" || methodKind === "bidi_streaming",
      });
    }
    this.#services = services;
    this.#names = new Set([...services.keys()].map((name) => name.toLowerCase()));
  }

  /** True for a service that is described. */
  has(service: string): boolean {
    return this.#services.has(service);
  }

  /** True for the name of such a service in any case: some servers ignore it. */
  hasInAnyCase(service: string): boolean {
    return this.#names.has(service.toLowerCase());
  }

  find(service: string, method: string): GrpcMethod | undefined {
    return this.#services.get(service)?.get(method);
  }

  /**
   * Checks a field that a rule reads, which no type of the rule's language knows.
   *
   * @param steps from the message on, such as `["topic"]`
   * @returns the problem, `undefined` for a field of at least one request
   */
  problem(steps: readonly Step[]): string | undefined {
    let values: Value[] = [...this.#services.values()].flatMap((methods) =>
      [...methods.values()].map(({ input }): Value => ({ message: input }))
    );
    for (const [at, step] of steps.entries()) {
      const next = values.flatMap((value) => stepInto(value, step));
      if (next.length > 0) {
        values = next;
        continue;
      }
      const place = steps.slice(0, at).join(".");
      const near = typeof step === "string" ? nearest(step, namesOf(values)) : undefined;
      return `${
        place === "" ? "no message of the profile's descriptors" : `nothing at ${place}`
      } has a field ` +
        `${step}${near === undefined ? "" : `; ${suggestion(near)}`}`;
    }
    return undefined;
  }
}

function stepInto(value: Value, step: Step): Value[] {
  if (value === "scalar") return [];
  if ("list" in value) return typeof step === "number" ? [value.list] : [];
  if ("map" in value) return [value.map];
  const field = value.message.fields.find(({ name }) => name === step);
  return field ? [valueOf(field)] : [];
}

function valueOf(field: DescField): Value {
  const one: Value = field.message ? { message: field.message } : "scalar";
  if (field.fieldKind === "list") return { list: one };
  return field.fieldKind === "map" ? { map: one } : one;
}

function namesOf(values: readonly Value[]): Set<string> {
  return new Set(
    values.flatMap((value) =>
      typeof value === "object" && "message" in value ? value.message.fields.map(({ name }) => name) : []
    ),
  );
}

/**
 * Opens descriptors that {@linkcode loadDescriptors} has checked. The library is loaded with the first ones.
 *
 * @param descriptors a `FileDescriptorSet`
 */
export async function openTypes(descriptors: Uint8Array): Promise<GrpcTypes> {
  const [{ createFileRegistry, fromBinary }, { FileDescriptorSetSchema }] = await Promise.all([
    import("@bufbuild/protobuf"),
    import("@bufbuild/protobuf/wkt"),
  ]);
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, descriptors));
  return new GrpcTypes(methodsOf(registry));
}

function* methodsOf(registry: Iterable<{ kind: string }>): Iterable<DescMethod> {
  for (const each of registry) {
    if (each.kind === "service") yield* (each as unknown as { methods: DescMethod[] }).methods;
  }
}
