/** Connections that are relayed without inspection: their events, and rules that change on the way. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { compileLayers } from "../../../lib/policy/mod.ts";
import { TestNet, type TestNetOptions } from "../../helper/net.ts";
import { fixedUpstream, rawUpstream } from "../../helper/net_client.ts";
