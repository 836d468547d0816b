/**
 * Private addresses (docs/design/contracts/05-policy.md §5, "Private addresses"): a rule on a name, a method
 * or a time opens none of them. Only a rule that distinguishes the address from a public one does.
 */
import type { Event } from "../../event/mod.ts";
import { isPrivateHost } from "../../base/address/mod.ts";
import { resetCost } from "./cel.ts";
import type { CompiledRule } from "./compile.ts";
import { DEFAULT_RULES } from "./defaults.ts";
import { FlatEvent } from "./field.ts";
import { withValue } from "./rewrite.ts";

/** Public addresses, one of which replaces a private one, to check whether a rule distinguishes them. */
const PUBLIC_V4 = ["192.0.2.1", "198.51.100.1"];
const PUBLIC_V6 = ["2001:db8::1", "2001:db8:1::1"];

/** Where events of one kind have their addresses. */
interface AddressField {
  /** addresses and names */
  read(event: Event): readonly string[] | undefined;
  /** Copies the event with one address, wherever it has it. */
  write(event: Event, address: string): Event;
}

/** Fields by the built-in rule on them. */
const FIELDS: Record<string, AddressField> = {
  "block-private-http": {
    read: ({ http }) => http?.request?.host === undefined ? undefined : [http.request.host],
    write(event, address) {
      const { host, headers } = event.http!.request;
      const changed = withValue(event, "http.request.host", address);
      if (headers?.["host"] === undefined) return changed;
      const named = headers["host"].map((value) => value.replace(bracketed(host), bracketed(address)));
      return withValue(changed, "http.request.headers", { ...headers, host: named });
    },
  },
  "block-private-dns": {
    read: ({ dns }) => dns?.response?.answers,
    write: (event, address) => withValue(event, "dns.response.answers", [address]),
  },
};

/** Keeps the built-in blocks of private addresses active before rules that do not name such an address. */
export class PrivateAddressGuard {
  readonly #blocks: readonly { block: CompiledRule; field: AddressField }[];

  /** @param rules the enabled rules, in order */
  constructor(rules: readonly CompiledRule[]) {
    this.#blocks = rules
      .filter(({ rule }) =>
        rule.layer === "default" && rule.action === "block" && Object.hasOwn(FIELDS, rule.id)
      )
      .map((block) => ({ block, field: FIELDS[block.rule.id] }));
  }

  /** True when an allow or ask that matches an event does not name each private address in it. */
  overlooks(rule: CompiledRule, event: Event): boolean {
    return this.#blocks.some(({ block, field }) => {
      // Behind the block, the event has passed it.
      if (rule.order > block.order) return false;
      const addresses = field.read(event);
      if (addresses === undefined) return false;
      // The built-in rules test no more than this; running one costs as much as the rest of a decision.
      if (DEFAULT_RULES.includes(block.rule) ? !addresses.some(isPrivateHost) : !holds(block, event)) {
        return false;
      }
      const found = addresses.filter((address) => holds(block, field.write(event, address)));
      // If no address alone is blocked, a rule file has replaced the built-in condition by another.
      return found.length === 0 || found.some((address) => !names(rule, field, event, address));
    });
  }
}

/** True when a rule matches an address and no public one in its place. */
function names(rule: CompiledRule, field: AddressField, event: Event, address: string): boolean {
  // The first one may be this machine's own, in a laboratory.
  const other = (address.includes(":") ? PUBLIC_V6 : PUBLIC_V4).find((each) => !isPrivateHost(each))!;
  return holds(rule, field.write(event, address)) && !holds(rule, field.write(event, other));
}

function holds({ program }: CompiledRule, event: Event): boolean {
  resetCost();
  try {
    return program(new FlatEvent(event)) === true;
  } catch {
    return false;
  }
}

function bracketed(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}
